"""What an operator asks of a table: go back, rebuild, drop, exclude, replay, archive, maintain, convert."""
