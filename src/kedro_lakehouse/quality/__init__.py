"""Expectations about rows and tables, and how they are answered: frames in, results out."""
