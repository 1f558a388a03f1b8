"""SQL Server and Oracle without a server: a catalog's rows become a select list, recorded values Arrow.

The texts are what the makers' manuals say that the servers write; sqlglot reads every query in its dialect.
"""

from __future__ import annotations

import datetime as dt
import socket
import threading
from decimal import Decimal, localcontext
from types import SimpleNamespace
from typing import Any, Self

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from kedro_lakehouse.config.databases import SqlPullConfig, SqlSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.pulls.errors import InexactFault, SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Pull, Since
from kedro_lakehouse.pulls.sql import oracle, sqlserver
from kedro_lakehouse.pulls.sql.dialect import SqlColumn, SqlTable, made_exact, to_decimal, to_time

pytestmark = pytest.mark.unit

NINES = "9" * 38
MOST_MONEY = "-922337203685477.5808"
GRAMMARS = {"sqlserver": "tsql", "oracle": "oracle"}
MODULES: dict[str, Any] = {"sqlserver": sqlserver, "oracle": oracle}
DRIVERS = {"sqlserver": "mssql_python", "oracle": "oracledb"}
READERS: dict[str, Any] = {"sqlserver": sqlserver.SqlServerReader, "oracle": oracle.OracleReader}


def at(year: int, month: int = 1, day: int = 1, *clock: int) -> dt.datetime:
    return dt.datetime(year, month, day, *clock)  # noqa: DTZ001 - a time without a zone


def utc(*given: int) -> dt.datetime:
    return at(*given).replace(tzinfo=dt.UTC)


TEXT, FLOATS = pa.string(), pa.float64()
DIGITS, TIMES = "CONVERT(varchar(41), [c])", "CONVERT(varchar(27), [c], 121)"
ZONED = "CONVERT(varchar(34), [c], 121)"
MONEY, XML = "CONVERT(varchar(41), [c], 2)", "CONVERT(nvarchar(max), [c])"
GUID = "123E4567-E89B-12D3-A456-426655440000"
# What the catalog says of a column c: type, length, precision and scale of a number, precision of a time. And
# how it is selected, the Arrow type that the driver gives, its values, and those that land where they differ.
SQL_SERVER: list[tuple[tuple[Any, ...], str, pa.DataType, list[Any], list[Any] | None]] = [
    (("bit", None, None, None, None), "[c]", pa.bool_(), [True, False], None),
    (("tinyint", None, 3, 0, None), "[c]", pa.uint8(), [0, 255], None),
    (("smallint", None, 5, 0, None), "[c]", pa.int16(), [-(2**15), 2**15 - 1], None),
    (("int", None, 10, 0, None), "[c]", pa.int32(), [-(2**31), 2**31 - 1], None),
    (("bigint", None, 19, 0, None), "[c]", pa.int64(), [-(2**63), 2**63 - 1], None),
    (("real", None, 24, None, None), "[c]", FLOATS, [3.4028234663852886e38], None),
    (("float", None, 53, None, None), "[c]", FLOATS, [1.7976931348623157e308], None),
    (("decimal", None, 5, 2, None), DIGITS, TEXT, ["-999.99"], [Decimal("-999.99")]),
    (("numeric", None, 38, 0, None), DIGITS, TEXT, [NINES], [Decimal(NINES)]),
    (("decimal", None, 38, 38, None), DIGITS, TEXT, [f"-0.{NINES}"], [Decimal(f"-0.{NINES}")]),
    (("money", None, 19, 4, None), MONEY, TEXT, [MOST_MONEY], [Decimal(MOST_MONEY)]),
    (("smallmoney", None, 10, 4, None), MONEY, TEXT, ["214748.3647"], [Decimal("214748.3647")]),
    (
        ("date", None, None, None, 0), "CONVERT(varchar(10), [c], 23)", TEXT,
        ["0001-01-01", "9999-12-31"], [dt.date.min, dt.date.max],
    ),
    (("time", None, None, None, 7), "CONVERT(varchar(16), [c], 121)", TEXT, ["23:59:59.9999999"], None),
    (
        ("smalldatetime", None, None, None, 0), TIMES, TEXT,
        ["2079-06-06 23:59:00.000"], [at(2079, 6, 6, 23, 59)],
    ),
    (
        ("datetime", None, None, None, 3), TIMES, TEXT,
        ["1753-01-01 00:00:00.000", "9999-12-31 23:59:59.997"],
        [at(1753), at(9999, 12, 31, 23, 59, 59, 997_000)],
    ),
    (("datetime2", None, None, None, 0), TIMES, TEXT, ["0001-01-01 00:00:00"], [at(1)]),
    (
        ("datetime2", None, None, None, 7), TIMES, TEXT,
        ["9999-12-31 23:59:59.9999990"], [at(9999, 12, 31, 23, 59, 59, 999_999)],
    ),
    (
        ("datetimeoffset", None, None, None, 7), ZONED, TEXT,
        ["2024-01-31 06:00:00.1234560 -14:00", "2024-01-31 06:00:00.0000000 +05:30"],
        [utc(2024, 1, 31, 20, 0, 0, 123_456), utc(2024, 1, 31, 0, 30)],
    ),
    (("char", 5, None, None, None), "[c]", TEXT, ["ab   "], None),
    (("nvarchar", -1, None, None, None), "[c]", TEXT, ["é\n", ""], None),
    (("varbinary", 10, None, None, None), "[c]", pa.binary(), [b"\x00\xff", b""], None),
    (("timestamp", None, None, None, None), "CONVERT(binary(8), [c])", pa.binary(), [b"\0" * 7 + b"1"], None),
    (("uniqueidentifier", None, None, None, None), "CONVERT(varchar(36), [c])", TEXT, [GUID], None),
    (("xml", -1, None, None, None), XML, TEXT, ["<a>1.10</a>"], None),
    (("hierarchyid", 892, None, None, None), "CONVERT(nvarchar(4000), [c])", TEXT, ["/1/2.1/"], None),
    (("geography", -1, None, None, None), "[c].AsBinaryZM()", pa.binary(), [b"\x01\x01"], None),
]  # fmt: skip

