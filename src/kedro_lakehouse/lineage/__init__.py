"""Lineage of runs, tables and columns, as OpenLineage events."""
