"""Apache Hudi, on Spark 3.5."""
