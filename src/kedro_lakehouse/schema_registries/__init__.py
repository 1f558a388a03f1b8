"""Registries of schemas, and how records that name a schema there become JSON."""
