"""A look before a run: mistakes in all declarations at once, and what the next run would do. No JVM."""
