"""Models that turn short texts into vectors; each is an entry point of ``kedro_lakehouse.embedders``."""
