"""Withdrawals of ``kedro lakehouse quarantine``: a batch's failing events, and the decisions so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.show import print_json, print_table, say_cut

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


def exclude_batch(project: Project, name: TableName, batch: int, *, as_json: bool) -> None:
    """Withdraw the failing events of a batch, and tell how many."""
    from dataclasses import asdict

    from kedro_lakehouse.cli.rebuild import recorded
    from kedro_lakehouse.operations.exclude import exclude

    done = recorded(project, f"quarantine {name} --batch {batch}", lambda: exclude(project.bind(name), batch))
    if as_json:
        print_json(asdict(done))
        return
    click.echo(
        f"{name}, batch {batch}: {done.withdrawn:,} events are withdrawn (decision {done.decision}). "
        f"Publish the rest: kedro run --namespaces={name}"
    )


def list_decisions(project: Project, name: TableName | None, *, limit: int, as_json: bool) -> None:
    """List withdrawn events: by decision, batch and expectation, or of one table each with its place."""
    from collections import Counter

    from kedro_lakehouse.ops.store import DECISIONS

    rows = project.ops.read(DECISIONS, of_table=str(name) if name else None)
    found: list[dict[str, Any]]
    facts: tuple[str, ...]
    if name is None:
        facts = ("table", "batch", "decision", "decided_at", "expectation")
        counted = Counter(tuple(row[f] for f in facts) for row in rows)
        found = [dict(zip(facts, key, strict=True)) | {"events": n} for key, n in counted.items()]
    else:
        facts = ("batch", "file", "row", "expectation", "decision", "decided_at")
        found = [{f: row[f] for f in facts} for row in rows]
    found.sort(
        key=lambda row: (
            row["decided_at"],
            row.get("table") or "",
            row.get("file") or "",
            row.get("row") or 0,
        )
    )
    shown = found[: limit or None]
    if as_json:
        print_json(shown)
    elif shown:
        print_table(tuple(shown[0]), [list(row.values()) for row in shown], right=("batch", "row", "events"))
    else:
        click.echo("No event is withdrawn.")
    if len(found) > len(shown):
        say_cut(len(shown))
