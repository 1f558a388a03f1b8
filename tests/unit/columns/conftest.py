"""Fixtures of the column search's tests."""

from __future__ import annotations

from harness.columns_lake import embedder, search, signatures

__all__ = ["embedder", "search", "signatures"]
