"""Which person a row is about: the key ``subject`` of tables.yml."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from kedro_lakehouse.config.base import Declaration, Name, refuse


def _short(value: object) -> object:
    """The name of a column as a whole mapping."""
    return {"column": value} if isinstance(value, str) else value


class SubjectConfig(Declaration):
    """The column that names the person whom a row is about, directly or by a row of another table."""

    column: Name
    """Column of the table with the person's identifier, or with a key of the table `through`."""
    through: Name | None = None
    """A table whose rows lead to the person, as namespace.table; default: `column` names the person."""
    is_: Name | None = Field(default=None, alias="is")
    """Column of the table `through` that names the person; default: its own `subject`."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.is_ is not None and self.through is None:
            raise refuse(
                "'is' is a column of the table 'through', and there is none", "Add `through`.", key="is"
            )
        return self


Subject = Annotated[SubjectConfig, BeforeValidator(_short, json_schema_input_type=SubjectConfig | Name)]


def _requests(value: object) -> object:
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


class ErasureRequestsConfig(Declaration):
    """A table whose rows are requests of persons to be erased: its `subject` names the person."""

    due: Name | None = None
    """Column with the time until which a request is to be met; default: none is known."""


ErasureRequests = Annotated[
    ErasureRequestsConfig | None,
    BeforeValidator(_requests, json_schema_input_type=ErasureRequestsConfig | bool),
]
