"""How good the search is, measured on published sets."""
