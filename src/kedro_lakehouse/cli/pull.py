"""``kedro lakehouse pull``: ask a source for a table's records now."""

from __future__ import annotations

import click

from kedro_lakehouse.cli.options import no_roles, open_table, project_options
from kedro_lakehouse.cli.show import print_result


@click.command()
@click.argument("table")
@click.option("--accept", is_flag=True, help="Accept another source than before, and pull all of its rows.")
@no_roles("What is pulled is shown to no role:")
@project_options
def pull(*, table: str, accept: bool, as_json: bool) -> None:
    """Ask a source for a table's records now, whether that is due or not.

    What is pulled lands as files; the next `kedro run` ingests it. `kedro run` pulls by itself what is due:
    this command is for a source that refused with SOURCE_CHANGED, and for tests. Tables whose source has
    `one_state: true` are pulled together.

    \b
    Examples:
      kedro lakehouse pull shop.order
      kedro lakehouse pull shop.order --accept
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.errors import UnsupportedError
    from kedro_lakehouse.ingestion.pulling import pull_now

    _, bound = open_table(table)
    if not bound.is_pulled:
        raise UnsupportedError(
            what=f"{bound}: its source is not asked for its records: they arrive.",
            remedy="Run `kedro run`: it ingests what has arrived.",
        )
    found = pull_now(bound, accept=accept)
    facts = [
        {"table": m.table, "number": m.number, "from": m.from_, "to": m.to, "rows": m.rows}
        for m in found.values()
    ]
    lines = [
        f"{m.table}: pull {m.number}, {m.rows:,} rows{_window(m.from_, m.to)}. `kedro run` ingests them."
        for m in found.values()
    ]
    print_result({"pulls": facts}, "\n".join(lines or [f"{bound}: nothing is new."]), as_json=as_json)


def _window(begin: str | None, end: str | None) -> str:
    if end is None:
        return ""
    return f" from {begin} to {end}" if begin else f" up to {end}"
