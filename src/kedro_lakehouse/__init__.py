"""Database changes, files and extracts become trustworthy lakehouse tables on Spark, with Kedro."""

__version__ = "0.1.0"