NUMBER = "TO_CHAR(\"c\", 'TM9')"
TIME = "LTRIM(TO_CHAR(\"c\", 'SYYYY-MM-DD HH24:MI:SS%s'))"
# Type, precision and scale; then as above.
ORACLE: list[tuple[tuple[Any, ...], str, pa.DataType, list[Any], list[Any] | None]] = [
    (("NUMBER", 10, 2), NUMBER, TEXT, ["-99999999.99", ".5"], [Decimal("-99999999.99"), Decimal("0.50")]),
    (("NUMBER", 38, 0), NUMBER, TEXT, [NINES], [Decimal(NINES)]),
    (("NUMBER", None, 0), NUMBER, TEXT, [f"-{NINES}"], [Decimal(f"-{NINES}")]),
    (("NUMBER", 5, -2), NUMBER, TEXT, ["9999900"], [Decimal(9999900)]),
    (("NUMBER", 2, 5), NUMBER, TEXT, [".00099"], [Decimal("0.00099")]),
    (("NUMBER", 38, 127), NUMBER, TEXT, ["1E-127"], None),
    (("NUMBER", None, None), NUMBER, TEXT, ["1.10", "9.9E+125"], None),
    (("FLOAT", 126, None), NUMBER, TEXT, [".1"], None),
    (("BINARY_FLOAT", None, None), '"c"', pa.float32(), [16_777_216.0], None),
    (("BINARY_DOUBLE", None, None), '"c"', FLOATS, [1.7976931348623157e308, float("inf")], None),
    (
        ("DATE", None, None), TIME % "", TEXT,
        ["9999-12-31 23:59:59", "0001-01-01 00:00:00"], [at(9999, 12, 31, 23, 59, 59), at(1)],
    ),
    (
        ("TIMESTAMP(6)", None, 6), TIME % ".FF9", TEXT,
        ["2024-01-31 06:00:00.123456000"], [at(2024, 1, 31, 6, 0, 0, 123_456)],
    ),
    (
        ("TIMESTAMP(9) WITH TIME ZONE", None, 9), TIME % ".FF9 TZH:TZM", TEXT,
        ["2024-01-31 06:00:00.123456000 +05:30"], [utc(2024, 1, 31, 0, 30, 0, 123_456)],
    ),
    (
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", None, 6), TIME % ".FF9 TZH:TZM", TEXT,
        ["2024-01-31 06:00:00.000000000 +00:00"], [utc(2024, 1, 31, 6)],
    ),
    (("INTERVAL DAY(2) TO SECOND(6)", 2, 6), 'TO_CHAR("c")', TEXT, ["-02 03:04:05.678900"], None),
    (("INTERVAL YEAR(2) TO MONTH", 2, None), 'TO_CHAR("c")', TEXT, ["+02-06"], None),
    (("VARCHAR2", None, None), '"c"', TEXT, ["é\n"], None),
    (("CLOB", None, None), '"c"', TEXT, ["x" * 100_000], None),
    (("RAW", None, None), '"c"', pa.binary(), [b"\x00\xff"], None),
    (("BLOB", None, None), '"c"', pa.binary(), [b"\x00\xff"], None),
    (("ROWID", None, None), 'CAST("c" AS VARCHAR2(4000))', TEXT, ["AAAR3sAAEAAAACXAAA"], None),
    (("XMLTYPE", None, None), 'XMLSERIALIZE(CONTENT "c" AS CLOB)', TEXT, ["<a>1.10</a>"], None),
    (("BOOLEAN", None, None), '"c"', pa.bool_(), [True, False], None),
]  # fmt: skip

