"""Tables of real databases, pulled while people change them: what is ingested equals the database.

Pulls alone need no Spark; one `kedro run` at the end ingests what all of them sealed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs the extra sql")
import pyarrow.parquet as pq
from click.testing import CliRunner
from harness.databases import MariaDb, Postgres, running_database
from harness.project import environment
from harness.pulled import (
    CREDENTIALS,
    DIALECTS,
    Shop,
    Writers,
    assert_lacks_are_refused,
    bound,
    folded,
    landed,
    made,
    make_table,
    names_in,
    of_one,
    window,
)

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.erasure.landed import erase_landed
from kedro_lakehouse.errors import (
    SourceChangedError,
    SourceRefusedError,
    SourceUnreachableError,
)
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.ingestion.pulling import pull_now

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sources

SECONDS: Final = float(os.environ.get("KEDRO_LAKEHOUSE_WRITING") or 4)


def run_python(words: list[str]) -> subprocess.CompletedProcess[str]:
    """A process of Python that imports what this one imports."""
    command = [sys.executable, *words]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


def test_tables_equal_the_database_after_pulls_while_people_write(
    shops: dict[str, Shop], tmp_path: Path
) -> None:
    """Full, incremental and snapshot, of both databases, by `kedro run`."""
    tables: dict[str, Any] = {}
    for dialect, shop in shops.items():
        make_table(shop, "item", "piece")
        tables |= {
            f"{dialect}.item": {"source": dialect, "history": True} | window(),
            f"{dialect}.piece": {"source": dialect, "keys": ["id"], "max_delete_fraction": 1.0},
            f"{dialect}.kept": {
                "source": dialect, "entity": "item", "write": "append", "pull": {"mode": "snapshot"},
            },
        }  # fmt: skip
    layout = "InputDataSetName={entity}/Year=%Y/Month=%m/Date=%d"
    folder = str(tmp_path / "landing")
    sources = {dialect: shop.source(f"{folder}/{dialect}", layout=layout) for dialect, shop in shops.items()}
    project = made(tmp_path / "project", sources, tables)
    counts: dict[str, list[int]] = {dialect: [] for dialect in shops}
    for dialect, shop in shops.items():
        item, piece, kept = (bound(project, f"{dialect}.{name}") for name in ("item", "piece", "kept"))
        with Writers(shop, "item", "piece"):
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                pull_now(item)
                time.sleep(0.2)
            for _ in range(2):
                pull_now(piece)
                counts[dialect] += [m.rows for m in pull_now(kept).values()]
        shop.script("DELETE FROM piece WHERE id % 100000 = 1;")
        shop.script(f"UPDATE item SET name = 'last', updated_at = {shop.now} WHERE id = 2;")
    time.sleep(2.1)  # the windows end a second before now, or before the last statement
    project.run()
    for dialect, shop in shops.items():
        assert {r["id"]: r["name"] for r in project.rows(f"{dialect}.item")} == names_in(shop, "item")
        assert {r["id"] for r in project.rows(f"{dialect}.piece")} == set(names_in(shop, "piece"))
        sizes: dict[str, int] = {}
        for row in project.rows(f"{dialect}.kept"):
            sizes[row["_snapshot_id"]] = sizes.get(row["_snapshot_id"], 0) + 1
        assert list(dict(sorted(sizes.items())).values()) == [*counts[dialect], len(names_in(shop, "item"))]
        assert not project.rows(f"{dialect}.item_quarantine")
    quiet = project.run(namespaces=[f"{dialect}.item" for dialect in shops])
    assert quiet == []


def test_later_rows_with_earlier_times_are_not_lost(shops: dict[str, Shop], tmp_path: Path) -> None:
    """A transaction that commits late has rows from before: only its begin bounds a window."""
    tables = {f"{dialect}.late": {"source": dialect} | window() for dialect in shops}
    sources = {d: s.source(str(tmp_path / "landing" / d)) for d, s in shops.items()}
    project = made(tmp_path / "project", sources, tables)
    for dialect, shop in shops.items():
        make_table(shop, "late", "late_child")
        table = bound(project, f"{dialect}.late")
        with Writers(shop, "late", "late_child", count=10):
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                pull_now(table)
                time.sleep(0.1)
        time.sleep(2.1)
        pull_now(table)
        rows = landed(project, f"{dialect}.late")
        assert {n: row["name"] for n, row in folded(rows).items()} == names_in(shop, "late")
        assert len(rows) == len({(row["id"], row["updated_at"]) for row in rows})  # each was read once


def test_an_overlap_reads_rows_again_and_adds_nothing(shops: dict[str, Shop], tmp_path: Path) -> None:
    """Where open transactions cannot be asked."""
    sources = {d: s.source(str(tmp_path / "landing" / d)) for d, s in shops.items()}
    tables = {f"{d}.again": {"source": d} | window(late={"overlap": "1 min"}) for d in shops}
    project = made(tmp_path / "project", sources, tables)
    for dialect, shop in shops.items():
        make_table(shop, "again")
        shop.script(f"INSERT INTO again VALUES (1, 'a', {shop.now});")
        time.sleep(0.1)
        table = bound(project, f"{dialect}.again")
        for _ in range(2):
            pull_now(table)
        rows = landed(project, f"{dialect}.again")
        assert [row["id"] for row in rows] == [1, 1]
        assert len({row["updated_at"] for row in rows}) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tables_in_one_state_join_without_orphans(
    shops: dict[str, Shop], tmp_path: Path, dialect: str
) -> None:
    """A transaction writes a parent and then its child: a child never lands without its parent."""
    shop = shops[dialect]
    make_table(shop, "parent", "child")
    source = shop.source(str(tmp_path / "landing"), one_state=True)
    keyed = {"source": dialect, "keys": ["id"]}
    tables = {
        "a.child": keyed,
        "a.parent": keyed,
        "b.parent": keyed,
        "c.parent": {"source": dialect, "entity": "parent"} | window(),
    }
    project = made(tmp_path / "project", {dialect: source}, tables)

    def pulled() -> dict[str, set[int]]:
        found = pull_now(bound(project, "a.child"))
        paths = {name: tmp_path / "landing" / m.files[0].path for name, m in found.items()}
        assert len({m.to for m in found.values() if m.mode == "full"}) == 1
        return {name: set(pq.read_table(p, partitioning=None)["id"].to_pylist()) for name, p in paths.items()}

    with Writers(shop, "parent", "child", count=8):
        for _ in range(5):
            time.sleep(0.2)
            rows = pulled()
            assert rows["a.child"] <= rows["a.parent"] == rows["b.parent"]
    time.sleep(2.1)
    pulled()
    windows = folded(landed(project, "c.parent"))
    assert {n: row["name"] for n, row in windows.items()} == names_in(shop, "parent")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_wrong_password_is_tried_once_and_told_nowhere(
    shops: dict[str, Shop], tmp_path: Path, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop, secret = shops[dialect], "wr0ng-and-long-enough"
    project = made(
        tmp_path / "project",
        {dialect: shop.source(str(tmp_path))},
        {"a.b": {"source": dialect, "keys": ["id"]}},
    )
    project.write("credentials", {dialect: CREDENTIALS | {"password": secret}}, env="local")
    before = _refused(shop)
    with pytest.raises(SourceRefusedError) as told:
        pull_now(bound(project, "a.b"))
    assert secret not in f"{told.value} {told.value.__cause__} {caplog.text}"
    assert _refused(shop) == before + 1


def _refused(shop: Shop) -> int:
    """How often the server has refused a password."""
    if not shop.is_postgres:
        return int(shop.script("SHOW GLOBAL STATUS LIKE 'Access_denied_errors';")[0].split("\t")[1])
    return shop.server.log.read_text(encoding="utf-8").count("password authentication failed")


def test_a_server_that_is_not_there_is_asked_within_the_budget(tmp_path: Path) -> None:
    for dialect in DIALECTS:
        connection = {"host": "127.0.0.1", "port": 1, "database": "x"}
        source = {
            "type": "sql", "dialect": dialect, "connection": connection, "path": str(tmp_path),
            "retry": {"budget": "1 s"}, "credentials": dialect,
        }  # fmt: skip
        project = made(tmp_path / dialect, {dialect: source}, {"a.b": {"source": dialect, "keys": ["id"]}})
        begun = time.monotonic()
        with pytest.raises(SourceUnreachableError, match="no connection to it"):
            pull_now(bound(project, "a.b"))
        assert time.monotonic() - begun < 5


def test_a_table_made_anew_is_another_source(shops: dict[str, Shop], tmp_path: Path) -> None:
    shop = shops["postgresql"]
    make_table(shop, "anew")
    shop.script("INSERT INTO anew VALUES (1, 'a', now());")
    project = of_one(shop, tmp_path, "anew")
    time.sleep(1.1)
    pull_now(bound(project, "a.anew"))
    shop.script("DROP TABLE anew;")
    make_table(shop, "anew")
    shop.script("INSERT INTO anew VALUES (2, 'b', now());")
    time.sleep(1.1)
    with pytest.raises(SourceChangedError, match="its table was"):
        pull_now(bound(project, "a.anew"))
    (manifest,) = pull_now(bound(project, "a.anew"), accept=True).values()
    assert (manifest.from_, manifest.rows) == (None, 1)


def test_a_server_is_known_to_later_pulls_without_a_connection(
    shops: dict[str, Shop], tmp_path: Path
) -> None:
    """What the driver remembers of its types does not stand in the way of new ones."""
    shop = shops["postgresql"]
    make_table(shop, "before")
    project = of_one(shop, tmp_path / "before", "before")
    pull_now(bound(project, "a.before"))
    shop.script(
        "CREATE TYPE later_mood AS ENUM ('well', 'ill'); CREATE DOMAIN later_cents AS numeric(5,2);"
        "CREATE TABLE later (id int PRIMARY KEY, feels later_mood, pays later_cents, updated_at timestamptz);"
        "INSERT INTO later VALUES (1, 'ill', 1.50, now());"
    )
    time.sleep(1.1)
    project = of_one(shop, tmp_path / "later", "later")
    pull_now(bound(project, "a.later"))
    (row,) = landed(project, "a.later")
    assert (row["feels"], row["pays"]) == ("ill", Decimal("1.50"))
    connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kedro-lakehouse pull';"
    end = time.monotonic() + 5
    while shop.script(connections) != ["0"] and time.monotonic() < end:
        time.sleep(0.1)
    assert shop.script(connections) == ["0"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_table_lacks_is_refused(shops: dict[str, Shop], tmp_path: Path, dialect: str) -> None:
    shop = shops[dialect]
    shop.script("CREATE TABLE IF NOT EXISTS numbered (id int PRIMARY KEY, version int);")
    tables = {
        "a.no_table": {"source": dialect, "keys": ["id"]},
        "a.no_column": {
            "source": dialect,
            "entity": "numbered",
            "keys": ["id"],
            "pull": {"fields": ["nothing"]},
        },
        "a.no_time": {"source": dialect, "entity": "numbered"} | window(cursor="version"),
    }
    project = made(tmp_path / "project", {dialect: shop.source(str(tmp_path))}, tables)
    assert_lacks_are_refused(project)


def test_who_may_not_see_transactions_is_told_the_right(shops: dict[str, Shop], tmp_path: Path) -> None:
    shops["postgresql"].script("CREATE ROLE blind LOGIN; GRANT pg_read_all_data TO blind;")
    shops["mariadb"].script("CREATE USER 'blind'@'127.0.0.1'; GRANT SELECT ON shop.* TO 'blind'@'127.0.0.1';")
    for (dialect, shop), right in zip(shops.items(), ("pg_read_all_stats", "PROCESS"), strict=True):
        shop.script(f"CREATE TABLE seen (id int PRIMARY KEY, updated_at {shop.time});")
        source = {dialect: shop.source(str(tmp_path))}
        project = made(tmp_path / dialect, source, {"a.seen": {"source": dialect} | window()})
        project.write("credentials", {dialect: {"user": "blind"}}, env="local")
        with pytest.raises(SourceRefusedError, match=right):
            pull_now(bound(project, "a.seen"))


def test_a_cut_connection_begins_again(
    shops: dict[str, Shop], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the work in the middle: the state is lost, and the next attempt reads a whole one."""
    from kedro_lakehouse.pulls.landing import LandingFile

    tables = {f"{d}.cut": {"source": d, "keys": ["id"]} for d in shops}
    sources = {d: s.source(str(tmp_path / "landing" / d)) for d, s in shops.items()}
    project = made(tmp_path / "project", sources, tables)
    add = LandingFile.add
    for shop in shops.values():
        rows = ", ".join(f"({n}, '{'x' * 500}')" for n in range(500))
        shop.script(f"CREATE TABLE cut (id int, note text); INSERT INTO cut VALUES {rows};")
        shop.script("INSERT INTO cut SELECT a.id, a.note FROM cut a, cut b WHERE b.id < 200;")
    for dialect, shop in shops.items():
        cuts: list[int] = []

        def cut(self: LandingFile, chunk: Any, shop: Shop = shop, cuts: list[int] = cuts) -> None:
            add(self, chunk)
            if not cuts:
                cuts.append(1)
                if shop.is_postgres:
                    shop.script(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'puller';"
                    )
                else:
                    shop.script("KILL USER 'puller'@'127.0.0.1';")

        monkeypatch.setattr(LandingFile, "add", cut)
        (manifest,) = pull_now(bound(project, f"{dialect}.cut")).values()
        assert (manifest.rows, cuts) == (100_500, [1])
        assert len(list((tmp_path / "landing" / dialect).rglob("*.parquet"))) == 1


