"""Search of files for values: by a reader of each file's kind, as the bytes lie there."""
