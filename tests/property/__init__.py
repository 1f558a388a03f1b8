"""Random histories: what the package makes of them is what the plain model says, after every batch."""