@pytest.mark.parametrize(("program", "kind"), [("initdb", Postgres), ("mariadbd", MariaDb)], ids=DIALECTS)
def test_a_server_that_stops_in_the_middle_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, kind: type[Postgres | MariaDb]
) -> None:
    """The pull ends within its budget and leaves no file; the next one of the same process is whole."""
    from kedro_lakehouse.pulls.landing import LandingFile

    add, stops = LandingFile.add, [True]
    dialect = "postgresql" if kind is Postgres else "mariadb"
    with running_database(program, kind) as server:
        shop = Shop(dialect, server)
        shop.let_in()
        shop.script("CREATE TABLE kept (id int PRIMARY KEY, note text);")
        shop.script(f"INSERT INTO kept {_series(dialect, 100_000)};")
        source = {dialect: shop.source(str(tmp_path / "landing"), retry={"budget": "2 s"})}
        project = made(tmp_path / "project", source, {"a.kept": {"source": dialect, "keys": ["id"]}})

        def add_and_stop(self: LandingFile, chunk: Any) -> None:
            add(self, chunk)
            if stops:
                stops.clear()
                server.halt()

        monkeypatch.setattr(LandingFile, "add", add_and_stop)
        begun = time.monotonic()
        with pytest.raises(SourceUnreachableError):
            pull_now(bound(project, "a.kept"))
        assert not stops
        assert time.monotonic() - begun < 15, "the server's own end is in it"
        assert [path for path in (tmp_path / "landing").rglob("*") if path.is_file()] == []
        server.start()
        (manifest,) = pull_now(bound(project, "a.kept")).values()
        assert (manifest.number, manifest.rows) == (1, 100_000)


