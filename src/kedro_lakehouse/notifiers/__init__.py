"""Notifiers: they send messages when a table fails, recovers, grows stale or has quarantined events."""
