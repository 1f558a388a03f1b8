"""Declarations of databases that are asked for their rows in SQL."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from kedro_lakehouse.config.base import Name, Names, refuse
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.pulls import PullConfig

Dialect = Literal["postgresql", "mariadb", "mysql", "sqlserver", "oracle"]


def _without_secrets(connection: Mapping[str, str | int]) -> Mapping[str, str | int]:
    for key in connection:
        if "password" in key.lower() or key.lower() in ("passwd", "secret"):
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
    """What the database is: `postgresql`, `mariadb`, `mysql`, `sqlserver` or `oracle`."""
    connection: Annotated[Mapping[Name, str | int], AfterValidator(_without_secrets)]
    """Where it is: host, port, database (Oracle: the service), and what else its client takes, such as
    sslmode (PostgreSQL), ssl_ca (MariaDB), Encrypt (SQL Server) or protocol (Oracle).
    """
    one_state: bool = False
    """Whether all tables of the source are read as they were at one moment; they are then pulled together."""

    @property
    def reads_one_state(self) -> bool:
        """Whether all tables of the source are read as they were at one moment."""
        return self.one_state

    def place_of(self, table: object) -> str:
        """The dialect, the server, the database and the table."""
        host, database = self.connection.get("host", "localhost"), self.connection.get("database", "")
        return f"{self.dialect}://{host}/{database}/{getattr(table, 'entity', '')}"
