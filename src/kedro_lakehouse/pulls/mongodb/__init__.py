"""Collections of MongoDB: read in the order of their ids, as the bytes that they are."""