# Values that their type here does not hold, by dialect and what the catalog says.
UNFIT: list[tuple[str, tuple[Any, ...], str]] = [
    ("sqlserver", ("datetime2", None, None, None, 7), "2024-01-31 06:00:00.1234567"),
    ("sqlserver", ("datetimeoffset", None, None, None, 7), "2024-01-31 06:00:00.1234567 +00:00"),
    ("oracle", ("NUMBER", None, 0), f"1{NINES}"),
    ("oracle", ("DATE", None, None), "-4712-01-01 00:00:00"),
    ("oracle", ("TIMESTAMP(9)", None, 9), "2024-01-31 06:00:00.123456789"),
]
NOT_CARRIED = [
    ("sqlserver", ("vector", None, None, None, None)),
    ("sqlserver", ("a_type_of_an_assembly", None, None, None, None)),
    ("oracle", ("SDO_GEOMETRY", None, None)),
    ("oracle", ("BFILE", None, None)),
    ("oracle", ("VECTOR", None, None)),
]


def column(dialect: str, catalog: tuple[Any, ...], *, as_text: bool = False) -> SqlColumn:
    kind, *sizes = catalog
    found: SqlColumn = MODULES[dialect]._column("c", kind, sizes, nullable=True, as_text=as_text)
    return found


def landed(one: SqlColumn, selected: pa.Array) -> pa.Array:
    return made_exact(pa.record_batch([selected], names=["c"]), [one])["c"].combine_chunks()


def parsed(query: str, dialect: str) -> None:
    """The query is one statement that sqlglot understands whole, but for two words that it does not know."""
    query = query.replace("XMLSERIALIZE(CONTENT ", "CAST(").replace(" RETURNING CLOB", "")
    (statement,) = sqlglot.parse(query, dialect=GRAMMARS[dialect], error_level=sqlglot.ErrorLevel.RAISE)
    assert not isinstance(statement, sqlglot.exp.Command), query


@pytest.mark.parametrize(
    ("dialect", "catalog", "select", "kind", "values", "expected"),
    [("sqlserver", *row) for row in SQL_SERVER] + [("oracle", *row) for row in ORACLE],
    ids=[f"{row[0][0]}-{n}" for n, row in enumerate([*SQL_SERVER, *ORACLE])],
)
def test_the_extremes_of_a_type_land_as_they_are(
    dialect: str,
    catalog: tuple[Any, ...],
    select: str,
    kind: pa.DataType,
    values: list[Any],
    expected: list[Any] | None,
) -> None:
    one = column(dialect, catalog)
    assert one.select == select
    parsed(f"SELECT {one.select} AS x FROM t", dialect)
    assert landed(one, pa.array([*values, None], kind)).to_pylist() == [*(expected or values), None]
    assert landed(one, pa.array([], kind)).to_pylist() == []


