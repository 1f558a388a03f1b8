"""Database changes, files and extracts become trustworthy lakehouse tables on Spark, with Kedro."""

import os

__version__ = "0.1.0"

# Arrow chooses its allocator when pyarrow is used first. Its own keeps the pages in which a thread that has
# ended left a buffer, and each run has threads of its own: the loop grew by a megabyte a cycle.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
