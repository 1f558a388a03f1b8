"""The commit protocol under every schedule: several writers in one process, without a JVM."""
