"""The project's own records in ``lake.ops``: what was planned, what was committed, which run did it."""
