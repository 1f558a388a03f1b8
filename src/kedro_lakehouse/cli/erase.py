"""``kedro lakehouse erase``: remove what is stored of a person, and show that it is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import moment, open_project, project_options
from kedro_lakehouse.cli.rebuild import confirm, recorded
from kedro_lakehouse.cli.show import print_result
from kedro_lakehouse.cli.subjects import given, requests_of, subject_options

if TYPE_CHECKING:
    from datetime import datetime

    from kedro_lakehouse.erasure.erase import ErasurePlan
    from kedro_lakehouse.erasure.evidence import Evidence


@click.command()
@subject_options
@click.option(
    "--requests", metavar="FILE", help="Read requests from a CSV file with the columns `subject` and `due`."
)
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and what is out of reach.")
@click.option("--due", callback=moment, metavar="TIME", help="Until when the request is to be met; recorded.")
@click.option("--evidence", metavar="FILE", help="Write the signed evidence to this file.")
@click.option("--verify", metavar="FILE", help="Say whether evidence in this file is as it was signed.")
@project_options
def erase(  # noqa: PLR0913 - one argument an option
    *,
    subjects: tuple[str, ...],
    values_from: str | None,
    requests: str | None,
    tables: tuple[str, ...],
    dry_run: bool,
    due: datetime | None,
    evidence: str | None,
    verify: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove all that is stored of persons, for good. Starts Spark.

    SUBJECT is a person's identifier, as the column holds it that `subject` in tables.yml names. The person's
    events leave the change logs, current tables and histories follow, quarantined records that name the
    person go. Then the files that held any of it are rewritten, earlier snapshots expire, and every file is
    searched: the evidence says what was read and what still holds the value. Landed files on a disk and in S3
    lose the person's records, and the ledger knows them again; the evidence names those that could not be
    changed.

    Later events of an erased person are refused (quarantine reason `erased_subject`, without the record),
    unless the table says `after_erasure: accept`. Only a keyed hash of the person is kept; the key is
    `erasure: {key: ...}` in credentials.yml.

    If this is interrupted, the same command finishes it. The exit code is 1 as long as something is left.

    \b
    Examples:
      kedro lakehouse erase 59289 --dry-run
      kedro lakehouse erase --values-from subjects.txt --yes --evidence evidence.json
      kedro lakehouse erase --requests requests.csv --yes
      kedro lakehouse erase --verify evidence.json
    """  # noqa: D301 - \b keeps click from wrapping the examples
    if verify is not None:
        _verify(verify, as_json=as_json)
        return
    from kedro_lakehouse.erasure.erase import erase as erase_subjects
    from kedro_lakehouse.erasure.erase import plan_erasure
    from kedro_lakehouse.erasure.requests import earliest

    asked = requests_of(requests) if requests is not None else []
    values = given([*subjects, *(request.subject for request in asked)], values_from)
    due = earliest([due, *(request.due for request in asked)])
    project = open_project()
    plan = plan_erasure(project, values, tables)
    if dry_run:
        print_result(_facts_of_plan(plan), "\n".join(_lines_of_plan(plan)), as_json=as_json)
        return
    if not yes and not as_json:
        click.echo("\n".join(_lines_of_plan(plan)), err=True)
    confirm("Remove this for good?", yes=yes)
    from kedro_lakehouse.lake_table import erasure_key

    done: Evidence = recorded(
        project,
        "erase",
        lambda: erase_subjects(project, values, tables, due=due),
        changed=sorted({one.table for one in plan.removed}),
    )
    signed = done.signed(erasure_key(project))
    if evidence is not None:
        Path(evidence).write_text(json.dumps(signed, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    print_result(signed, "\n".join(_lines(done)), as_json=as_json)
    if not done.is_done:
        click.get_current_context().exit(1)


def _verify(file: str, *, as_json: bool) -> None:
    from kedro_lakehouse.erasure.evidence import is_signed
    from kedro_lakehouse.lake_table import erasure_key

    try:
        facts: dict[str, Any] = json.loads(Path(file).read_text())
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{file} cannot be read as JSON.", param_hint="--verify") from error
    good = is_signed(facts, erasure_key(open_project()))
    says = "is as it was signed" if good else "is not what was signed with this key"
    print_result({"file": file, "signed": good}, f"{file} {says}.", as_json=as_json)
    if not good:
        click.get_current_context().exit(1)


def _facts_of_plan(plan: ErasurePlan) -> dict[str, Any]:
    return {
        "removed": [{"table": one.table, "rows": one.removed} for one in plan.removed],
        "out_of_reach": list(plan.out_of_reach),
    }


def _lines_of_plan(plan: ErasurePlan) -> list[str]:
    lines = [f"  {one.table}: {one.removed:,} rows" for one in plan.removed]
    found = ["This would be removed:", *lines] if lines else ["No table holds a row of this subject."]
    return [*found, "Out of reach:", *(f"  {line}" for line in plan.out_of_reach)]


def _lines(done: Evidence) -> list[str]:
    rows = [f"  {one['table']}: {one['removed']:,} rows" for one in done.removed]
    lines = ["Removed:", *rows] if rows else ["No table held a row of this subject."]
    if done.rewritten:
        lines.append(f"{len(done.rewritten):,} landed files have lost records; the ledger knows them again.")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in done.kinds.items())
    lines.append(f"{done.files:,} files were searched, {done.read:,} bytes ({kinds}).")
    if done.found:
        lines += [
            "Still found:",
            *(f"  {one['file']}: {one['place']} ({one['count']})" for one in done.found),
        ]
    if done.arrived:
        files = {one["file"] for one in done.arrived}
        lines.append(
            f"{len(files):,} files with such records have landed since it began; `erase` again cleans them."
        )
    lines += [f"Left to do: {line}" for line in done.pending]
    if done.unsure:
        lines.append(f"Unsure, since their blocks may be compressed: {len(done.unsure)} files.")
    if done.common_values:
        lines.append(
            "An identifier of fewer than four characters occurs by chance: the search proves little."
        )
    lines += [f"Out of reach: {line}" for line in done.out_of_reach]
    return [*lines, f"Erasure {done.erasure}: {'done' if done.is_done else 'not done yet'}."]