@pytest.mark.parametrize(("dialect", "catalog", "text"), UNFIT)
def test_a_value_that_fits_no_type_is_refused_until_it_is_read_as_text(
    dialect: str, catalog: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(InexactFault) as raised:
        landed(column(dialect, catalog), pa.array([text]))
    assert "as_text: [c]" in raised.value.remedy
    one = column(dialect, catalog, as_text=True)
    parsed(f"SELECT {one.select} AS x FROM t", dialect)
    assert landed(one, pa.array([text])).to_pylist() == [text]


@pytest.mark.parametrize(("dialect", "catalog"), NOT_CARRIED)
def test_a_type_that_is_not_carried_is_refused_by_name(dialect: str, catalog: tuple[Any, ...]) -> None:
    one = column(dialect, catalog)
    with pytest.raises(InexactFault, match=rf"column c has the type {catalog[0]}"):
        declared(dialect).chosen([one])
    other = column(dialect, ("int", None, 10, 0, None) if dialect == "sqlserver" else ("NUMBER", 1, 0))
    assert declared(dialect, pull={"fields": ["d"]}).chosen([one, _named(other, "d")])[0].name == "d"


def _named(one: SqlColumn, name: str) -> SqlColumn:
    return SqlColumn(name=name, type=one.type, nullable=True, select=one.select)


@pytest.mark.parametrize("dialect", GRAMMARS)
def test_every_type_can_be_read_as_text(dialect: str) -> None:
    """Those too that have other values as they are, such as a sql_variant."""
    for kind, text in MODULES[dialect]._AS_TEXT.items():
        assert text, kind
        parsed(f"SELECT {text.format(own='c')} AS x FROM t", dialect)


def declared(dialect: str, **table: Any) -> SqlTable:
    """The declaration of a table `dbo.t` of a database."""
    one_state = table.pop("one_state", False)
    source = SqlSourceConfig(
        type="sql", dialect=dialect, path="p", one_state=one_state, connection={"host": "db"}
    )  # fmt: skip
    pull = SqlPullConfig(**table.pop("pull", {}))
    return SqlTable(source, TableConfig(source="s", entity="dbo.t", keys=("id",), pull=pull, **table))


class Recorded:
    """A connection of the DB-API that gives recorded answers, by words of the question.

    An answer that is an error is raised. What was asked is kept.
    """

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked, self.rows = answers, list[str](), list[Any]()

    def cursor(self) -> Recorded:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, query: str, **_: Any) -> None:
        self.asked.append(query)
        found = next((rows for words, rows in self.answers.items() if words in query), [])
        if isinstance(found, Exception):
            raise found
        self.rows = list(found)

    def fetchall(self) -> list[Any]:
        return self.rows

    def fetchmany(self, size: int) -> list[Any]:
        rows, self.rows = self.rows[:size], self.rows[size:]
        return rows

    def close(self) -> None:
        pass


SQL_SERVER_ANSWERS: dict[str, Any] = {
    "transaction_begin_time": [("2024-01-31 06:00:00.500000", "2024-01-31 05:59:00.123000")],
    "HAS_PERMS_BY_NAME": [(1, 0)],
    "SYSUTCDATETIME": [("2024-01-31 06:00:00.500000",)],
    "snapshot_isolation_state": [(1, 0)],
    "INFORMATION_SCHEMA.COLUMNS": [
        ("id", "int", "NO", None, 10, 0, None), ("at", "datetime2", "YES", None, None, None, 6),
    ],
    "PRIMARY KEY": [("id",)],
    "sys.partitions": [(3,)],
    "SERVERPROPERTY('ServerName')": [("db", "shop", "5")],
    "MIN_ACTIVE_ROWVERSION": [("0x00000000000007D1",)],
}  # fmt: skip
ORACLE_ANSWERS: dict[str, Any] = {
    "gv$transaction": [("2024-01-31 05:59:00",)],
    "DATABASE_ROLE": [("PRIMARY",)],
    "SYSTIMESTAMP": [("2024-01-31 06:00:00.500000",)],
    "v$database": [("123",)],
    "all_tab_columns": [("id", "NUMBER", 10, 0, "N"), ("at", "TIMESTAMP(6) WITH TIME ZONE", None, 6, "Y")],
    "all_constraints": [("id",)],
    "all_tables": [(3,)],
    "DB_UNIQUE_NAME": [("db", "shop", 5)],
    'FROM "dbo"."t"': [("1", "2024-01-31 06:00:00.000000000 +01:00"), ("2", None)],
}
ANSWERS = {"sqlserver": SQL_SERVER_ANSWERS, "oracle": ORACLE_ANSWERS}
WINDOW = {"pull": {"mode": "incremental", "cursor": "at"}}


