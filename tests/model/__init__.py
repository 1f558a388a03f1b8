"""What a table is to hold, worked out slowly and plainly from the contract alone, without Spark.

Nothing here knows the package under test: a test reads the imports of these files and refuses any other.
"""
