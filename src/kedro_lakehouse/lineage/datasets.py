"""The datasets of a node or a commit, as lineage describes them: from declarations and metadata alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.lineage.columns import ColumnLineage, changes_lineage, target_lineage, view_lineage
from kedro_lakehouse.lineage.events import Described
from kedro_lakehouse.lineage.places import (
    Place,
    landing_place,
    place_of,
    stored_columns,
    table_place,
    warehouse,
)
from kedro_lakehouse.lineage.plans import UntracedPlanError, plan_lineage
from kedro_lakehouse.names import TableName, is_reserved_column, quote
from kedro_lakehouse.session.plans import analysed_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kedro_lakehouse.names import Role
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

_LANDING: Final = "landing"
_CHANGES: Final = "changes"
_HISTORY: Final = "history"
_STORED_BY: Final[dict[str, Role]] = {
    "changes": "changes",
    "pending_current": "changes",
    "pending_history": "changes",
    "retention": "changes",
    "quarantine": "quarantine",
    "current": "current",
    "published": "current",
    "published_history": "history",
    "history": "history",
}


class Datasets:
    """Describes the datasets of a project."""

    def __init__(self, project: Project) -> None:
        """Keep the project; nothing is looked up yet."""
        self._project = project
        self._names = {str(name): name for name in project.declarations.tables}

    def of_kedro(self, names: Iterable[str]) -> list[Described]:
        """The datasets behind Kedro's own names; those that are no table's are left out."""
        found: dict[Place, Described] = {}
        for dataset in names:
            for one in self._of_kedro(dataset):
                found.setdefault(one.place, one)
        return list(found.values())

    def role_of(self, dataset: str) -> tuple[TableName, str] | None:
        """The table and the role in a dataset's name; None for a dataset of another kind."""
        text, _, role = dataset.rpartition(".")
        name = self._names.get(text)
        return (name, role) if name is not None else None

    def changes(self, name: TableName, rows: int | None = None) -> tuple[list[Described], Described]:
        """The inputs of the change log, and the change log itself."""
        stored, table = name.with_suffix("changes"), self._project.table(name)
        if table.derive is not None:
            inputs = {alias: TableName.parse(text) for alias, text in table.derive.inputs.items()}
            sources = {alias: table_place(self._project, one) for alias, one in inputs.items()}
            read = [self.stored(one) for one in inputs.values()]
            return read, self.stored(stored, rows=rows, columns=self._derived(name, inputs), sources=sources)
        landed = landing_place(self._project, name)
        config = self._project.bind(name).source_config
        time = table.effective_time or table.valid_from.source or getattr(config, "timestamp_column", None)
        of_source = [getattr(config, key, None) for key in ("sequence_column", "timestamp_column")]
        order = table.order_by or tuple(filter(None, of_source))[:1]
        columns = changes_lineage(
            table,
            self._columns(stored),
            self._project.source_columns.get(name, ()),
            order=order,
            time=time or next(iter(order), None),
            source=_LANDING,
        )
        references = dict.fromkeys(entry.stored for entry in table.enrich)
        places = {_LANDING: landed} | {str(one): table_place(self._project, one) for one in references}
        read = [Described(place=landed), *map(self.stored, references)]
        return read, self.stored(stored, rows=rows, columns=columns, sources=places)

    def target(
        self, name: TableName, kind: Role, rows: int | None = None
    ) -> tuple[list[Described], Described]:
        """The inputs of a current or history table, and the table itself."""
        read, stored = self.stored(name.with_suffix("changes")), name.with_suffix(kind)
        columns = target_lineage(self._project.table(name), self._columns(stored), source=_CHANGES)
        return [read], self.stored(stored, rows=rows, columns=columns, sources={_CHANGES: read.place})

    def view(self, name: TableName) -> tuple[list[Described], Described] | None:
        """The inputs of the view of a history, and the view; None where no view is declared."""
        from kedro_lakehouse.formats.view import plan_view, view_name

        table = self._project.table(name)
        history = stored_columns(self._project, name.with_suffix("history"))
        if table.history is None or table.history.view is None or history is None:
            return None
        in_catalog = self._project.bind(name).in_catalog
        kinds = {column: _spark_word(kind) if in_catalog else kind for column, kind in history}
        view, planned = view_name(name, table.history.view), plan_view(name, table, kinds)
        read = self.stored(name.with_suffix("history"))
        # A view has no location: it is identified by its name in the catalog.
        place = self._symlink(view)
        made = view_lineage(planned, source=_HISTORY)
        schema = [(column, "") for column in planned.names]
        return [read], Described(place=place, columns=made, sources={_HISTORY: read.place}, schema=schema)

    def stored(
        self,
        stored: TableName,
        *,
        rows: int | None = None,
        columns: ColumnLineage | None = None,
        sources: dict[str, Place] | None = None,
    ) -> Described:
        """A table by its place, with its columns and their types where it is there."""
        schema = stored_columns(self._project, stored) or []
        return Described(
            place=table_place(self._project, stored),
            symlink=self._symlink(stored),
            schema=schema,
            columns=columns,
            sources=sources or {},
            rows=rows,
        )

    def _of_kedro(self, dataset: str) -> Sequence[Described]:
        known = self.role_of(dataset)
        if known is None:
            return []
        name, role = known
        if role == _LANDING:
            table = self._project.table(name)
            return [] if table.derive else [Described(place=landing_place(self._project, name))]
        if role not in _STORED_BY:
            return []
        stored = name.with_suffix(_STORED_BY[role])
        return [Described(place=table_place(self._project, stored), symlink=self._symlink(stored))]

    def _symlink(self, stored: TableName) -> Place:
        base = place_of(warehouse(self._project))
        namespace = f"file://{base.name}" if base.namespace == "file" else f"{base.namespace}/{base.name}"
        return Place(namespace, str(stored))

    def _columns(self, stored: TableName) -> list[str]:
        return [name for name, _ in stored_columns(self._project, stored) or ()]

    def _derived(self, name: TableName, inputs: dict[str, TableName]) -> ColumnLineage | None:
        """The lineage of a derived table by Spark's analysed plan; None where it cannot be followed."""
        from kedro_lakehouse.ingestion.derived import statement_over

        table = self._project.table(name)
        assert table.derive is not None  # noqa: S101 - the caller looked
        selects = {}
        for alias, one in inputs.items():
            values = ", ".join(quote(c) for c in self._columns(one) if not is_reserved_column(c))
            selects[alias] = f"SELECT {values} FROM {self._project.format_of(one).sql(one)}"  # noqa: S608
        plan = analysed_plan(self._project.session.sql(statement_over(selects, table.derive.sql)))
        try:
            return plan_lineage(plan, list(inputs))
        except UntracedPlanError as error:
            logger.info("%s: no column lineage, for its query cannot be followed (%s)", name, error)
            return None


def _spark_word(kind: str) -> str:
    """Spark's name for a type of Iceberg; only the types that the rules of views look at are renamed."""
    return {"timestamptz": "timestamp", "timestamp": "timestamp_ntz"}.get(kind, kind)
