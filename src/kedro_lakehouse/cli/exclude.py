"""Withdrawals of ``kedro lakehouse quarantine``: a batch's failing events, and the decisions so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.cli.show import print_result, print_rows

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

_OF_AN_EVENT: Final = ("batch", "file", "row", "expectation", "decision", "decided_at")


def exclude_batch(project: Project, name: TableName, batch: int, *, as_json: bool) -> None:
    """Withdraw the failing events of a batch, and tell how many."""
    from dataclasses import asdict

    from kedro_lakehouse.cli.rebuild import recorded
    from kedro_lakehouse.errors import counted
    from kedro_lakehouse.operations.exclude import exclude

    done = recorded(project, f"quarantine {name} --batch {batch}", lambda: exclude(project.bind(name), batch))
    gone = f"{counted(done.withdrawn, 'event')} {'is' if done.withdrawn == 1 else 'are'} excluded"
    text = f"{name}, batch {batch}: {gone} (decision {done.decision})."
    names = ",".join([str(name), *project.declarations.made_from(name)])
    print_result(asdict(done), f"{text} Publish the rest: kedro run --namespaces={names}", as_json=as_json)


def list_decisions(project: Project, name: TableName | None, *, limit: int, as_json: bool) -> None:
    """List excluded events: by decision, batch and expectation, or of one table each with its place."""
    from collections import Counter

    from kedro_lakehouse.ops.store import DECISIONS

    rows = project.ops.read(DECISIONS, of_table=str(name) if name else None)
    found: list[dict[str, Any]]
    if name is None:
        facts = ("table", "batch", "decision", "decided_at", "expectation")
        counted = Counter(tuple(row[f] for f in facts) for row in rows)
        found = [dict(zip(facts, key, strict=True)) | {"events": n} for key, n in counted.items()]
        found.sort(key=lambda row: (row["decided_at"], row["table"]))
    else:
        found = [{f: row[f] for f in _OF_AN_EVENT} for row in rows]
        found.sort(key=lambda row: (row["decided_at"], row["file"] or "", row["row"] or 0))
    right = ("batch", "row", "events")
    print_rows(found, as_json=as_json, nothing="No event is excluded.", limit=limit, right=right)
