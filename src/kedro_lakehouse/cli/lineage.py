"""``kedro lakehouse lineage``: what a table is made from, and what is made from it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_json, print_rows, print_table, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.lineage.columns import InputColumn
    from kedro_lakehouse.lineage.graph import Lineage, LineageNode

_STEPS: Final = click.IntRange(min=0)


@click.command()
@click.argument("table", required=False, shell_complete=complete_tables)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "mermaid", "json"]),
    help="How to show it; by default as text.",
)
@click.option("--up", type=_STEPS, metavar="N", help="So many steps to what it is made from; default: all.")
@click.option("--down", type=_STEPS, metavar="N", help="So many steps to what is made from it; default: all.")
@click.option("--columns", is_flag=True, help="Show what each column is made of, too.")
@project_options
@no_roles("Lineage names tables and columns of the whole lake:")
def lineage(  # noqa: PLR0913 - a command's options
    *,
    table: str | None,
    output: Literal["text", "mermaid", "json"] | None,
    up: int | None,
    down: int | None,
    columns: bool,
    as_json: bool,
) -> None:
    """Show what TABLE is made from and what is made from it; without TABLE, all tables.

    It comes from declarations (sources, derived tables, references), from the last commit of each stored
    table with its run and snapshot, and from the column index. The columns of a derived table are read from
    its query's text; one that cannot be followed there is shown without origin. Starts no Spark.

    \b
    Examples:
      kedro lakehouse lineage
      kedro lakehouse lineage dms_sample.person --columns
      kedro lakehouse lineage dms_sample.person --up 1 --down 0 --output mermaid
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.lineage.graph import column_sources, owner_of, project_lineage
    from kedro_lakehouse.lineage.pictures import mermaid_of

    if as_json and output not in (None, "json"):
        raise click.UsageError(f"--json and --output {output} contradict each other.")
    if table is None and (up is not None or down is not None or columns):
        raise click.UsageError("--up, --down and --columns are about one TABLE.")
    project = open_project()
    name = owner_of(project, table) if table else None
    found = project_lineage(project)
    focus = str(name) if name else None
    if focus is not None:
        found = found.around(focus, up=up, down=down)
    made_of = column_sources(project, name) if name and (columns or as_json or output == "json") else {}
    if as_json or output == "json":
        print_json(_facts(found, focus, made_of))
    elif output == "mermaid":
        click.echo(mermaid_of(found, focus))
    elif focus is None:
        _print_all(found)
    else:
        _print_one(found, focus, made_of if columns else None)


def _facts(found: Lineage, focus: str | None, columns: Mapping[str, Sequence[InputColumn]]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "table": focus,
        "nodes": [asdict(node) for node in found.nodes.values()],
        "edges": [asdict(edge) for edge in found.edges],
    }
    if focus is not None:
        facts["columns"] = {
            column: [{"node": i.source, "column": i.column, "how": i.how} for i in inputs]
            for column, inputs in columns.items()
        }
    return facts


def _print_all(found: Lineage) -> None:
    from kedro_lakehouse.lineage.graph import tables_with

    commits = {node.name: node for node in found.nodes.values()}

    def cells(row: dict[str, Any]) -> dict[str, object]:
        changes = commits.get(f"{row['table']}_changes")
        return {
            "table": row["table"],
            "made from": ", ".join(row["from"]),
            "goes to": ", ".join(row["to"]),
            **(_commit(changes) if changes else _commit(commits[row["table"]])),
        }

    def narrow(row: dict[str, Any]) -> dict[str, object]:
        whole = cells(row)
        return {heading: whole[heading] for heading in ("table", "made from", "goes to")}

    rows = [{"table": name, "from": up, "to": down} for name, up, down in tables_with(found)]
    nothing = "No table is declared: `kedro lakehouse init`."
    print_rows(rows, as_json=False, nothing=nothing, cells=cells, narrow=narrow, right=("batch",))


def _print_one(found: Lineage, focus: str, columns: Mapping[str, Sequence[InputColumn]] | None) -> None:
    from kedro_lakehouse.lineage.pictures import KINDS, tree_of

    click.echo(focus)
    for heading, up in (("made from", True), ("goes to", False)):
        click.echo(f"\n{heading}")
        lines = tree_of(found, focus, up=up) or ["nothing that is shown"]
        click.echo("\n".join(f"  {printable(line)}" for line in lines))
    click.echo("\nkept as")
    own = [node for node in found.nodes.values() if node.table == focus]
    rows = [[f"  {node.name}", KINDS[node.kind], *_commit(node).values()] for node in own]
    print_table(["  name", "what", "batch", "last commit", "run", "snapshot"], rows, right=("batch",))
    if columns is not None:
        click.echo("\ncolumns")
        if not columns:
            click.echo("  not known before the first run of the table")
            return
        told = [[f"  {column}", _origin(found, inputs)] for column, inputs in columns.items()]
        print_table(["  column", "made of"], told)


def _commit(node: LineageNode) -> dict[str, object]:
    last = node.commit
    return {
        "batch": last.batch if last else "",
        "last commit": last.committed_at.replace(microsecond=0) if last else "",
        "run": last.run_id if last else "",
        "snapshot": last.snapshot_id or "" if last else "",
    }


def _origin(found: Lineage, inputs: Sequence[InputColumn]) -> str:
    """What a column is made of, in words."""

    def said(one: InputColumn) -> str:
        if one.how == "JOIN":
            return f"looked up by {one.column}"
        node = found.nodes.get(one.source)
        return f"{one.column} of {'its records' if node and node.kind == 'source' else one.source}"

    changed = any(one.how not in ("IDENTITY", "JOIN") for one in inputs)
    words = "; ".join(dict.fromkeys(map(said, inputs)))
    return f"{words}{' (computed)' if changed else ''}" if words else "not known from here"
