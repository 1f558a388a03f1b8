"""The metadata service over HTTP: datasets, snapshots and queries, as each token's role may see them."""
