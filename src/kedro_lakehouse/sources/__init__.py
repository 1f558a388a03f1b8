"""Sources: what has landed, in which order, and what its files hold. No JVM."""