def _series(dialect: str, count: int) -> str:
    """Selects so many numbered rows."""
    if dialect == "postgresql":
        return f"SELECT n, repeat('x', 1000) FROM generate_series(1, {count}) AS n"
    return f"SELECT seq, repeat('x', 1000) FROM seq_1_to_{count}"


def test_a_table_that_may_not_be_read_does_not_stop_nineteen_others(
    shops: dict[str, Shop], tmp_path: Path
) -> None:
    shop = shops["postgresql"]
    names = [f"may{number:02}" for number in range(20)]
    make_table(shop, *names)
    shop.script("CREATE ROLE nearly LOGIN; GRANT pg_read_all_stats TO nearly;")
    for name in names:
        shop.script(f"INSERT INTO {name} VALUES (1, 'one', now());")
        if name != "may07":
            shop.script(f"GRANT SELECT ON {name} TO nearly;")
    source = {"postgresql": shop.source(str(tmp_path / "landing"))}
    project = made(
        tmp_path / "project", source, {f"a.{name}": {"source": "postgresql"} | window() for name in names}
    )
    project.write("credentials", {"postgresql": {"user": "nearly"}}, env="local")
    time.sleep(1.1)
    ended = project.attempt()
    assert list(ended.failed) == ["a.may07"]
    refused = ended.failed["a.may07"]
    assert isinstance(refused, SourceRefusedError)
    assert "Grant the user the right to read the table." in str(refused)
    assert [len(project.rows(f"a.{name}")) for name in names if name != "may07"] == [1] * 19


