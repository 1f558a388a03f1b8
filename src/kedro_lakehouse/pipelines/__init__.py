"""Pipelines: which datasets a table's nodes connect. Nodes are pure functions of frames."""
