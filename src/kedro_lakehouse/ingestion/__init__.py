"""Ingestion: what has landed for a table becomes planned batches of raw records."""
