"""``kedro lakehouse erasures``: which persons' erasures were asked for, done or are left, with evidence."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import limit_option, no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_json, print_rows

if TYPE_CHECKING:
    from kedro_lakehouse.erasure.requests import KnownErasure


@click.command()
@click.argument("erasure", metavar="[ERASURE]", required=False)
@limit_option(20)
@no_roles("Who was erased is shown to no role:")
@project_options
def erasures(*, erasure: str | None, limit: int, as_json: bool) -> None:
    """List the erasures of persons, newest first; or print the evidence of one.

    "begun": it was interrupted, or is still at work; the same `erase`, or `kedro run --pipelines=erasure`,
    finishes it. "pending": files still hold a person, or something is left to do. "late": it was not done
    when it was due. Persons are kept as keyed hashes only. With ERASURE (the beginning of its name is enough)
    it prints the signed evidence as JSON, which `erase --verify` checks. Starts no Spark. Times are UTC.
    """
    from kedro_lakehouse.erasure.requests import known_erasures

    known, now = known_erasures(open_project().ops), datetime.now(UTC)
    if erasure is not None:
        print_json(_evidence(known, erasure))
        return
    rows = [_public(one) | {"is_late": one.is_late(now)} for one in known]
    print_rows(
        rows,
        as_json=as_json,
        nothing="Nobody was erased yet: `kedro lakehouse erase`, or a table with `erasure_requests`.",
        limit=limit,
        cells=_cells,
        right=("persons", "rows", "found", "left to do"),
        whole=("erasure",),
    )


def _public(one: KnownErasure) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if name not in ("evidence", "signature")}


def _cells(row: dict[str, Any]) -> dict[str, object]:
    return {
        "erasure": row["erasure"],
        "status": f"{row['status']}, late" if row["is_late"] else row["status"],
        "begun": row["begun_at"].replace(microsecond=0),
        "due": row["due"].date() if row["due"] else "",
        "persons": row["subjects"],
        "rows": row["rows"],
        "found": row["found"],
        "left to do": len(row["pending"]),
    }


def _evidence(known: list[KnownErasure], wanted: str) -> dict[str, Any]:
    found = [one for one in known if one.erasure.startswith(wanted)]
    if len(found) != 1 or found[0].evidence is None:
        names = ", ".join(one.erasure for one in known if one.evidence) or "none"
        raise click.UsageError(f"No one erasure with evidence begins with that. There are: {names}.")
    facts: dict[str, Any] = json.loads(found[0].evidence)
    return facts | {"signature": found[0].signature}
