"""Decoders: from raw records, as a source writes them, to change events."""