def opened(dialect: str, answers: dict[str, Any] | None = None, **table: Any) -> tuple[Any, Recorded]:
    """A reader on recorded answers; the driver is needed for its errors alone."""
    needed(dialect)
    connection = Recorded(ANSWERS[dialect] | (answers or {}))
    reader = READERS[dialect](declared(dialect, **table), {})
    reader._connect = lambda: setattr(reader, "_connection", connection)
    return reader, connection


@pytest.mark.parametrize("dialect", GRAMMARS)
def test_a_window_ends_before_the_oldest_open_transaction(dialect: str) -> None:
    reader, connection = opened(dialect, **WINDOW)
    pull = reader.plan(Since(mode="incremental", number=1, to="2024-01-31T05:00:00+00:00"))
    end = "2024-01-31T05:58:59.123000+00:00" if dialect == "sqlserver" else "2024-01-31T05:58:59+00:00"
    assert (pull.from_, pull.to) == ("2024-01-31T05:00:00+00:00", end)
    assert pull.identity == {"server": "db", "database": "shop", "table": "5"}
    assert pull.position == ("0x00000000000007D1" if dialect == "sqlserver" else "123")
    query = reader._query(pull)
    if dialect == "sqlserver":
        begin = "CONVERT(datetime2(7), '2024-01-31T05:00:00', 126)"
        assert f"WHERE [at] >= {begin} AND [at] < CONVERT(datetime2(7), '2024-01-31T05:58:59.123" in query
    else:
        begin = "TIMESTAMP '2024-01-31 05:00:00 +00:00'"
        assert f'WHERE "at" >= {begin} AND "at" < TIMESTAMP \'2024-01-31 05:58:59 +00:00\'' in query
    parsed(query, dialect)
    for asked in connection.asked:
        if not asked.startswith(("SET ", "BEGIN ")):
            parsed(asked, dialect)


@pytest.mark.parametrize("dialect", GRAMMARS)
def test_the_first_window_has_the_rows_without_a_cursor(dialect: str) -> None:
    reader, _ = opened(dialect, **WINDOW)
    pull = reader.plan(Since(mode="incremental", number=0, to=None))
    assert pull.from_ is None
    assert reader._query(pull).endswith("[at] IS NULL" if dialect == "sqlserver" else '"at" IS NULL')


def needed(dialect: str) -> Any:
    """The driver of a dialect."""
    return pytest.importorskip(DRIVERS[dialect], reason=f"`make test-sources` installs the extra {dialect}")


def blind(dialect: str) -> dict[str, Any]:
    """The answers of a server that does not let its user see the transactions of others."""
    return {"HAS_PERMS_BY_NAME": [(0, 0)]} if dialect == "sqlserver" else {"gv$transaction": refused(942)}


def refused(code: int, name: str = "", **more: Any) -> Exception:
    """An error as python-oracledb raises it."""
    name = name or f"ORA-{code:05}"
    facts = SimpleNamespace(code=code, full_code=name, message=f"{name}: some words", **more)
    error: Exception = needed("oracle").DatabaseError(facts)
    return error


