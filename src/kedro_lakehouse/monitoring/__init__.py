"""What a run reports about itself and its tables: log, summary, row of the run, metrics, alerts."""
