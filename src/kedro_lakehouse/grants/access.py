"""What a role may see of each declared table: its grants and the tags of columns, taken together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.config.grants import GRANTS_FILE, MASKS
from kedro_lakehouse.config.loading import TABLES_FILE
from kedro_lakehouse.errors import ConfigurationError, did_you_mean
from kedro_lakehouse.formats.view import view_name
from kedro_lakehouse.names import SNAPSHOT_ID, is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kedro_lakehouse.config.grants import GrantConfig, Mask
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

VERSION_COLUMNS: Final = ("effective_from", "effective_to", "is_current", "_tombstone")
"""The framework's own columns of a history that a role sees; the others tell of keys and files."""
_SHOWN: Final = frozenset({*VERSION_COLUMNS, SNAPSHOT_ID})
_VERSION_TIMES: Final = VERSION_COLUMNS[:2]


@dataclass(frozen=True, kw_only=True)
class TableAccess:
    """What a role may see of one declared table, its history and its view; names are in lower case.

    Attributes:
        number: The place in the role's list of the grant that says most of it.
        reads: Whether rows are shown; else names and types alone.
        include: The columns that are shown; None: all.
        exclude: Of these, the columns that are not.
        masks: How columns are masked; one that is not here is shown as it is.
        rows: The condition that rows meet which are shown, as it was written; None: all rows.
        named: The columns that the grant, or a tag that masks them, names one by one, and where: the file and
            its key.
        hides_times: Whether versions are shown without their times, which come from a column that is hidden
            or masked.
    """

    role: str
    number: int
    table: TableName
    reads: bool
    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    masks: Mapping[str, Mask] = field(default_factory=dict)
    rows: str | None = None
    named: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    hides_times: bool = False

    def shows(self, column: str) -> bool:
        """Whether a column is shown at all, masked or not."""
        name = column.lower()
        if name in _SHOWN:
            return not (self.hides_times and name in _VERSION_TIMES)
        if is_reserved_column(name):
            return False
        return (self.include is None or name in self.include) and name not in self.exclude

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Refuse a table that never had a column which is named: misspelled, it would hide nothing.

        Raises:
            ConfigurationError: There is such a column.
        """
        for column, (file, key) in self.named.items():
            if column not in map(str.lower, known):
                raise ConfigurationError(
                    file=file,
                    key=key,
                    problem=f"{self.table} has no column '{column}'.{did_you_mean(column, known)}",
                    remedy=f"Correct it: until then the role '{self.role}' sees nothing of the table.",
                )

    def mask_of(self, column: str) -> Mask:
        """How a column is masked."""
        return self.masks.get(column.lower(), "none")


@dataclass(frozen=True, kw_only=True)
class RoleAccess:
    """What a role may see of the declared tables."""

    role: str
    tables: Mapping[TableName, TableAccess]
    _configs: Mapping[TableName, TableConfig] = field(repr=False)

    @classmethod
    def of(cls, project: Project, role: str) -> RoleAccess:
        """Take a role's grants together.

        Raises:
            ConfigurationError: grants.yml does not declare the role, or something is wrong in it.
        """
        grants, declared = project.grants, project.declarations.tables
        own = grants.of(role)
        found = {name: _access(name, table, role, own, grants.masks) for name, table in declared.items()}
        return cls(role=role, tables={n: one for n, one in found.items() if one}, _configs=dict(declared))

    @cached_property
    def by_name(self) -> Mapping[str, TableAccess]:
        """What may be seen, by the name of each stored table and view."""
        return dict(self._named())

    def _named(self) -> Iterator[tuple[str, TableAccess]]:
        for name, access in self.tables.items():
            config = self._configs[name]
            if config.current:
                yield str(name), access
            if config.history:
                yield str(name.with_suffix("history")), access
            if config.history and config.history.view:
                yield str(view_name(name, config.history.view)), access

    def sees_profile(self, table: str, column: str, *, has_values: bool) -> bool:
        """Whether the role may see what is known of a current table's column over all its rows.

        Of a masked column that is so if none of its values is known; under a condition on rows it never is.
        """
        access = self.by_name.get(table)
        if access is None or not access.reads or access.rows is not None or not access.shows(column):
            return False
        return not has_values or access.mask_of(column) == "none"


def _access(
    name: TableName, table: TableConfig, role: str, grants: Sequence[GrantConfig], masks: Mapping[str, Mask]
) -> TableAccess | None:
    """What a role's grants say of a table; None where it may read none of it.

    A grant on the table takes the place of one on its database; tags add their columns to either.
    """
    own = next((grant for grant in grants if grant.table == str(name)), None)
    own = own or next((g for g in grants if g.database == name.namespace and g.can == "select"), None)
    tags = {grant.tag for grant in grants if grant.tag}
    given = _lower(column for tag in tags for column in table.tagged.get(tag, ()))
    if own is not None and own.can == "describe" and not given:
        return TableAccess(role=role, number=grants.index(own), table=name, reads=False)
    include: frozenset[str] | None = given
    if own is not None and own.can == "select":
        chosen = own.columns.include if own.columns else None
        include = None if chosen is None else _lower(chosen) | given
    elif given:
        own = next(grant for grant in grants if grant.tag in table.tagged)
    else:
        return None
    found = TableAccess(
        role=role,
        number=grants.index(own),
        table=name,
        reads=True,
        include=include,
        exclude=_lower((own.columns.exclude if own.columns else None) or ()),
        masks=_masks(table, tags, own.mask, masks),
        rows=own.rows,
        named={
            **dict(_named_by_tags(name, table, masks.keys() - tags)),
            **{
                c.lower(): (GRANTS_FILE, f"{role}[{grants.index(own)}].{key}") for key, c in own.columns_named
            },
        },
    )
    times = filter(None, [table.effective_time, table.valid_from.column, table.valid_from.updated_at])
    hidden = any(not found.shows(time) or found.mask_of(time) != "none" for time in times)
    return replace(found, hides_times=hidden)


def _named_by_tags(
    name: TableName, table: TableConfig, tags: Collection[str]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """The columns that tags mask, each with the key of tables.yml that gives it the tag."""
    for tag in table.tagged.keys() & tags:
        short = tag not in table.column_tags
        key = f"{name}.{tag}" if short else f"{name}.column_tags.{tag}"
        yield from ((column.lower(), (TABLES_FILE, key)) for column in table.tagged[tag])


def _masks(
    table: TableConfig, tags: Collection[str], own: Mapping[str, Mask], of_tags: Mapping[str, Mask]
) -> dict[str, Mask]:
    """How columns are masked: by the strictest mask of their tags, unless the grant says it of the column.

    A tag that is granted lifts its own mask and not those of other tags; `public` lifts all.
    """
    found: dict[str, Mask] = {}
    public = _lower(table.tagged.get("public", ()))
    for tag in table.tagged.keys() & of_tags.keys() - tags:
        for column in _lower(table.tagged[tag]) - public:
            found[column] = max(found.get(column, "none"), of_tags[tag], key=MASKS.index)
    found |= {column.lower(): mask for column, mask in own.items()}
    return {column: mask for column, mask in found.items() if mask != "none"}


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(str.lower, names))
