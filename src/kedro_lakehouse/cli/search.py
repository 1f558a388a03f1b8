"""``kedro lakehouse search``: find columns by meaning."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import access_of, open_project, project_options, role_option
from kedro_lakehouse.cli.show import fits, print_json, print_table, terminal_width
from kedro_lakehouse.column_search.results import Mode
from kedro_lakehouse.errors import counted, cut, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.column_search.results import ColumnHit, JoinHit, TableHit
    from kedro_lakehouse.column_search.search import ColumnSearch
    from kedro_lakehouse.column_search.signature import ColumnSignature
    from kedro_lakehouse.grants.access import RoleAccess
    from kedro_lakehouse.project import Project

_SAMPLE = 3
_OTHERS = 24
"""So wide are the columns score and type, and the blanks."""
_LEAST = 12
"""So much of a column's values is shown on any terminal."""


@click.command()
@project_options
@click.argument("text", nargs=-1)
@click.option(
    "--like", metavar="NAMESPACE.TABLE.COLUMN", help="Search by this column (or table: --unionable)."
)
@click.option("--file", "file", type=click.Path(path_type=Path), help="Search by the columns of this file.")
@click.option("--joinable", is_flag=True, help="Find columns to join with those of --like or --file.")
@click.option("--unionable", is_flag=True, help="Find tables to union with that of --like or --file.")
@click.option("--add", multiple=True, metavar="PATH", help="First index this file or folder, from now on.")
@click.option("--namespace", multiple=True, help="Only columns of this namespace; may be repeated.")
@click.option("--table", multiple=True, shell_complete=complete_tables, help="Only columns of this table.")
@click.option("--type", "kinds", multiple=True, help="Only columns of this type, such as integer or text.")
@click.option("--tag", multiple=True, help="Only columns of tables with this tag.")
@click.option("--personal/--not-personal", default=None, help="Only columns with, or without, personal data.")
@click.option("--model", help="Model, as in parameters_column_index.yml; by default its first.")
@click.option("--index", help="Vector index: exact, lance, opensearch:ADDRESS.")
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    default="hybrid",
    show_default=True,
    help="What is compared: names, content (values), both in one vector, or all there is.",
)
@click.option("-k", "k", type=click.IntRange(1, 1000), default=10, show_default=True, help="So many hits.")
@click.option("--explain", is_flag=True, help="Show what each feature added, shared values and formats.")
@click.option(
    "--verify", is_flag=True, help="Count the containment of joins exactly, in the rows that were indexed."
)
@role_option("Find what this role of grants.yml may see, and nothing by values that it may not see.")
def search(  # noqa: C901, PLR0913 - a command's options
    *,
    text: tuple[str, ...],
    like: str | None,
    file: Path | None,
    joinable: bool,
    unionable: bool,
    add: tuple[str, ...],
    namespace: tuple[str, ...],
    table: tuple[str, ...],
    kinds: tuple[str, ...],
    tag: tuple[str, ...],
    personal: bool | None,
    model: str | None,
    index: str | None,
    mode: Mode,
    k: int,
    explain: bool,
    verify: bool,
    role: str | None,
    as_json: bool,
) -> None:
    """Find columns of the lake by meaning.

    By a phrase, by a column, or by a file; no JVM is started. What is indexed: every current table of the
    lake (pipeline `column_index`), and files that were given to --add.
    """
    from kedro_lakehouse.column_search.project_search import add_files, open_search
    from kedro_lakehouse.column_search.results import ColumnFilter

    asked = [bool(text), bool(like), bool(file)]
    if sum(asked) > 1 or (not any(asked) and not add):
        raise click.UsageError("Give one of: a phrase, --like, --file (or --add alone).")
    if (joinable or unionable) and (text or joinable == unionable):
        raise click.UsageError("--joinable or --unionable goes with --like or --file.")
    project = open_project()
    access = access_of(project, role)
    if access and (add or verify):
        raise click.UsageError("--as goes without --add and --verify, which read whole files and tables.")
    if add:
        change = add_files(add, project, models=[model] if model else [])
        click.echo(f"{len(change.upserts)} columns indexed, {change.embedded} embedded.", err=True)
    if not any(asked):
        return
    where = ColumnFilter(namespaces=namespace, tables=table, kinds=kinds, tags=tag, personal=personal)
    found = open_search(project, model=model, index=index, lets=partial(_lets, access) if access else None)
    if not access:
        _tell_what_is_missing(project, found)
    if text:
        hits = found.by_text(" ".join(text), k=k, mode=mode, where=where)
        _show_columns(hits, explain=explain, as_json=as_json)
        return
    columns = _asking(found, project, like, file, model, whole=unionable)
    if unionable:
        _show_tables(found.unionable(columns, k=k, where=where), explain=explain, as_json=as_json)
    elif joinable:
        joins = [(one, found.joinable(one, k=k, where=where)) for one in columns]
        if verify:
            joins = [(one, _verified(found, project, one, hits)) for one, hits in joins]
        _show_joins(joins, as_json=as_json)
    elif file:
        tables, best = found.unionable(columns, k=k, where=where), found.by_columns(columns, k=k, where=where)
        _show_tables(tables, explain=explain, as_json=as_json, columns=best)
    else:
        hits = [hit for one in columns for hit in found.like(one, k=k, mode=mode, where=where)]
        _show_columns(hits, explain=explain, as_json=as_json)


