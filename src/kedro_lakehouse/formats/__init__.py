"""Table formats: the only rooms, with the session, that speak to the JVM."""
