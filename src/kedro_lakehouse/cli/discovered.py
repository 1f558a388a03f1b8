"""``kedro lakehouse discovered``: what discovery found, and what changed between its versions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import open_project, project_options
from kedro_lakehouse.cli.show import print_json, print_rows, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.discovery.changes import FoundVersion


@click.command()
@click.argument("name", required=False)
@project_options
def discovered(*, name: str | None, as_json: bool) -> None:
    """List what `kedro run --pipelines=discovery` found, or the columns and versions of one dataset.

    Of each dataset: its kind, rows (with ~ where they are estimated), files, bytes, the likeliest key, and
    how many of its columns look personal. With NAME: each column with its type and why it looks personal,
    and what changed in each version. Nothing is looked at anew: these are the rows of ops.discovered. Times
    are UTC.
    """
    from kedro_lakehouse.discovery.versions import all_versions, newest_versions
    from kedro_lakehouse.errors import UnknownNameError

    project = open_project()
    if name is None:
        rows = [_facts(one) for one in newest_versions(project.ops)]
        nothing = (
            "Nothing was discovered yet: `kedro run --pipelines=discovery` looks over discovery.yml's places."
        )
        print_rows(
            rows,
            as_json=as_json,
            nothing=nothing,
            cells=_cells,
            narrow=_narrow,
            right=("version", "rows", "files", "bytes"),
        )
        return
    versions = all_versions(project.ops)
    chosen = [one for one in versions if one.dataset.name == name]
    if not chosen:
        raise UnknownNameError(
            option="NAME", kind="discovered dataset", name=name,
            known=sorted({one.dataset.name for one in versions}),
            remedy="`kedro lakehouse discovered` lists all.",
        )  # fmt: skip
    if as_json:
        print_json([_facts(one) for one in chosen])
        return
    _print_dataset(chosen)


def _facts(one: FoundVersion) -> dict[str, Any]:
    """A version as JSON tells it."""
    found = asdict(one.dataset)
    for inner in ("mark", "identity", "options"):
        del found[inner]
    return {
        **found,
        "version": one.version,
        "status": one.status,
        "changes": list(one.changes),
        "run_id": one.run_id,
        "discovered_at": one.at,
    }


def _cells(row: dict[str, Any]) -> dict[str, object]:
    personal = sum(1 for column in row["columns"] if column["personal"])
    return {
        "dataset": row["name"],
        "kind": row["kind"] if row["status"] == "present" else row["status"],
        "version": row["version"],
        "rows": _rows(row),
        "files": row["files"],
        "bytes": row["size"],
        "changed": row["changed"].replace(microsecond=0) if row["changed"] else "",
        "key": ", ".join(row["keys"][0]) if row["keys"] else "",
        "personal": personal or "",
        "location": row["location"],
    }


def _narrow(row: dict[str, Any]) -> dict[str, object]:
    """The cells that fit 80 columns."""
    whole = _cells(row)
    return {name: whole[name] for name in ("dataset", "kind", "version", "rows", "key", "personal")}


def _rows(row: dict[str, Any]) -> str:
    if row["rows"] is None:
        return "?"
    return f"{row['rows']:,}" if row["rows_exact"] else f"~{row['rows']:,}"


def _print_dataset(versions: Sequence[FoundVersion]) -> None:
    newest = versions[-1]
    found, facts = newest.dataset, _facts(newest)
    click.echo(f"{found.name}: {found.kind}, {_rows(facts)} rows, {found.location}")
    for key in found.keys:
        click.echo(f"key: {', '.join(key)} (unique, without null, in {found.read:,} rows)")
    if found.note:
        click.echo(f"note: {found.note}")
    click.echo()
    columns = [[c.name, c.type, "yes" if c.partition else "", c.personal or ""] for c in found.columns]
    print_table(["column", "type", "partition", "looks personal"], columns)
    click.echo()
    told = [
        [one.version, one.at.replace(microsecond=0) if one.at else "", "; ".join(one.changes) or "found"]
        for number, one in enumerate(versions)
        if not number or one.version != versions[number - 1].version
    ]
    print_table(["version", "since", "changes"], told, right=("version",))
