"""``kedro lakehouse pull``: ask a source for a table's records now."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import length_of_time, no_roles, open_table, project_options
from kedro_lakehouse.cli.show import print_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.config.pulled import PulledSourceConfig
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.pulls.manifest import Manifest
    from kedro_lakehouse.pulls.retries import Retries, Wait

_AT_A_TERMINAL: Final = timedelta(seconds=30)
"""How long someone who waits at a terminal waits at most for a source that does not answer."""


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--accept", is_flag=True, help="Accept another source than before, and pull all of its rows.")
@click.option(
    "--wait",
    metavar="TIME",
    callback=length_of_time,
    help="How long a source that does not answer is asked again. Default: `retry.budget` of the source;"
    " at a terminal at most 30 s.",
)
@no_roles("What is pulled is shown to no role:")
@project_options
def pull(*, table: str, accept: bool, wait: float | None, as_json: bool) -> None:
    """Ask a source for a table's records now, whether that is due or not.

    What is pulled lands as files; the next `kedro run` ingests it. `kedro run` pulls by itself what is due:
    this command is for a source that refused with SOURCE_CHANGED, and for tests. Tables whose source has
    `one_state: true` are pulled together. Of a source that does not answer it is said what is waited for, and
    how long. Ctrl-C and SIGTERM end it, and leave nothing.

    \b
    Examples:
      kedro lakehouse pull shop.order
      kedro lakehouse pull shop.order --accept
      kedro lakehouse pull shop.order --wait '10 min'
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.errors import UnsupportedError

    _, bound = open_table(table)
    if not bound.is_pulled:
        raise UnsupportedError(
            what=f"{bound}: its source is not asked for its records: they arrive.",
            remedy="Run `kedro run`: it ingests what has arrived.",
        )
    found = _pulled(bound, accept=accept, retries=_retries(bound, wait))
    facts = [
        {"table": m.table, "number": m.number, "from": m.from_, "to": m.to, "rows": m.rows}
        for m in found.values()
    ]
    lines = [
        f"{m.table}: pull {m.number}, {m.rows:,} rows{_window(m.from_, m.to)}. `kedro run` ingests them."
        for m in found.values()
    ]
    print_result({"pulls": facts}, "\n".join(lines or [f"{bound}: nothing is new."]), as_json=as_json)


def _pulled(table: LakeTable, *, accept: bool, retries: Retries) -> Mapping[str, Manifest]:
    """Pull until a signal ends it."""
    from kedro_lakehouse.errors import LakehouseError
    from kedro_lakehouse.ingestion.planner import STOPPING
    from kedro_lakehouse.ingestion.pulling import pull_now
    from kedro_lakehouse.streaming import ended_by_signals

    with ended_by_signals():
        try:
            return pull_now(table, accept=accept, retries=retries)
        except LakehouseError as error:
            if STOPPING.is_set():
                raise click.Abort from error
            raise


def _retries(table: LakeTable, wait: float | None) -> Retries:
    """Pauses that are told on the terminal; a run is not so short of time as someone who waits for it."""
    from kedro_lakehouse.pulls.retries import Retries

    budget = cast("PulledSourceConfig", table.source_config).retry.budget
    if wait is not None:
        budget = timedelta(seconds=wait)
    elif sys.stderr.isatty():
        budget = min(budget, _AT_A_TERMINAL)
    return Retries(budget, _tell)


def _tell(wait: Wait) -> None:
    click.echo(
        f"{wait.table}: {wait.reason}. It is asked again in {wait.seconds:.1f} s, and given up"
        f" in {wait.left:.0f} s (--wait TIME). Ctrl-C ends it.",
        err=True,
    )


def _window(begin: str | None, end: str | None) -> str:
    if end is None:
        return ""
    return f" from {begin} to {end}" if begin else f" up to {end}"
