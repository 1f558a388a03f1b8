"""The meaning of changes: pure functions from frames to frames, without Kedro and without I/O."""
