"""Real databases for the tests of streams and of pulled sources: PostgreSQL and MariaDB."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import pytest

from harness.processes import PATIENCE, Server, free_port, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INSTALLED_BY: Final = {
    "initdb": "PostgreSQL's server is not there: apt-get install postgresql-15, and put it on PATH",
    "mariadbd": "MariaDB's server is not there: apt-get install mariadb-server",
}
"""What to say where a server's program is not on PATH, by the program."""


def is_installed(program: str) -> bool:
    """Whether a server's program is on PATH; Debian keeps MariaDB's where only root has it there."""
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is not None


class _Database(Server):
    """A database server that runs as a user without privileges, in a folder of its own."""

    user: ClassVar[str]
    """Who runs it where the tests are run by root."""
    goes_on: ClassVar[tuple[str, ...]]
    """Options with which its client goes on after a statement that fails."""

    def __init__(self, folder: Path) -> None:
        """Make an empty database and start its server."""
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True)
        folder.parent.chmod(0o711)  # the server's user passes through it
        if os.getuid() == 0:
            shutil.chown(folder, self.user)
        self._make()
        self.start()

    def start(self) -> None:
        """Start the server, also again after ``halt``."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._as_its_user(*self._server()), cwd=self.folder, stdout=log, stderr=log
            )
        wait_for(self.port, self._process, self.log)
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert time.monotonic() < end, self.log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)

    def halt(self) -> None:
        """Stop the server with all its connections; its data stay."""
        self._halt()
        self._process.wait(PATIENCE)

    def _make(self) -> None:
        raise NotImplementedError

    def _halt(self) -> None:
        raise NotImplementedError

    def _server(self) -> list[str]:
        raise NotImplementedError

    def client(self) -> list[str]:
        """The command of its client, which reads statements from its standard input and prints rows only."""
        raise NotImplementedError

    def _answers(self) -> bool:
        return self._asked("SELECT 1;", check=False).returncode == 0

    def _as_its_user(self, *words: str) -> list[str]:
        return ["runuser", "-u", self.user, "--", *words] if os.getuid() == 0 else [*words]

    def _run(self, *words: str) -> None:
        subprocess.run(self._as_its_user(*words), cwd=self.folder, check=True, capture_output=True)

    def _asked(self, text: str, *options: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [*self.client(), *options]
        asked = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert asked.returncode == 0 or not check, asked.stderr[-2000:]
        return asked

    def script(self, text: str, *, to_the_end: bool = False) -> list[str]:
        """Run statements in one session, each as it says itself; the lines of their rows.

        The first that fails ends it, unless ``to_the_end`` is asked for.
        """
        options = self.goes_on if to_the_end else ()
        return self._asked(text, *options, check=not to_the_end).stdout.splitlines()


class Postgres(_Database):
    """One PostgreSQL server with logical decoding."""

    user = "postgres"
    goes_on = ("-v", "ON_ERROR_STOP=0")
    connector_packages = "io.debezium:debezium-connector-postgres:3.6.1.Final"

    def _make(self) -> None:
        self._run("initdb", "-D", "data", "--auth=trust", "--username=postgres", "--no-sync")
        settings = f"""
            port = {self.port}
            listen_addresses = '127.0.0.1'
            unix_socket_directories = '{self.folder}'
            wal_level = logical
            track_commit_timestamp = on
            fsync = off
        """
        with (self.folder / "data/postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(settings)

    def _server(self) -> list[str]:
        return ["postgres", "-D", "data"]

    def _halt(self) -> None:
        self._run("pg_ctl", "stop", "-D", "data", "-m", "fast")

    def client(self) -> list[str]:
        """The command of psql, which ends at the first error."""
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        return ["psql", *place, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]

    @property
    def shell(self) -> str:
        """The command with which a person looks into it."""
        return f"psql -h 127.0.0.1 -p {self.port} -U postgres"

    def connector(self) -> Mapping[str, str]:
        """The properties of Debezium's connector."""
        return {
            "name": "pg", "topic.prefix": "pg",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1", "database.port": str(self.port),
            "database.user": "postgres", "database.password": "x", "database.dbname": "postgres",
            "plugin.name": "pgoutput", "slot.name": "lakehouse", "slot.retry.delay.ms": "500",
            "decimal.handling.mode": "string",
        }  # fmt: skip

    def forget(self) -> None:
        """Drop what a connector that has ended left in the server: its slot holds the log back."""
        self.script("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots;")
        self.script("DROP PUBLICATION IF EXISTS dbz_publication;")


