"""What a role of grants.yml may see: here, by what is read for it; on AWS, by Lake Formation."""