@pytest.mark.parametrize("dialect", GRAMMARS)
def test_who_may_not_see_transactions_is_told_the_right_and_the_overlap(dialect: str) -> None:
    reader, _ = opened(dialect, blind(dialect), **WINDOW)
    with pytest.raises(TerminalFault) as raised:
        reader.plan(Since(mode="incremental", number=0, to=None))
    right = "VIEW SERVER STATE" if dialect == "sqlserver" else "SYS.GV_$TRANSACTION"
    assert right in raised.value.remedy
    assert "overlap" in raised.value.remedy
    late = {"pull": WINDOW["pull"] | {"late": {"overlap": "10 min"}}}
    reader, _ = opened(dialect, blind(dialect), **late)
    pull = reader.plan(Since(mode="incremental", number=1, to="2024-01-31T05:50:00+00:00"))
    assert (pull.from_, pull.to) == ("2024-01-31T05:40:00+00:00", "2024-01-31T06:00:00.500000+00:00")


@pytest.mark.parametrize("dialect", GRAMMARS)
def test_a_copy_of_a_server_does_not_know_the_open_transactions(dialect: str) -> None:
    copy = (
        {"HAS_PERMS_BY_NAME": [(1, 1)]}
        if dialect == "sqlserver"
        else {"DATABASE_ROLE": [("PHYSICAL STANDBY",)]}
    )
    reader, _ = opened(dialect, copy, **WINDOW)
    with pytest.raises(TerminalFault, match="does not tell which transactions are open"):
        reader.plan(Since(mode="incremental", number=0, to=None))


def test_sql_server_reads_one_state_or_says_what_its_administrator_must_allow() -> None:
    whole = Since(mode="full", number=0, to=None)
    reader, connection = opened("sqlserver")
    reader.plan(whole)
    assert "SET TRANSACTION ISOLATION LEVEL SNAPSHOT" in connection.asked
    reader, connection = opened("sqlserver", {"snapshot_isolation_state": [(0, 1)]})
    assert reader.plan(whole) is not None  # a statement sees one state, too
    assert not any("SNAPSHOT" in asked for asked in connection.asked)
    for versions, more in (((0, 0), {}), ((0, 1), {"one_state": True})):
        reader, _ = opened("sqlserver", {"snapshot_isolation_state": [versions]}, **more)
        with pytest.raises(TerminalFault) as raised:
            reader.plan(whole)
        assert "ALLOW_SNAPSHOT_ISOLATION" in raised.value.remedy


def test_oracle_reads_tables_in_one_state_as_of_one_number() -> None:
    first, connection = opened("oracle", one_state=True)
    pull = first.plan(Since(mode="full", number=0, to=None))
    assert first._query(pull).endswith('FROM "dbo"."t" AS OF SCN 123')
    parsed(first._query(pull), "oracle")
    connection.answers["v$database"] = [("456",)]
    second = oracle.OracleReader(declared("oracle", one_state=True), {})
    shared = second.plan(Since(mode="full", number=0, to=None, shared=pull.facts))
    assert shared is not None
    assert second._query(shared).endswith("AS OF SCN 123")
    assert second._connection is connection


def test_oracle_needs_no_right_for_one_table_in_one_query() -> None:
    whole = Since(mode="full", number=0, to=None)
    reader, _ = opened("oracle", {"v$database": refused(942)})
    pull = reader.plan(whole)
    assert pull.position is None
    assert "AS OF" not in reader._query(pull)
    reader, _ = opened("oracle", {"v$database": refused(942)}, one_state=True)
    with pytest.raises(TerminalFault) as raised:
        reader.plan(whole)
    assert "SYS.V_$DATABASE" in raised.value.remedy


def test_oracles_rows_land() -> None:
    reader, _ = opened("oracle")
    pull = reader.plan(Since(mode="full", number=0, to=None))
    assert isinstance(pull, Pull)
    rows = [row for chunk in reader.read(pull) for row in chunk.rows.to_pylist()]
    at = dt.datetime(2024, 1, 31, 5, tzinfo=dt.UTC)
    assert rows == [{"id": Decimal(1), "at": at}, {"id": Decimal(2), "at": None}]
    reader, _ = opened("oracle", {'FROM "dbo"."t"': []})
    (empty,) = reader.read(reader.plan(Since(mode="full", number=0, to=None)))
    assert empty.rows.num_rows == 0
    assert empty.rows.schema.names == ["id", "at"]


