"""Columns found by meaning: profiles, signatures, embedders, indexes, and one scorer."""
