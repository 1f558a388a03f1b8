"""``kedro lakehouse plan``: what the next run does, before it runs."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from kedro_lakehouse.cli.options import no_roles, open_project, output_option, project_options
from kedro_lakehouse.cli.show import print_json, print_table, printable
from kedro_lakehouse.errors import UnknownNameError, counted, listed, sized
from kedro_lakehouse.names import is_within
from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.preview.plan import RunPlan, TablePlan
    from kedro_lakehouse.project import Project

_HEADINGS: Final = ("table", "next run", "files", "size", "rows")
_FEW: Final = 3


@click.command()
@click.option(
    "--namespaces", default="", metavar="A,B", help="Only tables with these names, or in these namespaces."
)
@click.option("--all", "everything", is_flag=True, help="Also list the tables for which nothing is new.")
@output_option
@project_options
@no_roles("What a run would do is shown to no role:")
def plan(*, namespaces: str, everything: bool, as_json: bool) -> None:
    """Show what the next `kedro run` does, and write nothing.

    For each table: which batches of how many files, records or extracts come, their size and rows where these
    are cheap to tell, new columns, what a guard refuses, and which tables follow. The run's own planner is
    asked, so the run then does the same, unless something lands meanwhile. What only the rows can tell, such
    as how many are invalid, or what a pull will bring, is not known before. No JVM starts. Open requests for
    erasure, and what `grants apply` would change, are told too.

    \b
    Examples:
      kedro lakehouse plan
      kedro lakehouse plan --namespaces=shop --output json
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.preview.plan import plan_run

    project = open_project()
    spaces = [space.strip() for space in namespaces.split(",") if space.strip()]
    _require(project, spaces)
    with _without_its_log():
        found = plan_run(project, spaces)
    if as_json:
        print_json(
            {
                "environment": found.environment,
                "tables": [one.facts() for one in found.tables],
                "erasures": list(found.erasures),
                "grants": found.grants,
            }
        )
        return
    shown = [one for one in found.tables if everything or one.becomes != "nothing" or any(_notes(one))]
    if shown:
        print_table(_HEADINGS, [_row(one) for one in shown], right=_HEADINGS[2:], whole=("table",))
        click.echo()
    for line in (*(line for one in shown for line in _notes(one)), *_last(found)):
        click.echo(printable(redacted(line)))


@contextmanager
def _without_its_log() -> Iterator[None]:
    """What the planner logs of tables that wait is in the plan."""
    log = logging.getLogger("kedro_lakehouse.ingestion")
    before = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


def _require(project: Project, spaces: Sequence[str]) -> None:
    known = sorted(map(str, project.declarations.tables))
    for space in spaces:
        if not any(is_within(table, space) for table in known):
            raise UnknownNameError(
                option="--namespaces", kind="namespace of a table", name=space, known=known,
                remedy="`kedro lakehouse tables` lists the tables.",
            )  # fmt: skip


def _row(one: TablePlan) -> list[object]:
    own = one.upcoming
    files = sum(len(batch.files) for batch in own.batches)
    rows = own.waiting.records if own.waiting else own.rows if files else None
    return [
        one.table,
        _words(one),
        f"{files:,}" if files else "",
        sized(one.bytes) if one.bytes else "",
        "" if rows is None else f"{rows:,}",
    ]


def _words(one: TablePlan) -> str:  # noqa: PLR0911 - a table of cases
    own = one.upcoming
    match one.becomes:
        case "batches" | "computed":
            first, last = own.batches[0], own.batches[-1]
            words = f"batch {first.number}" + (f" to {last.number}" if last != first else "")
            words += ", begun before" if first.is_unfinished else ""
            words += ", computed" if one.becomes == "computed" else ""
            return words + (", then fails" if own.error else "")
        case "pull":
            return "is pulled"
        case "behind":
            return f"brings {' and '.join(own.behind)} up to date"
        case "repaired":
            return f"batch {own.batches[0].number}, rows follow a reference"
        case "fails":
            return "fails"
        case "waits":
            return "waits"
    return "refused" if own.refused else "nothing"


def _notes(one: TablePlan) -> Iterator[str]:  # noqa: C901 - a line for each thing worth saying
    own, name = one.upcoming, one.table
    if own.error is not None:
        yield f"{name}: {own.error}"
    if one.because:
        yield f"{name}: follows {listed(one.because)}"
    if own.waits_for:
        yield f"{name}: needs {listed(own.waits_for)}, which holds nothing yet"
    if own.new_columns:
        yield f"{name}: new columns: {listed(f'{c} {kind}' for c, kind in own.new_columns.items())}"
    if own.wider_columns:
        yield f"{name}: wider types: {listed(f'{c} {kind}' for c, kind in own.wider_columns.items())}"
    for refused in own.refused[:_FEW]:
        again = "stays refused" if refused.before else "would be refused"
        yield f"{name}: {refused.file} {again}, for it {refused.reason} [{refused.code}]"
    if len(own.refused) > _FEW:
        yield f"{name}: and {len(own.refused) - _FEW} more refused files"
    if own.waiting is not None and own.waiting.files:
        since = own.waiting.seconds
        waits = counted(own.waiting.files, "partition") + " with new records"
        yield f"{name}: {waits}" + (f", the first for {since:,.0f} s" if since is not None else "")
    if own.silent:
        yield f"{name}: {counted(len(own.silent), 'file')} without rows wait for the first with rows"
    if own.pull is not None and own.pull.last is not None:
        last = own.pull.last
        due_at = own.pull.due_at
        when = "now" if own.pull.is_due or due_at is None else f"at {due_at:%Y-%m-%d %H:%M} UTC"
        had = f"the last one, {last.number}, had {counted(last.rows, 'row')}"
        yield f"{name}: the next pull is due {when}; {had}"
    if own.replay:
        yield f"{name}: a replay was begun: `kedro lakehouse quarantine {name} --replay` goes on with it"
    if one.running:
        yield f"{name}: another run works on it now"


def _last(found: RunPlan) -> Iterator[str]:
    for one in found.erasures:
        if "table" in one:
            what = f"{one['table']}: {counted(one['requests'], 'request')} for erasure"
            first, late = "the first ", ""
        else:
            what, first = f"Erasure {one['erasure']} is {one['status']}", ""
            late = ", late" if one["late"] else ""
        due = f", {first}due {one['due']:%Y-%m-%d %H:%M} UTC" if one["due"] else ""
        yield f"{what}{due}{late}: `kedro run --pipelines=erasure`"
    if found.grants is not None:
        steps: list[Any] = found.grants.get("steps", [])
        problem = found.grants["error"]["message"] if "error" in found.grants else ""
        yield problem or f"Grants: {counted(len(steps), 'change')}: `kedro lakehouse grants plan`"
    busy = [one for one in found.tables if one.becomes not in ("nothing", "waits", "fails")]
    batches = sum(len(one.upcoming.batches) for one in found.tables)
    fails = sum(one.becomes == "fails" or one.upcoming.error is not None for one in found.tables)
    if not busy and not fails:
        yield f"Nothing is new for {counted(len(found.tables), 'table')} (environment {found.environment})."
        return
    plural = "batch" if batches == 1 else "batches"
    words = f"The next run changes {len(busy)} of {counted(len(found.tables), 'table')}"
    words += (
        f", by {batches:,} {plural} of {sized(sum(one.bytes for one in found.tables))}" if batches else ""
    )
    words += f"; {counted(fails, 'table')} {'fails' if fails == 1 else 'fail'}" if fails else ""
    yield f"{words} (environment {found.environment})."