def test_what_was_pulled_is_told_and_erased(
    shops: dict[str, Shop], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kedro lakehouse tables` tells the last pull; an erasure blanks a person's rows in its file."""
    shop = shops["postgresql"]
    make_table(shop, "persons")
    shop.script("INSERT INTO persons VALUES (1, 'Ada Erased', now()), (2, 'Bob Stays', now());")
    project = of_one(shop, tmp_path, "persons")
    time.sleep(1.1)
    (manifest,) = pull_now(bound(project, "a.persons")).values()
    monkeypatch.chdir(project.path)
    told = json.loads(CliRunner().invoke(lakehouse, ["tables", "--json"]).stdout)
    assert (told[0]["pull"]["number"], told[0]["pull"]["rows"], told[0]["pull"]["to"]) == (1, 2, manifest.to)
    table = bound(project, "a.persons")
    before = table.open_source().files()
    changed = erase_landed(table, "name", Wanted.of(["Ada Erased"], ["name"]), leave=frozenset())
    assert changed == [before[0].path]
    assert [row["name"] for row in landed(project, "a.persons")] == ["Bob Stays"]
    assert table.open_source().files() == before
    left = [f for f in (tmp_path / "landing").rglob("*") if f.is_file() and b"Ada Erased" in f.read_bytes()]
    assert left == []


def test_a_run_without_news_starts_no_java(shops: dict[str, Shop], tmp_path: Path) -> None:
    shop = shops["postgresql"]
    make_table(shop, "quiet")
    project = of_one(shop, tmp_path, "quiet")
    script = (
        "import sys; from harness.project import TemporaryProject; from pathlib import Path;"
        "project = TemporaryProject(Path(sys.argv[1])); assert project.run() == [];"
        "from kedro_lakehouse.session.spark import spark_runs; print('java:', spark_runs())"
    )
    done = run_python(["-c", script, str(project.path)])
    assert done.returncode == 0, done.stderr[-2000:]
    assert "java: False" in done.stdout
