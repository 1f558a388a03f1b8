"""Declarations of sources.yml and tables.yml, as frozen typed models."""
