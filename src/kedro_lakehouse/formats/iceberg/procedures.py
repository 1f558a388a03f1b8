"""Calls of Iceberg's own procedures, as SQL: it holds only our own words, numbers and checked names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.formats.literals import text
from kedro_lakehouse.names import CATALOG

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from kedro_lakehouse.names import TableName

RACED: Final = ("CommitFailedException", "ValidationException", "Cannot commit")
"""Words in the errors of a procedure that another writer was faster than."""


def call(procedure: str, table: TableName, **arguments: object) -> str:
    """The call of a procedure; the arguments are SQL."""
    named = ", ".join(f"{name} => {value}" for name, value in arguments.items())
    return f"CALL {CATALOG}.system.{procedure}(table => {text(str(table))}, {named})"


def rewrite_of_deletes(table: TableName, options: Mapping[str, object]) -> str:
    """The call that rewrites files of deleted positions."""
    return call("rewrite_position_delete_files", table, options=as_map(options))


def rewrite_of_manifests(table: TableName) -> str:
    """The call that rewrites manifests."""
    return call("rewrite_manifests", table, use_caching="false")


def expiry(table: TableName, *, before: dt.datetime, keep: int) -> str:
    """The call that expires snapshots, but the newest ones."""
    return call("expire_snapshots", table, older_than=as_timestamp(before), retain_last=keep)


def as_map(options: Mapping[str, object]) -> str:
    """Options as a map of SQL."""
    return f"map({', '.join(f'{text(k)}, {text(str(v))}' for k, v in options.items())})"


def as_timestamp(time: dt.datetime) -> str:
    """A time in UTC as a timestamp of SQL."""
    return f"TIMESTAMP {text(time.strftime('%Y-%m-%d %H:%M:%S.%f') + ' UTC')}"