@pytest.mark.parametrize("dialect", GRAMMARS)
def test_the_catalog_is_described(dialect: str) -> None:
    entity = opened(dialect)[0].describe()
    assert [c.name for c in entity.columns] == ["id", "at"]
    assert (entity.keys, entity.rows) == (("id",), 3)


@pytest.mark.parametrize("dialect", GRAMMARS)
def test_tables_and_views_are_listed(dialect: str) -> None:
    """One whose name holds a dot cannot be declared, and is left out."""
    rows = [("dbo", 1, "t", 0, 5), ("sales", 0, "some", 1, None), ("sales", 0, "a.b", 0, 6)]
    reader, connection = opened(dialect, {"INFORMATION_SCHEMA.TABLES": rows, "all_objects": rows})
    found = [(one.name, one.also, one.kind, one.id) for one in reader.tables()]
    assert found == [("t", ("dbo.t",), "table", "5"), ("sales.some", (), "view", "")]
    parsed(connection.asked[-1], dialect)


@pytest.mark.parametrize("dialect", GRAMMARS)
def test_a_cursor_that_is_no_time_is_refused(dialect: str) -> None:
    """Or one that is rounded to a minute."""
    columns = [("id", "smalldatetime", "NO", None, None, None, 0)]
    rounded = {"INFORMATION_SCHEMA.COLUMNS": columns} if dialect == "sqlserver" else {}
    for answers in ({}, rounded):
        reader, _ = opened(dialect, answers, pull={"mode": "incremental", "cursor": "id"})
        with pytest.raises(TerminalFault, match="a window needs a time"):
            reader.plan(Since(mode="incremental", number=0, to=None))


@pytest.mark.parametrize(
    ("code", "name", "kind"),
    [
        (1017, "", TerminalFault), (28000, "", TerminalFault), (942, "", TerminalFault),
        (904, "", TerminalFault), (1555, "", TransientFault), (3113, "", TransientFault),
        (12514, "", TransientFault), (0, "DPY-6005", TransientFault), (0, "DPY-4011", TransientFault),
        (0, "DPY-3010", TerminalFault),
    ],
)  # fmt: skip
def test_an_error_of_oracle_passes_or_does_not(code: int, name: str, kind: type[SourceFault]) -> None:
    assert isinstance(oracle._fault(refused(code, name)), kind)


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        (
            "Invalid authorization specification",
            "[Microsoft][SQL Server]Login failed for user 'a'.",
            TerminalFault,
        ),
        (
            "Client unable to establish connection",
            "[Microsoft][ODBC Driver 18 for SQL Server]SSL Provider: certificate verify failed",
            TerminalFault,
        ),
        (
            "Client unable to establish connection",
            "[Microsoft][ODBC Driver 18 for SQL Server]TCP Provider: Error code 0x2749",
            TransientFault,
        ),
        (
            "Communication link failure",
            "[Microsoft][ODBC Driver 18 for SQL Server]TCP Provider: Error code 0x68",
            TransientFault,
        ),
        ("Serialization failure", "[Microsoft][SQL Server]Transaction was deadlocked", TransientFault),
        ("Connection operation failed", "Failed to load the driver. Please read", TerminalFault),
    ],
)
def test_an_error_of_sql_servers_connection_passes_or_does_not(
    kind: str, words: str, expected: type[SourceFault]
) -> None:
    driver = needed("sqlserver")
    fault = sqlserver._fault(driver.OperationalError(kind, words))
    assert isinstance(fault, expected)
    if "Failed to load" in words:
        assert "libltdl7" in fault.remedy


@pytest.mark.parametrize(
    ("kind", "words", "shown"),
    [
        ("Base table or view not found", "Invalid object name 'dbo.t'.", True),
        ("Syntax error or access violation", "The SELECT permission was denied on the object 't'", True),
        ("Invalid character value for cast specification", "Conversion failed: the value 'secret'", False),
    ],
)
def test_an_error_of_a_statement_of_sql_server_shows_names_and_no_values(
    kind: str, words: str, *, shown: bool
) -> None:
    driver = needed("sqlserver")
    fault = sqlserver._fault(driver.ProgrammingError(kind, words))
    assert isinstance(fault, TerminalFault)
    assert (words in fault.reason) is shown


