"""Hudi runs on Spark 3.5: `make test-spark35` runs these tests, `make test` cannot."""

from __future__ import annotations

import pytest
from harness.commands import answer, call, refusal

from kedro_lakehouse.session.line import spark_line

__all__ = ["answer", "call", "refusal"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if spark_line() != "spark35":
        reason = "Hudi runs on Spark 3.5: `make test-spark35`"
        for item in (i for i in items if i.path.parent.name == "hudi"):
            item.add_marker(pytest.mark.skip(reason=reason))
