"""Pulls: records that a source is asked for land as immutable files, and are ingested like any others."""
