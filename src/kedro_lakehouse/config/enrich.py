"""What a table takes from a reference table: the key ``enrich`` of tables.yml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from kedro_lakehouse.config.base import Declaration, Name, refuse
from kedro_lakehouse.config.history import ColumnName  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.names import TableName


def _named(value: object) -> object:
    """A list of columns as {column: its name in the table}."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return {str(name): name for name in value}
    return value


def _distinct(names: Mapping[str, str]) -> Mapping[str, str]:
    given = [name.lower() for name in names.values()]
    if doubled := sorted({name for name in given if given.count(name) > 1}):
        raise refuse(f"'{doubled[0]}' is given twice (case does not count)", "Give each column its own name.")
    return names


def _with_on(raw: object) -> object:
    """A lookup as it was written: YAML 1.1 reads the bare word ``on`` as true."""
    if isinstance(raw, Mapping) and True in raw and "on" not in raw:
        return {"on" if key is True else key: value for key, value in raw.items()}
    return raw


class EnrichConfig(Declaration):
    """Columns that each event takes from the row of a reference table with the same key."""

    table: Name
    """The reference table, a table of tables.yml."""
    on: Mapping[Name, Name] = Field(min_length=1)
    """The reference's key by the events' columns that hold it, as {column of the events: key column}."""
    columns: Annotated[
        Mapping[Name, ColumnName],
        Field(min_length=1),
        BeforeValidator(_named, json_schema_input_type=Mapping[Name, ColumnName] | tuple[Name, ...]),
        AfterValidator(_distinct),
    ]
    """Columns of the reference that the table gets: a list, or {column: its name in the table}."""
    as_of: Literal["arrival", "event"] = "arrival"
    """Which state of the reference counts: that of the time when the event arrives, or of its own time."""

    @property
    def stored(self) -> TableName:
        """The stored table that is looked up in: the reference's current table, or its history."""
        return TableName.parse(self.table).with_suffix("history" if self.as_of == "event" else "current")


Enrich = Annotated[EnrichConfig, BeforeValidator(_with_on)]


def columns_for_lookups(enrich: Sequence[EnrichConfig]) -> tuple[str, ...]:
    """The columns of events that hold keys of references, each once."""
    return tuple(dict.fromkeys(name for entry in enrich for name in entry.on))


def enriched_columns(enrich: Sequence[EnrichConfig]) -> tuple[str, ...]:
    """The names of the columns that come from references."""
    return tuple(name for entry in enrich for name in entry.columns.values())


def refuse_unclear(enrich: Sequence[EnrichConfig]) -> None:
    """Refuse lookups of one table that give a column twice, or look up by what they give.

    Raises:
        PydanticCustomError: They do.
    """
    names = enriched_columns(enrich)
    if doubled := [name for name in names if names.count(name) > 1]:
        problem = f"two lookups give the column '{doubled[0]}'"
        raise refuse(problem, "Give one another name: {column: name}.", key="enrich")
    if alike := [name for name in columns_for_lookups(enrich) if name in names]:
        problem = f"'{alike[0]}' is looked up by, and is a column that a lookup gives"
        raise refuse(problem, "Give the looked up column another name: {column: name}.", key="enrich")
