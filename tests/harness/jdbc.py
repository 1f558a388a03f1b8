"""PostgreSQL and MariaDB as databases that only have a JDBC driver."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.server_jars import server_jars

if TYPE_CHECKING:
    from harness.pulled import Shop

_DRIVERS: Final = {
    "org.postgresql:postgresql:42.7.11": "org.postgresql_postgresql-42.7.11.jar",
    "org.mariadb.jdbc:mariadb-java-client:3.5.3": "org.mariadb.jdbc_mariadb-java-client-3.5.3.jar",
}


def by_jdbc(shop: Shop, folder: str, *, port: int | None = None, **more: Any) -> dict[str, Any]:
    """The declaration of a database as one that is read by JDBC."""
    place = f"127.0.0.1:{port or shop.server.port}/{shop.database}"
    # Spark quotes names as MariaDB reads them only where the address says mysql.
    url = f"jdbc:postgresql://{place}" if shop.is_postgres else f"jdbc:mysql://{place}?permitMysqlScheme"
    own = {"dialect": "jdbc", "connection": {"url": url}, "jars": drivers()}
    return shop.source(folder) | own | {"clock": f"SELECT {shop.now}"} | more


def drivers() -> list[str]:
    """The jars of both drivers, without what these need only at times: one process serves both databases."""
    return [jar for jar in server_jars(",".join(_DRIVERS)) if Path(jar).name in _DRIVERS.values()]
