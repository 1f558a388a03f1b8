"""What each table is made from, and what is made from it: by declarations, and by the last commits.

Nothing here needs a JVM, or OpenLineage's client.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from kedro_lakehouse.formats.view import view_name
from kedro_lakehouse.lineage.columns import InputColumn, changes_lineage
from kedro_lakehouse.lineage.queries import query_lineage
from kedro_lakehouse.names import ROLES, TableName, is_reserved_column
from kedro_lakehouse.ops.store import BATCHES
from kedro_lakehouse.project import from_project
from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project

Kind = Literal["source", "changes", "quarantine", "current", "history", "archive", "view", "index"]
How = Literal[
    "ingested", "rejected", "merged", "versioned", "shown", "archived", "derived", "looked up", "indexed"
]
INDEX: Final = "column index"
_STAGE_OF: Final[Mapping[str, str]] = {
    "changes": "ingestion", "current": "current", "history": "history", "archive": "archive",
}  # fmt: skip
_SIGNATURES: Final = TableName.ops("column_signatures")


@dataclass(frozen=True, kw_only=True)
class LastCommit:
    """The newest commit of a stored table."""

    batch: int
    run_id: str
    committed_at: datetime
    snapshot_id: int | None


@dataclass(frozen=True, kw_only=True)
class LineageNode:
    """A place that records come from, a stored table, a view, or the column index.

    Attributes:
        name: Its name, by which edges refer to it.
        table: The declared table that it belongs to; None of a source and of the index.
        detail: What more is to be said of it, such as a source's name and type.
    """

    name: str
    kind: Kind
    table: str | None = None
    detail: str = ""
    commit: LastCommit | None = None

    @property
    def group(self) -> str:
        """The declared table, or what stands for itself."""
        return self.table or self.name


@dataclass(frozen=True, kw_only=True)
class LineageEdge:
    """``target`` is made from ``source``."""

    source: str
    target: str
    how: How


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """Nodes by their names, and what leads from one to another."""

    nodes: Mapping[str, LineageNode]
    edges: Sequence[LineageEdge] = field(default=())

    def between_groups(self) -> list[tuple[str, str, How]]:
        """The edges from one declared table, source or index to another."""
        found = [(self.nodes[e.source].group, self.nodes[e.target].group, e.how) for e in self.edges]
        return list(dict.fromkeys(one for one in found if one[0] != one[1]))

    def reached(self, group: str, *, up: bool) -> dict[str, int]:
        """The groups above or below one, each with the number of steps to it; the nearest first."""
        nexts = defaultdict[str, list[str]](list)
        for source, target, _ in self.between_groups():
            nexts[target if up else source].append(source if up else target)
        found, at = {group: 0}, [group]
        while at:
            step = [one for here in at for one in nexts[here] if one not in found]
            found |= dict.fromkeys(step, found[at[0]] + 1)
            at = list(dict.fromkeys(step))
        del found[group]
        return found

    def around(self, table: str, *, up: int | None = None, down: int | None = None) -> Lineage:
        """The part that leads to a declared table, and that it leads to; None: to the ends."""
        above, below = self.reached(table, up=True), self.reached(table, up=False)
        kept_above = {g for g, steps in above.items() if up is None or steps <= up}
        kept_below = {g for g, steps in below.items() if down is None or steps <= down}
        kept = {table} | kept_above | kept_below
        nodes = {name: node for name, node in self.nodes.items() if node.group in kept}

        def leads(edge: LineageEdge) -> bool:
            if edge.source not in nodes or edge.target not in nodes:
                return False
            source, target = nodes[edge.source].group, nodes[edge.target].group
            upward = {source, target} <= kept_above | {table}
            return source == target or upward or {source, target} <= kept_below | {table}

        return Lineage(nodes=nodes, edges=[edge for edge in self.edges if leads(edge)])


def project_lineage(project: Project) -> Lineage:
    """The lineage of all declared tables of a project. Starts no Spark."""
    commits = _last_commits(project)
    nodes: dict[str, LineageNode] = {}
    edges: list[LineageEdge] = []
    for name in project.declarations.tables:
        found, more = _of_table(project.bind(name), commits)
        nodes |= {node.name: node for node in found}
        edges += more
    for name in project.conversions:
        table = project.bind(name)
        assert table.conversion is not None  # noqa: S101 - it is one of them
        place = LineageNode(
            name=redacted(table.conversion.path), kind="source", detail="files, by convert.yml"
        )
        made = LineageNode(name=str(name), kind="current", table=str(name))
        nodes |= {place.name: place, made.name: made}
        edges.append(LineageEdge(source=place.name, target=made.name, how="ingested"))
    indexed = [name for name in _indexed(project) if name in nodes]
    if indexed:
        nodes[INDEX] = LineageNode(name=INDEX, kind="index", detail="kedro lakehouse search")
        edges += [LineageEdge(source=name, target=INDEX, how="indexed") for name in indexed]
    return Lineage(nodes=nodes, edges=[edge for edge in edges if edge.source in nodes])


def _of_table(
    table: LakeTable, commits: Mapping[tuple[str, str], dict[str, Any]]
) -> tuple[list[LineageNode], list[LineageEdge]]:
    """The nodes of one declared table with its source, and the edges to them."""
    config, owner = table.config, str(table)
    changes = str(table.changes)

    def stored(role: str, name: str) -> LineageNode:
        row = commits.get((owner, _STAGE_OF.get(role, "")))
        commit = row and LastCommit(
            batch=row["batch"],
            run_id=row["run_id"],
            committed_at=row["committed_at"],
            snapshot_id=row["snapshot_id"],
        )
        kind: Any = role
        return LineageNode(name=name, kind=kind, table=owner, commit=commit or None)

    nodes, edges = [stored("changes", changes)], list[LineageEdge]()

    def kept(role: Kind, name: str, source: str, how: How) -> None:
        nodes.append(stored(role, name))
        edges.append(LineageEdge(source=source, target=name, how=how))

    feeds = _source_of(table)
    if feeds is not None:
        nodes.insert(0, feeds)
        edges.append(LineageEdge(source=feeds.name, target=changes, how="ingested"))
    if config.derive is not None:
        edges += [LineageEdge(source=i, target=changes, how="derived") for i in config.derive.inputs.values()]
    edges += [LineageEdge(source=str(e.stored), target=changes, how="looked up") for e in config.enrich]
    if commits.get((owner, "quarantine")):
        kept("quarantine", str(table.quarantine), feeds.name if feeds else changes, "rejected")
    if config.current:
        kept("current", owner, changes, "merged")
    if config.retention is not None and config.retention.to == "archive":
        kept("archive", str(table.stored("archive")), owner, "archived")
    if config.history is not None:
        history = str(table.stored("history"))
        kept("history", history, changes, "versioned")
        if config.history.view is not None:
            kept("view", str(view_name(table.name, config.history.view)), history, "shown")
    return nodes, edges


def _source_of(table: LakeTable) -> LineageNode | None:
    """Where the records of a table arrive; None of a derived table."""
    if table.declared_source is None:
        return None
    source = table.source_config
    place = from_project(redacted(source.place_of(table.config)))
    return LineageNode(name=place, kind="source", detail=f"source {table.config.source} ({source.type})")


def _last_commits(project: Project) -> dict[tuple[str, str], dict[str, Any]]:
    """The newest commit of each table and stage; under ``quarantine`` one that rejected records."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(project.ops.read(BATCHES), key=lambda row: row["committed_at"]):
        found[row["table"], row["stage"]] = row
        if row.get("quarantined"):
            found[row["table"], "quarantine"] = row
    return found


