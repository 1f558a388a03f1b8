"""Logs that say which run, pipeline, table and batch they are about; one file per run."""
