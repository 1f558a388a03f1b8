"""Expectations: what they say of rows and tables, and how they are answered. Frames in, results out."""
