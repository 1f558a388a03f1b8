"""Databases that are asked in SQL: one module a dialect."""
