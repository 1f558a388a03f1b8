"""What an operator asks for: roll back, rebuild, drop, exclude, replay, archive, maintain, convert."""
