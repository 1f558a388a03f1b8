"""What a query may name: stored tables, their views, and what a role sees of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kedro_lakehouse.formats.view import view_name
from kedro_lakehouse.names import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.grants.access import RoleAccess, TableAccess
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.query.pins import Pin

    Declared = tuple[TableName, TableConfig]


@dataclass(frozen=True, kw_only=True)
class QueriedLake:
    """The names that queries may use; it crosses to the process that answers one.

    Attributes:
        declared: The stored tables that declarations ask for, there or not.
        views: The name of each declared view with the table whose history it shows.
        elsewhere: The names that are not in Iceberg, each with its format.
        both: The names ``ns.table_all``, each with the table that it shows with its archive.
        role: What a role may see; None: everything.
        pins: The snapshots at which tables are read.
    """

    declared: frozenset[str] = frozenset()
    views: Mapping[str, Declared] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    both: Mapping[str, Declared] = field(default_factory=dict)
    role: RoleAccess | None = None
    pins: Mapping[str, Pin] = field(default_factory=dict)

    @classmethod
    def of(cls, project: Project, role: RoleAccess | None = None) -> QueriedLake:
        """The names of a project; nothing is read."""
        declared, elsewhere = set[str](), dict[str, str]()
        views: dict[str, Declared] = {}
        both = together(project)
        aged = {str(name) for name, _ in both.values()}
        for name, table in project.declarations.tables.items():
            stored = {str(name.with_suffix(kind)) for kind in ROLES}
            declared |= stored
            if table.history and table.history.view:
                view = str(view_name(name, table.history.view))
                views[view] = (name, table)
                stored.add(view)
            if str(name) in aged:
                stored.add(f"{name}_all")
            bound = project.bind(name)
            if not bound.in_catalog:
                elsewhere |= dict.fromkeys(stored, bound.format_name)
        return cls(declared=frozenset(declared), views=views, elsewhere=elsewhere, both=both, role=role)

    def at(self, pins: Mapping[str, Pin]) -> QueriedLake:
        """The same lake, some of whose tables are read at a snapshot."""
        return replace(self, pins=pins)

    def access(self, name: str) -> TableAccess | None:
        """What the role may see of a table or view; None where no role asks."""
        return None if self.role is None else self.role.by_name[name]


def together(project: Project) -> dict[str, Declared]:
    """The names ``ns.table_all`` that show a table with its archive: of each whose rows may grow old."""
    tables = project.declarations.tables.items()
    return {f"{name}_all": (name, table) for name, table in tables if table.retention is not None}