def test_a_statement_that_met_a_change_of_the_table_is_tried_again() -> None:
    driver = needed("sqlserver")
    words = "Snapshot isolation transaction failed in database 'shop' because the object was changed"
    assert isinstance(
        sqlserver._fault(driver.ProgrammingError("Syntax error or access violation", words)), TransientFault
    )


def test_no_oracle_at_a_port_is_no_connection_and_a_wrong_key_is_a_mistake() -> None:
    """By the driver itself."""
    needed("oracle")
    here = {"host": "127.0.0.1", "port": 1, "database": "x"}
    credentials = {"user": "a", "password": "b-is-secret"}
    for more, kind, words in (
        ({}, TransientFault, "no connection to it"),
        ({"host": "no-such-host.invalid"}, TransientFault, "no connection to it"),
        ({"prot": "tcps"}, TerminalFault, "does not take"),
    ):
        source = SqlSourceConfig(type="sql", dialect="oracle", path="p", connection=here | more)
        table = TableConfig(source="s", entity="T", keys=("ID",), pull=SqlPullConfig())
        reader = oracle.OracleReader(SqlTable(source, table), credentials)
        with pytest.raises(kind, match=words) as raised:
            reader.plan(Since(mode="full", number=0, to=None))
        assert credentials["password"] not in f"{raised.value} {raised.value.remedy}"
        reader.close()


def test_an_oracle_that_stops_answering_is_left_behind() -> None:
    """The driver waits at a port that says nothing, until another thread closes the reader."""
    needed("oracle")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        here = {"host": "127.0.0.1", "port": silent.getsockname()[1], "database": "x"}
        source = SqlSourceConfig(type="sql", dialect="oracle", path="p", connection=here)
        table = TableConfig(source="s", entity="T", keys=("ID",), pull=SqlPullConfig())
        reader = oracle.OracleReader(SqlTable(source, table), {"user": "a", "password": "b"})
        closing = threading.Timer(0.3, reader.close)
        closing.start()
        with pytest.raises(TransientFault, match="closed"):
            reader.plan(Since(mode="full", number=0, to=None))
        closing.join()


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))),
    st.decimals(allow_nan=False, allow_infinity=False, places=20, min_value=-(10**38), max_value=10**38),
)
def test_a_text_of_a_number_is_that_decimal_or_refused(digits: tuple[int, int], number: Decimal) -> None:
    """Compared with Python's own decimals."""
    precision, scale = digits
    text = f"{number:f}".rstrip("0").rstrip(".") if number else "0"
    with localcontext(prec=80):
        scaled = Decimal(text).scaleb(scale)
        fits = scaled == scaled.to_integral_value() and abs(scaled) < Decimal(10) ** precision
    try:
        (found,) = to_decimal(pa.array([text]), digits=digits).to_pylist()
    except pa.ArrowInvalid:
        assert not fits
    else:
        assert fits
        assert found == Decimal(text)


@settings(max_examples=200, deadline=None)
@given(st.datetimes(), st.integers(0, 9), st.integers(0, 999), st.integers(-14 * 60, 14 * 60))
def test_a_text_of_a_time_is_that_time_or_refused(
    time: dt.datetime, places: int, rest: int, offset: int
) -> None:
    """Compared with Python's own times; ``rest`` are nanoseconds below the microsecond."""
    fraction = f"{time.microsecond:06}{rest:03}"[:places]
    whole = f"{time:%m-%d %H:%M:%S}"
    text = f"{time.year:04}-{whole}" + (f".{fraction}" if places else "")
    kept = time.replace(microsecond=int(fraction[:6].ljust(6, "0")))
    fits = not fraction[6:].strip("0")
    sign, minutes = "-" if offset < 0 else "+", abs(offset)
    zone = f"{sign}{minutes // 60:02}:{minutes % 60:02}"
    for given_text, has_zone in ((text, False), (f"{text} {zone}", True)):
        try:
            found = to_time(pa.array([given_text]), has_zone=has_zone).cast(pa.int64())[0].as_py()
        except pa.ArrowInvalid:
            assert not fits
        else:
            assert fits
            expected = (kept - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001
            assert found == expected - (offset * 60_000_000 if has_zone else 0)
