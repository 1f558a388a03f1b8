"""The Spark session and the metadata catalog: lazy, shared, and set up by configuration."""
