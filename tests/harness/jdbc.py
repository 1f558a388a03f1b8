"""Databases that are read by their JDBC drivers: H2, and PostgreSQL and MariaDB as if they had no dialect."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.processes import Server, free_port, wait_for
from harness.server_jars import server_jars
from kedro_lakehouse.session.java import java_command

if TYPE_CHECKING:
    from harness.pulled import Shop

_DRIVERS: Final = {
    "com.h2database:h2:2.4.240": "com.h2database_h2-2.4.240.jar",
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
    """The jars of the drivers, without what these need only at times: one process serves all databases."""
    return [jar for jar in server_jars(",".join(_DRIVERS)) if Path(jar).name in _DRIVERS.values()]


class H2(Server):
    """A server of H2, a database that has no dialect here."""

    def __init__(self, folder: Path) -> None:
        """Start it with the database ``shop``, and wait until it answers."""
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True)
        words = ["-tcp", "-tcpPort", str(self.port), "-ifNotExists", "-baseDir", str(self.folder)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(_java("Server", *words), stdout=log, stderr=log)
        wait_for(self.port, self._process, self.log)

    def script(self, text: str) -> None:
        """Run statements as the administrator."""
        file = self.folder / "script.sql"
        file.write_text(text, encoding="utf-8")
        subprocess.run(_java("RunScript", "-url", self.url, "-user", "sa", "-script", str(file)), check=True)

    @property
    def url(self) -> str:
        """The address of the database."""
        return f"jdbc:h2:tcp://127.0.0.1:{self.port}/shop"


def _java(tool: str, *words: str) -> list[str]:
    own = next(jar for jar in drivers() if "h2database" in jar)
    return [java_command() or "java", "-cp", own, f"org.h2.tools.{tool}", *words]
