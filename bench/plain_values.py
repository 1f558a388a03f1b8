"""Other readers' values of a database's columns, for ``values.py``, which starts it.

Usage: ``python bench/plain_values.py READER DIALECT PORT FILE COLUMN...``, with what the reader imports at
hand; writes a pickled mapping of each column to its value, or to the error that the reader ended with, after
each column.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any, Final

os.environ.update(RUNTIME__DLTHUB_TELEMETRY="false", RUNTIME__LOG_LEVEL="CRITICAL")

from plain_sources import USERS

DRIVERS: Final = {"postgresql": "PostgreSQL Unicode", "mariadb": "MariaDB Unicode"}
"""The names of ODBC's drivers, as Debian's packages odbc-postgresql and odbc-mariadb register them."""


def query(column: str) -> str:
    """Asks for one column by its view."""
    return f"SELECT * FROM only_{column}"


def connectorx(dialect: str, port: int, column: str) -> Any:
    """connectorx, into Arrow."""
    import connectorx as cx

    user, password, database = USERS[dialect]
    scheme = "postgresql" if dialect == "postgresql" else "mysql"
    address = f"{scheme}://{user}:{password}@127.0.0.1:{port}/{database}"
    return cx.read_sql(address, query(column), return_type="arrow")[column][0].as_py()


def arrow_odbc(dialect: str, port: int, column: str) -> Any:
    """arrow-odbc, with the driver that Debian has."""
    from arrow_odbc import read_arrow_batches_from_odbc

    user, password, database = USERS[dialect]
    address = (
        f"Driver={{{DRIVERS[dialect]}}};Server=127.0.0.1;Port={port};Database={database};"
        f"Uid={user};Pwd={password};"
    )
    reader = read_arrow_batches_from_odbc(
        query(column), connection_string=address, max_text_size=4096, max_binary_size=4096
    )
    (batch,) = [batch for batch in reader if batch.num_rows]
    return batch[column][0].as_py()


def dlt(dialect: str, port: int, column: str, backend: str = "sqlalchemy") -> Any:
    """Dlt's sql_database, without its pipeline, with its default backend."""
    from dlt.sources.sql_database import sql_table

    user, password, database = USERS[dialect]
    scheme = "postgresql+psycopg2" if dialect == "postgresql" else "mysql+pymysql"
    address = f"{scheme}://{user}:{password}@127.0.0.1:{port}/{database}"
    (found,) = sql_table(address, table=f"only_{column}", backend=backend)
    return found[column] if isinstance(found, dict) else found[column][0].as_py()


def dlt_arrow(dialect: str, port: int, column: str) -> Any:
    """The same with Arrow."""
    return dlt(dialect, port, column, "pyarrow")


READERS: Final = {"connectorx": connectorx, "arrow-odbc": arrow_odbc, "dlt": dlt, "dlt, Arrow": dlt_arrow}


def main() -> None:
    """Read each column by itself: what one of them does to a reader does not hide the others."""
    reader, dialect, port, file, *columns = sys.argv[1:]
    found: dict[str, tuple[str, Any]] = {}
    for column in columns:
        try:
            found[column] = ("value", READERS[reader](dialect, int(port), column))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - connectorx panics with one that is no Exception
            found[column] = ("error", f"{type(error).__name__}: {error}"[:200])
        Path(file).write_bytes(pickle.dumps(found))  # the next one may end the process


if __name__ == "__main__":
    main()