class MariaDb(_Database):
    """One MariaDB server that logs whole rows, with the database ``shop``."""

    user = "mysql"
    goes_on = ("--force",)
    connector_packages = "io.debezium:debezium-connector-mariadb:3.5.0.Final"

    def _make(self) -> None:
        settings = f"""
            [mariadbd]
            datadir={self.folder}/data
            socket={self.folder}/my.sock
            pid-file={self.folder}/my.pid
            bind-address=127.0.0.1
            port={self.port}
            server-id=1
            log-bin=binlog
            binlog_format=ROW
            binlog_row_image=FULL
            innodb_buffer_pool_size=64M
            innodb_flush_log_at_trx_commit=0
            performance_schema=OFF
            default-time-zone=+00:00
            character-set-server=utf8mb4
            """
        lines = [line.strip() for line in settings.splitlines()]
        (self.folder / "my.cnf").write_text("\n".join(lines), encoding="utf-8")
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--force"]
        self._run("mariadb-install-db", f"--defaults-file={self.folder}/my.cnf", *options)

    def _server(self) -> list[str]:
        return [shutil.which("mariadbd") or "/usr/sbin/mariadbd", f"--defaults-file={self.folder}/my.cnf"]

    def _halt(self) -> None:
        self.script("SHUTDOWN;")

    def client(self) -> list[str]:
        """The command of MariaDB's client, which ends at the first error."""
        place = ["--protocol=socket", f"--socket={self.folder}/my.sock", "--user=root"]
        rows_only = ["--batch", "--skip-column-names", "--raw", "--default-character-set=utf8mb4"]
        return ["mariadb", "--no-defaults", *place, *rows_only]

    @property
    def shell(self) -> str:
        """The command with which a person looks into it."""
        return f"mariadb -S {self.folder}/my.sock -u root shop"

    def connector(self) -> Mapping[str, str]:
        """Make Debezium's user in the server; the properties of its connector."""
        rights = (
            "SELECT, RELOAD, LOCK TABLES, SHOW DATABASES, BINLOG MONITOR, REPLICATION SLAVE, SLAVE MONITOR"
        )
        self.script(f"GRANT {rights} ON *.* TO 'debezium'@'127.0.0.1' IDENTIFIED BY 'debezium';")
        return {
            "name": "maria", "topic.prefix": "maria",
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": "127.0.0.1", "database.port": str(self.port),
            "database.user": "debezium", "database.password": "debezium",
            "database.server.id": "5401", "database.ssl.mode": "disable", "database.include.list": "shop",
            # A bigint above 2^63 would be negative, and BOOLEAN a number.
            "bigint.unsigned.handling.mode": "precise", "decimal.handling.mode": "string",
            "converters": "boolean",
            "boolean.type": "io.debezium.connector.binlog.converters.TinyIntOneToBooleanConverter",
        }  # fmt: skip

    def forget(self) -> None:
        """Do nothing: a connector that has ended leaves nothing in the server."""


Running = TypeVar("Running", MariaDb, Postgres)


@contextmanager
def running_database(program: str, kind: type[Running]) -> Iterator[Running]:
    """A database server, in a folder that its own user can reach: pytest's are closed to others."""
    if not is_installed(program):
        pytest.skip(INSTALLED_BY[program])
    with tempfile.TemporaryDirectory(prefix=f"kedro-lakehouse-{kind.user}-") as folder:
        running = kind(Path(folder, "server"))
        try:
            yield running
        finally:
            running.stop()
