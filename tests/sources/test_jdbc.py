"""Databases that are read by their JDBC drivers, in a Spark of its own."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs the extra sql")
from harness.database_values import (
    H2_EXPECTED,
    H2_VALUES,
    MARIADB_EXPECTED,
    MARIADB_VALUES,
    POSTGRES_EXPECTED,
    POSTGRES_VALUES,
)
from harness.jdbc import H2, by_jdbc, drivers
from harness.project import environment
from harness.pulled import Shop, bound, landed, made

from kedro_lakehouse.errors import SourceRefusedError, SourceUnreachableError, TypeNotExactError
from kedro_lakehouse.ingestion.pulling import pull_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.sources

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "postgresql": {
        "r": "1.6777216e+07", "span": "1 year 2 days", "j": '{"a": 1.10}', "jb": '{"a": 1.10}',
        "u": "123e4567-e89b-12d3-a456-426655440000", "address": "10.0.0.1/8", "spread": "[1,5)",
        "list": "{1,NULL}", "grid": "{{1,2},{3,4}}", "m": "$12.34", "bits": "101",
    },
    "mariadb": {"r": "16777200", "bits": "b'101'", "all_bits": f"b'{'1' * 64}'", "y": "2155"},
}  # fmt: skip
"""Columns that are refused unless they are read as text, and the text that the driver writes."""
EXPECTED: Final[Mapping[str, Mapping[str, Any]]] = {
    "postgresql": POSTGRES_EXPECTED,
    # The driver gives a TIMESTAMP without its zone, and Spark reads no UUID: a view may cast it.
    "mariadb": MARIADB_EXPECTED | {"at": dt.datetime(2024, 1, 31, 6, 0, 0, 123456)},  # noqa: DTZ001
}
SCRIPTS: Final = {"postgresql": POSTGRES_VALUES, "mariadb": MARIADB_VALUES}


@pytest.fixture
def h2(tmp_path: Path) -> Iterator[H2]:
    server = H2(tmp_path / "h2")
    yield server
    server.stop()


def project_of(shop: Shop, folder: Path, table: str, **pull: Any) -> Any:
    """A project with one table that is read by JDBC."""
    return declared(by_jdbc(shop, str(folder / "landing")), folder, table, **pull)


def declared(source: dict[str, Any], folder: Path, table: str, **pull: Any) -> Any:
    """A project with one table of a source."""
    tables = {"a.t": {"source": "db", "entity": table, "keys": ["id"], "pull": pull}}
    return made(folder / "project", {"db": source}, tables)


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_values_arrive_as_they_are_or_are_refused(
    shops: dict[str, Shop], tmp_path: Path, dialect: str
) -> None:
    """Extremes of each type, and a row of nulls; types on whose text drivers differ are refused by name."""
    shop, texts, table = shops[dialect], REFUSED[dialect], "by_jdbc.value_types"
    if shop.is_postgres:
        shop.script(f"CREATE SCHEMA by_jdbc; SET search_path = by_jdbc; {SCRIPTS[dialect]}")
    else:
        shop.script("CREATE DATABASE by_jdbc; GRANT SELECT ON by_jdbc.* TO 'puller'@'127.0.0.1';")
        shop.script(f"USE by_jdbc; {SCRIPTS[dialect]}")
    for column in texts:
        with pytest.raises(TypeNotExactError, match=rf"as_text: \[{column}\]"):
            pull_now(bound(project_of(shop, tmp_path / column, table, fields=["id", column]), "a.t"))
    expected = {name: value for name, value in EXPECTED[dialect].items() if shop.is_postgres or name != "u"}
    project = project_of(shop, tmp_path, table, fields=[*expected], as_text=[*texts])
    pull_now(bound(project, "a.t"))
    first, second = sorted(landed(project, "a.t"), key=lambda row: row["id"])
    assert first == expected | texts
    assert {value for name, value in second.items() if name != "id"} == {None}


def test_a_value_that_fits_no_type_is_refused_until_it_is_read_as_text(
    shops: dict[str, Shop], tmp_path: Path
) -> None:
    """Also a 2 in a column that the driver calls a truth, and a type that Spark does not read."""
    shop = shops["mariadb"]
    shop.script("CREATE TABLE odd_jdbc (id int PRIMARY KEY, day date, flag tinyint(1), u uuid);")
    shop.script("INSERT INTO odd_jdbc VALUES (1, '0000-00-00', 2, uuid());")
    for column, text in (("day", "0000-00-00"), ("flag", "2")):
        with pytest.raises(TypeNotExactError, match=rf"as_text: \[{column}\]"):
            pull_now(bound(project_of(shop, tmp_path / column, "odd_jdbc", fields=["id", column]), "a.t"))
        more = {"fields": ["id", column], "as_text": [column]}
        project = project_of(shop, tmp_path / f"{column}_as_text", "odd_jdbc", **more)
        pull_now(bound(project, "a.t"))
        assert landed(project, "a.t") == [{"id": 1, column: text}]
    with pytest.raises(TypeNotExactError, match="Make a view"):
        pull_now(bound(project_of(shop, tmp_path / "u", "odd_jdbc", as_text=["day", "flag", "u"]), "a.t"))


def test_a_database_without_a_dialect_is_read(h2: H2, tmp_path: Path) -> None:
    """Every type of H2 with its extremes; what its driver calls OTHER, a view casts."""
    h2.script(H2_VALUES)
    source = {
        "type": "sql", "dialect": "jdbc", "connection": {"url": h2.url}, "jars": drivers(),
        "clock": "SELECT CURRENT_TIMESTAMP", "credentials": "postgresql", "path": str(tmp_path / "landing"),
    }  # fmt: skip
    for column in ("R", "DF", "AT9"):
        project = declared(source, tmp_path / column, "SALES.ALL_TYPES", fields=["ID", column])
        with pytest.raises(TypeNotExactError, match=rf"as_text: \[{column}\]"):
            pull_now(bound(project, "a.t"))
    project = declared(source, tmp_path / "SPAN", "SALES.ALL_TYPES", fields=["ID", "SPAN"], as_text=["SPAN"])
    with pytest.raises(TypeNotExactError, match=r"INTERVAL DAY TO SECOND.*Make a view"):
        pull_now(bound(project, "a.t"))
    project = declared(source, tmp_path, "SALES.CAST_TYPES", as_text=["R", "DF", "AT9"])
    pull_now(bound(project, "a.t"))
    first, second = sorted(landed(project, "a.t"), key=lambda row: row["ID"])
    assert first == H2_EXPECTED
    assert {value for name, value in second.items() if name != "ID"} == {None}
    refused = declared(source | {"credentials": "nobody"}, tmp_path / "nobody", "SALES.CAST_TYPES")
    refused.write("credentials", {"nobody": {"user": "puller", "password": "wrong"}}, env="local")
    with pytest.raises(SourceRefusedError, match="SQLSTATE 28000"):
        pull_now(bound(refused, "a.t"))
    h2.kill()
    gone = declared(source | {"retry": {"budget": "1 s"}}, tmp_path / "gone", "SALES.CAST_TYPES")
    with pytest.raises(SourceUnreachableError, match="SQLSTATE 90067"):
        pull_now(bound(gone, "a.t"))


def test_what_stands_in_the_way_is_named(shops: dict[str, Shop], tmp_path: Path) -> None:
    """Each is refused at the first attempt."""
    shop = shops["postgresql"]
    shop.script("CREATE TABLE plain_jdbc (id int PRIMARY KEY, day date);")
    own = by_jdbc(shop, str(tmp_path / "landing"))
    address = f"127.0.0.1:{shops['mariadb'].server.port}/shop"
    incremental = {"mode": "incremental", "cursor": "day"}
    for number, (table, more, pull, words) in enumerate(
        [
            ("no_such", {}, {}, r"SQLSTATE 42P01.*no_such"),
            ("plain_jdbc", {}, {"fields": ["dya"]}, "no column dya.*Did you mean 'day'"),
            ("plain_jdbc", {}, incremental, "a window needs a time"),
            ("plain_jdbc", {"clock": "SELECT 1 WHERE false"}, {}, "gives no time"),
            ("plain_jdbc", {"clock": "SELECT nothing"}, {}, "SQLSTATE 42703"),
            ("plain_jdbc", {"jars": ["nowhere.jar"]}, {}, "the driver nowhere.jar cannot be read"),
            ("plain_jdbc", {"connection": {"url": "jdbc:db2://db:1/a"}}, {}, "none of `jars` has a driver"),
            ("plain_jdbc", {"connection": own["connection"] | {"driver": "a.B"}}, {}, "none of `jars`"),
            # By this address Spark would take names for texts, and each row would be the columns' names.
            ("thing", {"connection": {"url": f"jdbc:mariadb://{address}"}}, {}, "the database reads `a`"),
        ]
    ):
        project = declared(own | more, tmp_path / str(number), table, **pull)
        with pytest.raises(SourceRefusedError, match=words):
            pull_now(bound(project, "a.t"))


def test_spark_ends_with_who_started_it(tmp_path: Path) -> None:
    """Also where that was killed; its folder goes with it."""
    program = (
        "import os\n"
        "from harness.jdbc import drivers\n"
        "from kedro_lakehouse.pulls.errors import SourceFault\n"
        "from kedro_lakehouse.pulls.sql.spark_process import SparkProcess\n"
        "process = SparkProcess(drivers())\n"
        "try:\n"
        "    process.ask('clock', options={'url': 'jdbc:none:'}, query='')\n"
        "except SourceFault:\n"  # Spark has started now
        "    print(process._process.pid, process._folder.name, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=environment() | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    group, folder = found.stdout.splitlines()[-1].split()
    end = time.monotonic() + 10
    while members(int(group)) or Path(folder).exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def members(group: int) -> list[str]:
    """The processes of a group that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, of = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                found.append(path.parent.name)
    return found
