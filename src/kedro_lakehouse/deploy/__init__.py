"""What runs a project elsewhere, rendered: CloudFormation for Glue and EMR Serverless, a DAG for Airflow."""
