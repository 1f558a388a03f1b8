"""Ingestion: plan batches of raw records from what has landed for a table."""
