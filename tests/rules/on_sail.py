"""Random histories and the contract's cases by the rules alone, on Sail, a Spark Connect server.

Usage: ``python -m rules.on_sail SEED HISTORIES``, so many histories a design. The last line of what it
prints is JSON: ``differences`` from the model by design and batch, in ``erasures`` those after an erasure, in
``faults`` where each planted fault was found, and in ``cases`` how each case's tables differ from what it
expects. It is a process of its own: a client of Spark Connect and a classic one do not fit into one.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # before PySpark is imported

from conformance.cases import Found, judge
from conformance.comparing import row_differences
from conformance.events import rules_of
from model.table import Table
from property.histories import DESIGNS, table_of
from property.judging import versions_compared
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from rules.cases import CASES
from rules.erasures import differences as erased_differences
from rules.faults import FAULTS
from rules.frames import Planning, Tables

if TYPE_CHECKING:
    from property.histories import Design

SMALL = 10
"""Histories in a table with truncates: each speaks of the whole table."""
ROUNDS = 10
"""How often a planted fault is looked for, each time in other histories: only rare ones show some."""


def differences(
    session: SparkSession, design: Design, number: int, seed: int, planning: Planning
) -> dict[str, list[str]]:
    """How the tables of a design differ from the model's after the first batch after which they do."""
    case = table_of(design, min(number, SMALL) if design.truncates else number, seed)
    first = case.steps[0]
    tables, model = Tables(session, case, planning), Table(rules_of(first.options, first.columns))
    for batch, step in enumerate(case.steps, 1):
        model.apply(step.events)
        tables.apply(step.events)
        versions = versions_compared(model.history, tables.rows("history"), model.rules.tombstones)
        words = row_differences(model.current, tables.rows("current"), "current")
        words += row_differences(*versions, "history")
        if words:
            return {f"{design.name}, batch {batch}": words[:4]}
    return {}


def fault_differences(
    session: SparkSession, number: int, seed: int, planning: Planning
) -> dict[str, list[str]]:
    """The first differences from the model that a planted fault makes."""
    for other in range(seed, seed + ROUNDS):
        if found := differences(session, DESIGNS[0], number, other, planning):
            return found
    return {}


def case_differences(session: SparkSession, case: str) -> list[str]:
    """How the tables of a case differ from what it expects."""
    words = []
    for one in CASES[case]:
        tables = Tables(session, one)
        for step in one.steps:
            tables.apply([e for e in step.events if tables.rules.reason(e) is None])
        found = Found(current=tables.rows("current"), history=tables.rows("history"))
        words += judge(one, found, only_rows=True)
    return words


def main(seed: str, number: str) -> None:
    server = SparkConnectServer(port=0)
    server.start(background=True)
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    found: dict[str, list[str]] = {}
    for design in DESIGNS:
        found |= differences(session, design, int(number), int(seed), Planning())
    erasures: dict[str, list[str]] = {}
    for design in DESIGNS:
        of_it = min(int(number), SMALL) if design.truncates else int(number)
        erasures |= erased_differences(session, design, of_it, int(seed))
    faults = {
        fault: fault_differences(session, int(number), int(seed), planning)
        for fault, planning in FAULTS.items()
    }
    cases = {case: case_differences(session, case) for case in CASES}
    result = {"differences": found, "erasures": erasures, "faults": faults, "cases": cases}
    print(json.dumps(result, default=str))  # noqa: T201
    session.stop()  # while the server lives: a client that ends after it retries for ten minutes
    server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
