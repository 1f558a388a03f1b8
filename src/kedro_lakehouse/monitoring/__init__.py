"""What a run tells of itself and of its tables: log, summary, record, metrics, alerts."""
