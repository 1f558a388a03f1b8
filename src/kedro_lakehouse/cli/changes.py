"""``kedro lakehouse changes``: what one batch did to each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import limit_option, no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_json, print_table, say_cut

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

_WORDS: Final = {"I": "inserted", "U": "updated", "D": "deleted", "N": "unchanged"}


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--batch", type=int, required=True, metavar="N", help="The batch to look at.")
@limit_option(1000)
@click.option("--all", "every_row", is_flag=True, help="The same as --limit 0.")
@project_options
@no_roles("A batch's keys are shown as they arrived, to no role:")
def changes(*, table: str, batch: int, limit: int, every_row: bool, as_json: bool) -> None:
    """Tell what one batch did to each key: I, U, D or N. Starts Spark.

    I: the key's row is new. U: some value of it differs. D: it is gone. N: it is as it was, for the batch
    was late, brought nothing new, or (full extracts, derived tables) held the row unchanged. The key's
    values are printed.

    \b
    Examples:
      kedro lakehouse changes shop.item --batch 3
      kedro lakehouse changes shop.item --batch 3 --limit 0 --json
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.names import TableName

    name = TableName.parse(table)
    project = open_project()
    found = _effects(project, name, batch)
    most = None if every_row else limit or None
    rows = found.collect() if most is None else found.limit(most + 1).collect()
    is_whole = most is None or len(rows) <= most
    counts = _counts(found, rows, is_whole=is_whole)
    cells = [row.asDict(recursive=True) for row in rows]
    shown = cells[:most]
    if as_json:
        print_json({"table": str(name), "batch": batch, "counts": counts, "keys": shown})
    else:
        message = ", ".join(f"{counts[effect]:,} {word}" for effect, word in _WORDS.items())
        click.echo(f"{name}, batch {batch}: {message}")
        if shown:
            print_table(tuple(shown[0]), [list(row.values()) for row in shown])
    if not is_whole:
        say_cut(len(shown))


def _effects(project: Project, name: TableName, batch: int) -> Any:
    """The effects as a frame that is kept, in the order of effect and key."""
    from kedro_lakehouse.changes.effects import EFFECT, batch_effects
    from kedro_lakehouse.changes.events import columns
    from kedro_lakehouse.commits.excluded import accepted_events
    from kedro_lakehouse.errors import BatchNotFoundError, UnsupportedError

    table = project.bind(name)
    if table.config.write != "merge":
        raise UnsupportedError(
            what=f"{name} has no keys: a batch has no effect on a key.",
            remedy="Ask for its rows by `kedro lakehouse sql`.",
        )
    state = table.state("changes")
    last = state.batch if state else 0
    if not 1 <= batch <= last:
        raise BatchNotFoundError(table=name, batch=batch, last=last)
    whole = table.config.derive is not None or table.open_source().gives == "extracts"
    found = batch_effects(accepted_events(table), table.contract, batch, every_key=whole)
    return found.orderBy(EFFECT, *columns(table.contract.keys)).persist()


def _counts(found: Any, rows: list[Any], *, is_whole: bool) -> dict[str, int]:
    from kedro_lakehouse.changes.effects import EFFECT

    if is_whole:
        return {effect: sum(row[EFFECT] == effect for row in rows) for effect in _WORDS}
    counted = {row[EFFECT]: row["count"] for row in found.groupBy(EFFECT).count().collect()}
    return {effect: counted.get(effect, 0) for effect in _WORDS}
