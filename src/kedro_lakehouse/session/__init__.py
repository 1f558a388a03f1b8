"""The Spark session and the metadata catalog: lazy, shared, and told what to be by configuration."""
