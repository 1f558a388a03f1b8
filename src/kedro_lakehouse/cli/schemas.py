"""``kedro lakehouse schemas``: the versions of the schemas that records of topics name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from kedro_lakehouse.cli.options import no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_rows


@click.command()
@click.argument("topic", required=False)
@project_options
@no_roles("Schemas of records are shown to no role:")
def schemas(*, topic: str | None, as_json: bool) -> None:
    """List the versions of the schemas that records named, of one topic or all.

    Shows what each version changed, whether it fits the `compatibility` of the table's source, and since
    when it is in use. A version that does not fit: its records go to quarantine; with a wider mode,
    `kedro lakehouse quarantine TABLE --replay` brings them back. A version without a time is in the
    registry, and no record named it yet. The registry is not asked: these are the schemas that are kept in
    ops.schemas. Times are UTC. --json has the schemas' texts, and why a version does not fit.
    """
    from kedro_lakehouse.errors import UnknownNameError
    from kedro_lakehouse.monitoring.schema_versions import schema_versions

    found = [asdict(one) for one in schema_versions(open_project())]
    topics = sorted({one["topic"] for one in found})
    if topic is not None and topic not in topics:
        raise UnknownNameError(
            option="TOPIC", kind="topic with schemas", name=topic, known=topics,
            remedy="`kedro lakehouse schemas` lists all.",
        )  # fmt: skip
    chosen = [one for one in found if topic in (None, one["topic"])]
    nothing = "No record has named a schema yet: a source with `schema_registry` in sources.yml reads such."
    print_rows(
        chosen, as_json=as_json, nothing=nothing, cells=_cells, narrow=_narrow, right=("version", "batch")
    )


def _fits(one: dict[str, Any]) -> str:
    if one["fits"] is None:
        return ""
    return one["mode"] if one["fits"] else f"not {one['mode']}: {one['reason']}"


def _cells(one: dict[str, Any]) -> dict[str, object]:
    since = one["since"]
    return {
        "table": one["table"],
        "subject": one["subject"] or f"{one['topic']} ({one['part']})",
        "version": one["version"] or "",
        "id": one["id"],
        "since": since.replace(microsecond=0) if since else "",
        "batch": one["batch"] or "",
        "fits": _fits(one),
        "changes": ", ".join(one["changes"]),
    }


def _narrow(one: dict[str, Any]) -> dict[str, object]:
    """The cells that fit 80 columns."""
    whole = _cells(one)
    fits = "" if one["fits"] is None else "yes" if one["fits"] else "no"
    return {
        "subject": whole["subject"],
        "version": whole["version"],
        "id": one["id"],
        "fits": fits,
        "changes": whole["changes"],
    }
