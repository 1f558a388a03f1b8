"""Declarations of SAP sources in sources.yml, and of what is pulled from a table of SAP in tables.yml."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import AfterValidator, Field

from kedro_lakehouse.config.base import Name, Names, refuse
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.pulls import Overlap, PullConfig
from kedro_lakehouse.config.sources import TableProblem

if TYPE_CHECKING:
    from kedro_lakehouse.config.tables import TableConfig

_SECRET: Final = frozenset({"user", "passwd", "password", "mysapsso2", "x509cert", "saml2"})
_ONE_DAY: Final = dt.timedelta(days=1)


def _no_secret(connection: Mapping[str, str]) -> Mapping[str, str]:
    if found := sorted(_SECRET & {key.lower() for key in connection}):
        raise refuse("the connection logs in", "Put it into credentials.yml.", key=found[0])
    words = {key.lower() for key in connection}
    if "client" not in words:
        raise refuse("the connection names no client of SAP", 'Add for example client: "100".', key="client")
    if not words & {"ashost", "mshost", "dest", "wshost"}:
        raise refuse("the connection names no server", "Add `ashost` and `sysnr`, or `mshost`.", key="ashost")
    return connection


class SapPullConfig(PullConfig):
    """What is pulled from one table of SAP."""

    fields: Names = ()
    """Fields that are read, beside the key fields; default: all, if their lengths fit into one answer."""
    where: str = ""
    """Condition in Open SQL that rows must meet, such as "ERDAT >= '20240101'"."""
    key_fields: Names = ()
    """The table's whole primary key; default: the table's `keys`."""
    range_by: Name | None = None
    """Key field by which rows are divided over calls; default: the one with the most values."""
    max_rows: int | None = Field(None, ge=1)
    """Most rows, in the order of `range_by`, to have a first look: the others count as deleted."""
    from_row: int = Field(0, ge=0)
    """So many rows are left out before them."""


class SapSourceConfig(PulledSourceConfig):
    """Tables of SAP, read by a function such as RFC_READ_TABLE; a table's `entity` is its name in SAP."""

    pull_model: ClassVar[type[PullConfig]] = SapPullConfig

    connection: Annotated[Mapping[Name, str], AfterValidator(_no_secret)]
    """Parameters of the RFC SDK: `client`, and `ashost` with `sysnr`, or `mshost` with `sysid`."""
    function: Name = "RFC_READ_TABLE"
    """A function with the interface of RFC_READ_TABLE."""
    width: int = Field(512, ge=32)
    """Most characters of a row in one answer; wider rows are read in parts and joined by their keys."""
    rows: int = Field(1_000, ge=1)
    """About so many rows are read by one call; all rows with one value of `range_by` are read at once."""

    def place_of(self, table: TableConfig) -> str:
        """The server, the client and the table in SAP."""
        words = {key.lower(): value for key, value in self.connection.items()}
        server = words.get("ashost") or words.get("mshost") or words.get("wshost") or words.get("dest")
        return f"sap://{server}/{words['client']}/{table.entity}"

    def table_problem(self, table: TableConfig) -> TableProblem | None:
        """Rows are read by their keys."""
        problem = super().table_problem(table)
        pull = self.pull_of(table)
        if problem is None and isinstance(pull.late, Overlap) and pull.late.overlap < _ONE_DAY:
            return TableProblem(
                key="pull.late",
                problem="dates of SAP have no time, so a window must overlap by a day at least.",
                remedy="Write for example {overlap: 1 day}, or leave it out.",
            )
        if problem is None and pull.late == "open_transactions":
            return TableProblem(
                key="pull.late",
                problem="SAP does not tell which transactions are open.",
                remedy="Write for example {overlap: 1 day}, or leave it out.",
            )
        if problem is None and not (table.keys or getattr(pull, "key_fields", ())):
            return TableProblem(
                key="pull.key_fields",
                problem="rows of SAP are read by their primary key.",
                remedy="List the key fields, such as {key_fields: [MANDT, VBELN, POSNR]}.",
            )
        return problem