def _indexed(project: Project) -> list[str]:
    """The tables of the lake whose columns are indexed."""
    stored = project.catalog.find(_SIGNATURES)
    if stored is None:
        return []
    rows = stored.scan(selected_fields=("namespace", "table", "source")).to_arrow().to_pylist()
    return sorted({f"{row['namespace']}.{row['table']}" for row in rows if row["source"] != "file"})


def owner_of(project: Project, text: str) -> TableName:
    """The declared table of a name: its own, or that of a stored table or view that belongs to it.

    Raises:
        ConfigurationError: The project declares no such table.
    """
    for name, config in project.declarations.tables.items():
        names = {str(name.with_suffix(role)) for role in ROLES} | {f"{name}_all"}
        if config.history and config.history.view:
            names.add(str(view_name(name, config.history.view)))
        if text.lower() in names:
            return name
    name = TableName.parse(text)
    if name not in project.conversions:
        project.table(name)  # refuses it, and names the nearest one
    return name


def column_sources(project: Project, name: TableName) -> dict[str, list[InputColumn]]:
    """The columns of a table, each with what it is made of, where that is known; by declarations alone.

    The ``source`` of each is the name of a node: where records arrive, a reference, or an input of the query.
    """
    config = project.declarations.tables.get(name)
    if config is None:
        return {}
    table = project.bind(name)
    stored = _columns(project, table.changes)
    values = [column for column in stored if not is_reserved_column(column)]
    if config.derive is not None:
        inputs = config.derive.inputs
        columns = {
            alias: [c for c in _columns(project, TableName.parse(one)) if not is_reserved_column(c)]
            for alias, one in inputs.items()
        }
        found = query_lineage(config.derive.sql, columns)
        return {
            column: [
                InputColumn(inputs[one.source], one.column, one.how) for one in found.get(column.lower(), ())
            ]
            for column in values
        }
    feeds = _source_of(table)
    looked_up = {column for entry in config.enrich for column in entry.columns.values()}
    former = {new: old for old, new in config.rename.items()}
    landed = [former.get(column, column) for column in values if column not in looked_up]
    source = feeds.name if feeds else ""
    found = changes_lineage(config, values, landed, order=(), time=None, source=source).columns
    return {column: list(found.get(column, ())) for column in values}


def _columns(project: Project, stored: TableName) -> list[str]:
    """The columns of a stored table; none where it is not there, or only a JVM can read it."""
    from kedro_lakehouse.lineage.places import stored_columns
    from kedro_lakehouse.ops.table_summary import Glanceable

    owner = project.owner_of(stored)
    if not owner.in_catalog and not isinstance(owner.format, Glanceable):
        return []
    return [column for column, _ in stored_columns(project, stored) or ()]


def tables_with(lineage: Lineage) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each declared table with what it is made from and what is made from it, one step each."""
    for group in sorted({node.table for node in lineage.nodes.values() if node.table}):
        pairs = lineage.between_groups()
        made_from = [source for source, target, _ in pairs if target == group]
        makes = [target for source, target, _ in pairs if source == group and target != INDEX]
        yield group, list(dict.fromkeys(made_from)), list(dict.fromkeys(makes))
