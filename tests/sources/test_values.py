"""Values of databases, each type with its extremes, through landing and ingestion."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs the extra sql")
import pyarrow as pa
from harness.database_values import MARIADB_EXPECTED, MARIADB_VALUES, POSTGRES_EXPECTED, POSTGRES_VALUES
from harness.pulled import Shop, bound, landed, made

from kedro_lakehouse.errors import TypeNotExactError
from kedro_lakehouse.ingestion.pulling import pull_now
from kedro_lakehouse.pulls.errors import TransientFault
from kedro_lakehouse.pulls.protocol import Since

if TYPE_CHECKING:
    from pathlib import Path

    from harness.databases import MariaDb

pytestmark = pytest.mark.sources


def test_values_arrive_as_they_are(shops: dict[str, Shop], tmp_path: Path) -> None:
    """Extremes of each type, through landing and ingestion; a row of nulls too."""
    shops["postgresql"].script(POSTGRES_VALUES)
    shops["mariadb"].script(MARIADB_VALUES)
    sources = {d: s.source(str(tmp_path / "landing" / d)) for d, s in shops.items()}
    tables = {f"{d}.value_types": {"source": d, "keys": ["id"]} for d in shops}
    project = made(tmp_path / "project", sources, tables)
    project.run()
    for dialect, expected in (("postgresql", POSTGRES_EXPECTED), ("mariadb", MARIADB_EXPECTED)):
        first, second = sorted(project.rows(f"{dialect}.value_types"), key=lambda row: row["id"])
        assert {k: v for k, v in first.items() if k != "_order"} == expected
        assert {v for k, v in second.items() if k not in ("id", "_order")} == {None}


def test_lengths_of_every_width_arrive_as_the_driver_reads_them(mariadb: MariaDb, tmp_path: Path) -> None:
    """Around each length that is written with more bytes, and a row that takes several packets."""
    shop = Shop("mariadb", mariadb)
    lengths = [0, 1, *range(249, 257), 65534, 65535, 65536, 65537, 10 * 2**20]
    values = ", ".join(f"({n}, repeat('é', {n // 2}), repeat(x'ff', {n}))" for n in lengths)
    shop.script(
        f"CREATE TABLE wide (id int PRIMARY KEY, t longtext, b longblob); INSERT INTO wide VALUES {values};"
    )
    source = shop.source(str(tmp_path / "landing"))
    tables = {"a.wide": {"source": "mariadb", "keys": ["id"]}}
    opened = bound(made(tmp_path / "project", {"mariadb": source}, tables), "a.wide").open_pulled()
    pull = opened.plan(Since(mode="full", number=0, to=None))
    found = pa.concat_tables(chunk.rows for chunk in opened.read(pull, None))
    with opened._reader._connection.cursor() as cursor:
        cursor.execute("SELECT * FROM wide")
        expected = [(int(n), text, data) for n, text, data in cursor.fetchall()]
    opened.close()
    assert [tuple(row.values()) for row in found.to_pylist()] == expected
    assert [len(data) for _, _, data in expected] == lengths


def test_an_error_between_rows_is_the_servers(mariadb: MariaDb, tmp_path: Path) -> None:
    """The server ends the query while rows that nobody has read yet wait."""
    shop = Shop("mariadb", mariadb)
    shop.script("CREATE TABLE `long` AS SELECT seq AS id, repeat('x', 1000) AS note FROM seq_1_to_60000;")
    source = {"mariadb": shop.source(str(tmp_path / "landing"))}
    tables = {"a.long": {"source": "mariadb", "keys": ["id"]}}
    opened = bound(made(tmp_path / "project", source, tables), "a.long").open_pulled()
    pull = opened.plan(Since(mode="full", number=0, to=None))
    opened._reader._run("SET max_statement_time = 0.5")
    chunks = opened.read(pull, None)
    assert next(chunks).rows.num_rows < 60_000
    time.sleep(0.7)
    with pytest.raises(TransientFault, match="error 1969"):
        list(chunks)
    opened.close()


def test_a_value_that_fits_no_type_is_refused_until_it_is_read_as_text(
    shops: dict[str, Shop], tmp_path: Path
) -> None:
    values = {
        "postgresql": ("at", "'-infinity'", "-infinity"),
        "mariadb": ("day", "'0000-00-00'", "0000-00-00"),
    }
    for dialect, (column, literal, text) in values.items():
        shop = shops[dialect]
        kind = "timestamptz" if shop.is_postgres else "date"
        shop.script(f"CREATE TABLE odd (id int, {column} {kind}); INSERT INTO odd VALUES (1, {literal});")
        source = {dialect: shop.source(str(tmp_path / dialect / "landing"))}
        project = made(tmp_path / dialect / "a", source, {"a.odd": {"source": dialect, "keys": ["id"]}})
        with pytest.raises(TypeNotExactError, match=rf"as_text: \[{column}\]"):
            pull_now(bound(project, "a.odd"))
        table = {"source": dialect, "keys": ["id"], "pull": {"as_text": [column]}}
        project = made(tmp_path / dialect / "b", source, {"a.odd": table})
        pull_now(bound(project, "a.odd"))
        assert landed(project, "a.odd") == [{"id": 1, column: text}]
