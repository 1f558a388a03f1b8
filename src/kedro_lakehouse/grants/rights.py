"""The rights in Lake Formation that grants.yml stands for: permissions of principals on resources.

Lake Formation does not mask: a column that is masked here is not granted there. Rows are filtered there by a
data cells filter, one of a role and table. A tag is a key of its own, which columns have or have not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.grants.access import RoleAccess
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kedro_lakehouse.grants.access import TableAccess
    from kedro_lakehouse.project import Project

    Resource = dict[str, Any]
    Columns = Mapping[TableName, Sequence[str]]
    """The columns of each stored table that the catalog has."""

TAG_PREFIX: Final = "kedro-lakehouse:"
"""Begins the keys of our tags, so that no tag of somebody else is taken for one of ours."""
FILTER_PREFIX: Final = "kedro_lakehouse_"
"""Begins the names of our data cells filters."""
TAG_VALUES: Final = ["yes"]
"""The one value of a tag's key."""


@dataclass(frozen=True, order=True)
class Right:
    """One permission of a principal on a resource; equal resources have the same text."""

    principal: str
    resource: str
    permission: str
    passes_on: bool = False
    """Whether the principal may give it to others: no grant of ours says so."""


def text_of(resource: Mapping[str, Any]) -> str:
    """A resource as text that is the same for equal ones, however Lake Formation lists them.

    It lists each with the catalog's number, and columns in no order.
    """
    (kind, given), *_ = resource.items()
    own = {key: value for key, value in given.items() if key != "CatalogId"}
    if "TableWildcard" in own:
        own.pop("Name", None)
    if "ColumnNames" in own:
        own["ColumnNames"] = sorted(own["ColumnNames"])
    if names := own.get("ColumnWildcard", {}).get("ExcludedColumnNames"):
        own["ColumnWildcard"] = {"ExcludedColumnNames": sorted(names)}
    return json.dumps({kind: own}, sort_keys=True)


def database(namespace: str) -> Resource:
    """A database as a resource."""
    return {"Database": {"Name": namespace}}


def whole_table(name: TableName) -> Resource:
    """A table as a resource, of which DESCRIBE is granted."""
    return {"Table": {"DatabaseName": name.namespace, "Name": name.table}}


def some_columns(name: TableName, choice: Mapping[str, Any]) -> Resource:
    """Columns of a table as a resource, of which SELECT is granted."""
    return {"TableWithColumns": {"DatabaseName": name.namespace, "Name": name.table} | dict(choice)}


def tag_policy(tag: str) -> Resource:
    """All columns with a tag, as a resource."""
    return {"LFTagPolicy": {"ResourceType": "TABLE", "Expression": [lf_tag(f"{TAG_PREFIX}{tag}")]}}


def lf_tag(key: str) -> dict[str, Any]:
    """One of our tags, by its key, as Lake Formation has it."""
    return {"TagKey": key, "TagValues": TAG_VALUES}


@dataclass(frozen=True, kw_only=True)
class WantedRights:
    """What grants.yml says of one account's catalog, for the roles that have a principal.

    Attributes:
        account: The number of the account, which data cells filters name.
        columns: The columns of the stored tables that are there.
        databases: The databases that are there.
    """

    project: Project
    account: str
    columns: Columns
    databases: Collection[str]

    def rights(self) -> dict[Right, Resource]:
        """Each right with its resource."""
        found: dict[Right, Resource] = {}
        for role, principal in self.project.grants.principals.items():
            for resource, permission in self._of_role(role):
                found[Right(principal, text_of(resource), permission)] = resource
        return found

    def filters(self) -> dict[str, Resource]:
        """Each data cells filter, by its text as a resource."""
        made = [
            self._filter(name, access)
            for role in self.project.grants.principals
            for name, access in self._tables(role)
            if access.rows is not None and self._visible(name, access)
        ]
        return {text_of(filter_resource(one)): one for one in made}

    def granted_tags(self) -> set[str]:
        """The tags that a role is granted."""
        grants = self.project.grants
        return {one.tag for role in grants.principals for one in grants.roles[role] if one.tag}

    def keys_of_columns(self) -> dict[TableName, dict[str, set[str]]]:
        """The keys of granted tags that each column of a stored table has."""
        granted = self.granted_tags()
        found: dict[TableName, dict[str, set[str]]] = {}
        for owner, table in self.project.declarations.tables.items():
            keys: dict[str, set[str]] = {}
            for tag in table.tagged.keys() & granted:
                for column in table.tagged[tag]:
                    keys.setdefault(column.lower(), set()).add(f"{TAG_PREFIX}{tag}")
            for name in self._there(owner):
                there = self.columns[name]
                found[name] = {column: keys[column.lower()] for column in there if column.lower() in keys}
        return found

    def _of_role(self, role: str) -> Iterator[tuple[Resource, str]]:
        for grant in self.project.grants.of(role):
            if grant.database in self.databases:
                yield database(str(grant.database)), "DESCRIBE"
            elif grant.tag is not None:
                yield tag_policy(grant.tag), "SELECT"
            elif grant.table is not None and grant.can == "describe":
                yield from ((whole_table(n), "DESCRIBE") for n in self._there(TableName.parse(grant.table)))
        for name, access in self._tables(role):
            if access.include is None and not access.exclude:  # else it would tell of hidden columns
                yield whole_table(name), "DESCRIBE"
            visible = self._visible(name, access)
            if access.rows is not None and visible:
                yield filter_resource(self._filter(name, access)), "SELECT"
            elif visible:
                yield some_columns(name, self._choice(name, access)), "SELECT"

    def _tables(self, role: str) -> Iterator[tuple[TableName, TableAccess]]:
        """The stored tables that are there and that a role reads, but for what tags give by themselves."""
        grants = self.project.grants.of(role)
        for owner, access in RoleAccess.of(self.project, role).tables.items():
            if access.reads and grants[access.number].tag is None:
                for name in self._there(owner):
                    access.refuse_unknown(self.columns[name])
                    yield name, access

    def _there(self, owner: TableName) -> list[TableName]:
        """The tables of a declared one, that roles may see, which are in the catalog."""
        return [name for name in (owner, owner.with_suffix("history")) if name in self.columns]

    def _visible(self, name: TableName, access: TableAccess) -> list[str]:
        """The columns that a role reads as they are."""
        return [c for c in self.columns[name] if access.shows(c) and access.mask_of(c) == "none"]

    def _choice(self, name: TableName, access: TableAccess) -> dict[str, Any]:
        """The columns of a grant: exactly these, or, as the file says it, all but these."""
        visible = self._visible(name, access)
        if access.include is not None:
            return {"ColumnNames": sorted(visible)}
        hidden = sorted(set(self.columns[name]) - set(visible))
        return {"ColumnWildcard": {"ExcludedColumnNames": hidden} if hidden else {}}

    def _filter(self, name: TableName, access: TableAccess) -> Resource:
        return {
            "TableCatalogId": self.account,
            "DatabaseName": name.namespace,
            "TableName": name.table,
            "Name": f"{FILTER_PREFIX}{access.role}",
            "RowFilter": {"FilterExpression": access.rows},
        } | self._choice(name, access)


def filter_resource(made: Mapping[str, Any]) -> Resource:
    """A data cells filter as a resource."""
    names = ("TableCatalogId", "DatabaseName", "TableName", "Name")
    return {"DataCellsFilter": {name: made[name] for name in names}}
