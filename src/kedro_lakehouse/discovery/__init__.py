"""Discovery: what lies in folders, buckets and catalogs, and what of it changed since the last look."""
