"""Declarations of databases that are asked for their rows in SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, model_validator

from kedro_lakehouse.config.base import Name, Names, refuse
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.pulls import PullConfig
from kedro_lakehouse.config.sources import TableProblem
from kedro_lakehouse.config.sql import statement

if TYPE_CHECKING:
    from kedro_lakehouse.config.tables import TableConfig

Dialect = Literal["postgresql", "mariadb", "mysql", "sqlserver", "oracle", "jdbc"]
_SECRET: Final = re.compile(r"(?i)password|passwd|pwd|secret|token|//[^/@]*:[^/@]*@|\w/[^/@]+@")
"""Names of secrets, and in an address `//user:password@` and `user/password@`."""
_OURS: Final = frozenset(
    {"dbtable", "query", "customschema", "partitioncolumn", "lowerbound", "upperbound", "numpartitions"}
)
"""Options of Spark's JDBC source, in lower case, that say what is read: a table says that."""


def _without_secrets(connection: Mapping[str, str | int]) -> Mapping[str, str | int]:
    for key, value in connection.items():
        if _SECRET.search(key) or (key == "url" and _SECRET.search(str(value))):
            raise refuse(
                "a secret does not belong into sources.yml",
                "Write it into credentials.yml, and name its entry under `credentials`.",
                key=key,
            )
    return connection


class SqlPullConfig(PullConfig):
    """How one table of a database is pulled."""

    fields: Names = ()
    """Columns that are read; default: all."""
    as_text: Names = ()
    """Columns that are read as the database's own text, because a value does not fit its type here, such as
    a date of `infinity`; the table's `types` say what becomes of the text.
    """


class SqlSourceConfig(PulledSourceConfig):
    """A database that is asked for its tables in SQL; `entity` is a table or view, or `schema.table`.

    The entry that `credentials` names holds `user` and `password`.
    """

    pull_model: ClassVar[type[PullConfig]] = SqlPullConfig

    dialect: Dialect
    """What the database is: `postgresql`, `mariadb`, `mysql`, `sqlserver`, `oracle`, or `jdbc` for one that
    has a JDBC driver.
    """
    connection: Annotated[Mapping[Name, str | int], AfterValidator(_without_secrets)]
    """Where it is: host, port, database (Oracle: the service), and what else its client takes, such as
    sslmode (PostgreSQL), ssl_ca (MariaDB), Encrypt (SQL Server) or protocol (Oracle). For `jdbc`: url, driver
    (its class), and what else Spark's JDBC source or the driver takes, such as fetchsize.
    """
    jars: Names = ()
    """For `jdbc`: the files of the driver, here or in S3."""
    clock: Annotated[Name, AfterValidator(statement)] | None = None
    """For `jdbc`: the query that gives the database's time as cursors have it, such as
    `SELECT CURRENT_TIMESTAMP`.
    """
    one_state: bool = False
    """Whether all tables of the source are read as they were at one moment; they are then pulled together."""

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        if self.dialect == "jdbc":
            self._require_all_of_jdbc()
        else:
            for key in ("jars", "clock"):
                if getattr(self, key):
                    raise refuse(f"{self.dialect} is not read by JDBC", "Remove it.", key=key)
        return self

    def _require_all_of_jdbc(self) -> None:
        url = str(self.connection.get("url", ""))
        if not url.startswith("jdbc:"):
            raise refuse(
                "JDBC needs the address of the database",
                "Write it under `connection`, such as {url: 'jdbc:db2://db:50000/shop'}.",
                key="connection",
            )
        for key in self.connection:
            if key.lower() in _OURS:
                raise refuse(
                    f"'{key}' says what is read, and a table says that", "Remove it.", key="connection"
                )
        if not self.jars:
            raise refuse(
                "JDBC needs the files of the database's driver",
                "Write for example [drivers/jcc-12.1.0.0.jar].",
                key="jars",
            )
        if self.clock is None:
            raise refuse(
                "JDBC needs the query that gives the database's time",
                "Write for example 'SELECT CURRENT_TIMESTAMP'.",
                key="clock",
            )
        if self.one_state:
            raise refuse(
                "by JDBC no two tables can be read as they were at one moment", "Remove it.", key="one_state"
            )

    def table_problem(self, table: TableConfig) -> TableProblem | None:
        """By JDBC open transactions are not known."""
        problem = super().table_problem(table)
        if problem is None and self.dialect == "jdbc" and self.pull_of(table).late == "open_transactions":
            return TableProblem(
                key="pull.late",
                problem="JDBC does not tell which transactions are open.",
                remedy="Write for example {overlap: 10 min}, longer than any transaction.",
            )
        return problem

    @property
    def tells_transactions(self) -> bool:
        """Whether the database can be asked which transactions are open."""
        return self.dialect != "jdbc"

    @property
    def reads_one_state(self) -> bool:
        """Whether all tables of the source are read as they were at one moment."""
        return self.one_state

    def place_of(self, table: object) -> str:
        """The dialect, the server, the database and the table; by JDBC the address and the table."""
        if self.dialect == "jdbc":
            return f"{address_alone(str(self.connection['url']))}/{getattr(table, 'entity', '')}"
        host, database = self.connection.get("host", "localhost"), self.connection.get("database", "")
        return f"{self.dialect}://{host}/{database}/{getattr(table, 'entity', '')}"


def address_alone(url: str) -> str:
    """The address of a database by JDBC, without what it says to the driver."""
    return re.split(r"[?;]", url)[0]
