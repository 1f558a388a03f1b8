"""Fixtures of the tests that run pipelines and commands in this process."""

from harness.commands import answer, call, refusal

__all__ = ["answer", "call", "refusal"]
