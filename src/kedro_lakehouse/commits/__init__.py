"""How a stored table is changed: planned, staged, audited, published with its bookmark, acknowledged."""
