"""Values of databases, each type with its extremes, through landing and ingestion."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs the extra sql")
import pyarrow as pa
from harness.pulled import Shop, bound, landed, made

from kedro_lakehouse.errors import TypeNotExactError
from kedro_lakehouse.ingestion.pulling import pull_now
from kedro_lakehouse.pulls.errors import TransientFault
from kedro_lakehouse.pulls.protocol import Since

if TYPE_CHECKING:
    from pathlib import Path

    from harness.databases import MariaDb

pytestmark = pytest.mark.sources

POSTGRES_VALUES: Final = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN price AS numeric(10, 2) CHECK (value >= 0);
CREATE TABLE value_types (
    id int PRIMARY KEY, small smallint, big bigint, n numeric, d numeric(38, 10), p price, r real,
    f double precision, flag boolean, t text, c char(5), b bytea, day date, at timestamptz, local timestamp,
    clock time, clock_zone timetz, span interval, j json, jb jsonb, u uuid, address inet, spread int4range,
    list int[], grid int[][], m money, feeling mood, bits bit(3)
);
INSERT INTO value_types VALUES (
    1, -32768, 9223372036854775807, 12345678901234567890123456789012345678901234567890.123456789,
    9999999999999999999999999999.0123456789, 1.10, 16777216, 1.7976931348623157e308, true, E'é\\n', 'ab',
    '\\x00ff', '9999-12-31', '2024-01-31 06:00:00.123456+05', '1582-10-04 00:00:00', '24:00',
    '23:59:59.999999+02', '1 year 2 days', '{"a": 1.10}', '{"a": 1.10}',
    '123e4567-e89b-12d3-a456-426655440000', '10.0.0.1/8', '[1,5)', '{1,NULL}', '{{1,2},{3,4}}', '12.34', 'ok',
    '101'
);
INSERT INTO value_types (id) VALUES (2);
"""
POSTGRES_EXPECTED: Final = {
    "id": 1, "small": -32768, "big": 9223372036854775807,
    "n": "12345678901234567890123456789012345678901234567890.123456789",
    "d": Decimal("9999999999999999999999999999.0123456789"), "p": Decimal("1.10"), "r": 16777216.0,
    "f": 1.7976931348623157e308, "flag": True, "t": "é\n", "c": "ab   ", "b": b"\x00\xff",
    "day": dt.date(9999, 12, 31), "at": dt.datetime(2024, 1, 31, 1, 0, 0, 123456, dt.UTC),
    "local": dt.datetime.fromisoformat("1582-10-04"), "clock": "24:00:00", "clock_zone": "23:59:59.999999+02",
    "span": "1 year 2 days", "j": '{"a": 1.10}', "jb": '{"a": 1.10}',
    "u": "123e4567-e89b-12d3-a456-426655440000", "address": "10.0.0.1/8", "spread": "[1,5)",
    "list": "[1,null]", "grid": "[[1,2],[3,4]]", "m": "12.34", "feeling": "ok", "bits": "101",
}  # fmt: skip
MARIADB_VALUES: Final = """
CREATE TABLE value_types (
    id int PRIMARY KEY, tiny tinyint, big bigint unsigned, wide decimal(65, 10), d decimal(38, 10), r float,
    f double, t text CHARACTER SET latin1, c char(5), b blob, fixed varbinary(3), day date,
    at timestamp(6) NULL, local datetime(6), clock time, y year, bits bit(8), all_bits bit(64),
    feeling enum('sad', 'ok'), several set('a', 'b'), j json, u uuid
);
INSERT INTO value_types VALUES (
    1, -128, 18446744073709551615, 12345678901234567890.5, 9999999999999999999999999999.0123456789, 16777216,
    1.7976931348623157e308, 'é', 'ab', x'00ff', x'00', '9999-12-31', '2024-01-31 06:00:00.123456',
    '1582-10-04 00:00:00', '-838:59:59', 2155, b'101', 18446744073709551615, 'ok', 'a,b', '{"a": 1.10}',
    '123e4567-e89b-12d3-a456-426655440000'
);
INSERT INTO value_types (id) VALUES (2);
"""
MARIADB_EXPECTED: Final = {
    "id": 1, "tiny": -128, "big": Decimal(18446744073709551615), "wide": "12345678901234567890.5000000000",
    "d": Decimal("9999999999999999999999999999.0123456789"), "r": 16777216.0, "f": 1.7976931348623157e308,
    "t": "é", "c": "ab", "b": b"\x00\xff", "fixed": b"\x00", "day": dt.date(9999, 12, 31),
    "at": dt.datetime(2024, 1, 31, 6, 0, 0, 123456, dt.UTC), "local": dt.datetime.fromisoformat("1582-10-04"),
    "clock": "-838:59:59", "y": 2155, "bits": 5, "all_bits": Decimal(18446744073709551615), "feeling": "ok",
    "several": "a,b", "j": '{"a": 1.10}', "u": "123e4567-e89b-12d3-a456-426655440000",
}  # fmt: skip


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