def _lets(access: RoleAccess, one: ColumnSignature) -> bool:
    """Whether a role may see what the index has of a column; files beside the lake are granted to none."""
    has_values = not one.profile.personal
    return access.sees_profile(str(one.table), one.profile.name, has_values=has_values)


def _tell_what_is_missing(project: Project, found: ColumnSearch) -> None:
    """Tell, beside the output, of tables that no answer can name."""
    from kedro_lakehouse.column_search.project_search import tables_not_indexed

    if missing := tables_not_indexed(project, found):
        are = f"{counted(len(missing), 'table')} {'is' if len(missing) == 1 else 'are'}"
        run = f"kedro run --pipelines=column_index{project.env_option}"
        click.echo(f"{are} not in the index ({listed(missing)}): `{run}` indexes all.", err=True)


def _asking(  # noqa: PLR0913 - the options that say it
    found: ColumnSearch,
    project: Project,
    like: str | None,
    file: Path | None,
    model: str | None,
    *,
    whole: bool,
) -> list[ColumnSignature]:
    """The columns to search by."""
    from kedro_lakehouse.column_search.project_search import file_columns

    if file:
        return file_columns(file.expanduser(), project, model=model)
    name = str(like)
    if whole:
        return found.table(".".join(name.split(".")[:2]))
    return [found.column(name)]


def _verified(
    found: ColumnSearch, project: Project, query: ColumnSignature, joins: list[JoinHit]
) -> list[JoinHit]:
    from kedro_lakehouse.column_search.project_search import exact_containment

    others = [found.column(join.hit.column_id) for join in joins]
    shares = [exact_containment(project, query, other) for other in others]
    return [replace(join, exact=share) for join, share in zip(joins, shares, strict=True)]


def _show_columns(hits: Sequence[ColumnHit], *, explain: bool, as_json: bool) -> None:
    if as_json:
        print_json([asdict(hit) for hit in hits])
        return
    headings = ["column", "score", "type", "values", "location"]
    rows: list[list[object]] = [
        [hit.column_id, f"{hit.score:.3f}", hit.kind, _values(hit), hit.location] for hit in hits
    ]
    if explain:
        headings.insert(2, "why")
        for row, hit in zip(rows, hits, strict=True):
            row.insert(2, _why(hit))
    elif rows and not fits(headings, rows):
        headings = headings[:-1]
        left = terminal_width() - max(len(hit.column_id) for hit in hits) - _OTHERS
        rows = [[*row[:-2], cut(str(row[-2]), max(left, _LEAST))] for row in rows]
    _print(headings, rows)


def _show_joins(found: Sequence[tuple[ColumnSignature, list[JoinHit]]], *, as_json: bool) -> None:
    if as_json:
        facts = [{"column": one.column_id, "joins": [asdict(join) for join in joins]} for one, joins in found]
        print_json(facts)
        return
    rows = [
        [
            one.column_id,
            join.hit.column_id,
            f"{join.hit.score:.3f}",
            f"{join.containment:.0%}",
            "" if join.exact is None else f"{join.exact:.1%}",
            f"{join.distinctness:.0%}",
            ", ".join(join.hit.shared),
        ]
        for one, joins in found
        for join in joins
    ]
    _print(["join", "with", "score", "contained", "exactly", "distinct", "shared values"], rows)


def _show_tables(
    found: Sequence[TableHit],
    *,
    explain: bool,
    as_json: bool,
    columns: Sequence[tuple[str, list[ColumnHit]]] | None = None,
) -> None:
    if as_json:
        tables = [asdict(hit) for hit in found]
        facts = [{"column": own, "hits": [asdict(hit) for hit in hits]} for own, hits in columns or ()]
        print_json(tables if columns is None else {"tables": tables, "columns": facts})
        return
    shown = None if explain else _SAMPLE
    rows = [
        [
            f"{hit.namespace}.{hit.table}",
            f"{hit.score:.3f}",
            ", ".join(f"{own} = {pair.column}" for own, pair in hit.pairs[:shown]),
            hit.location,
        ]
        for hit in found
    ]
    _print(["table", "score", "columns", "location"], rows)
    if columns is not None:
        click.echo()
        best = [[own, *[f"{h.column_id} ({h.score:.2f})" for h in hits[:_SAMPLE]]] for own, hits in columns]
        width = max((len(row) for row in best), default=1)
        padded: list[list[object]] = [[*row, *[""] * (width - len(row))] for row in best]
        _print(["column", "best", "second", "third"][:width], padded)


def _print(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if not rows:
        click.echo("Nothing was found.")
        return
    print_table(headings, rows, right=("score",), whole=("column",))


def _values(hit: ColumnHit) -> str:
    if hit.personal:
        return "personal: " + ", ".join(name for name, _ in hit.formats[:_SAMPLE])
    return ", ".join(hit.sample[:_SAMPLE])


def _why(hit: ColumnHit) -> str:
    ranked = sorted(hit.why.items(), key=lambda part: -abs(part[1]))
    reasons: list[Any] = [f"{name} {share:+.2f}" for name, share in ranked]
    if hit.shared:
        reasons.append(f"shares {', '.join(hit.shared)}")
    if hit.formats:
        reasons.append(f"looks like {', '.join(name for name, _ in hit.formats[:_SAMPLE])}")
    return "; ".join(reasons)
