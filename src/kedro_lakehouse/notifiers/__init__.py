"""Notifiers: who is told when a table fails, recovers, grows stale or has events in quarantine."""
