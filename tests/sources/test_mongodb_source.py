"""What a source of type mongodb reads, in which order, from where it goes on, and what it says goes wrong."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("secantus", reason="`make test-sources` installs secantusdb")
import bson
from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Timestamp
from bson.datetime_ms import DatetimeMS
from harness.mongodb import client_of, mongodb_server
from pyspark.sql import types as T

from kedro_lakehouse.config.documents import DocumentRules
from kedro_lakehouse.config.mongodb import MongoSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.decoders.bson.documents import document_of
from kedro_lakehouse.decoders.bson.kinds import Kinds, kinds_of
from kedro_lakehouse.decoders.bson.types import Field, fields_of, is_mixed, type_of
from kedro_lakehouse.decoders.bson.values import MisfitError, reader_of
from kedro_lakehouse.ingestion.documents import joined, read_as
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.errors import SourceChangedFault, SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.mongodb import source as mongodb
from kedro_lakehouse.pulls.mongodb.source import MongoSource, id_text
from kedro_lakehouse.pulls.protocol import Pull, PulledSource, Since

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.sources

CONFIG = MongoSourceConfig(type="mongodb", path="landing", database="db")
FIRST = Since(number=0, to=None)
IDS: tuple[Any, ...] = (
    MinKey(), None, 5, 2.5, Int64(2**60), Decimal128("3.5"), "abc", "", {"a": 1}, Binary(b"x"), b"y",
    ObjectId(), True, False, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), Timestamp(1, 1), MaxKey(),
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with mongodb_server() as uri:
        yield uri


@pytest.fixture(scope="module")
def database(server: str) -> Iterator[Any]:
    with client_of(server) as client:
        yield client.db


@pytest.fixture
def source(server: str) -> Iterator[Any]:
    """Makes the source's object of a collection."""
    made: list[MongoSource] = []

    def make(collection: str, uri: str = server, **pull: Any) -> MongoSource:
        declared = TableConfig(
            source="m", entity=collection, keys=("_id",), pull=CONFIG.pull_model(**pull) if pull else None
        )
        made.append(MongoSource(CONFIG, TableName("m", "t"), declared, {"uri": uri}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ids_of(found: Any) -> list[str]:
    return [text for chunk in found for text in chunk.rows["_id"].to_pylist()]


def test_it_is_a_pulled_source(source: Any) -> None:
    assert isinstance(source("any"), PulledSource)


def test_a_read_goes_on_after_each_chunk_whatever_the_ids_are(
    source: Any, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.ids.insert_many([{"_id": one, "n": number} for number, one in enumerate(IDS)])
    monkeypatch.setattr(mongodb, "_CHUNK_ROWS", 1)
    one = source("ids")
    pull = one.plan(FIRST)
    chunks = list(one.read(pull, None))
    whole = ids_of(chunks)
    assert len(set(whole)) == len(IDS)
    for number, chunk in enumerate(chunks):
        assert ids_of(source("ids").read(pull, chunk.state)) == whole[number + 1 :]


def test_documents_land_in_the_bytes_that_are_stored(source: Any, database: Any) -> None:
    stored = {"_id": ObjectId(), "a": 1, "b": Int64(1), "c": 1.0, "d": [{"e": None}], "": "no name"}
    database.stored.insert_one(stored)
    one = source("stored")
    (chunk,) = one.read(one.plan(FIRST), None)
    assert chunk.rows["document"].to_pylist() == [bson.encode(stored)]
    assert chunk.rows["_id"].to_pylist() == [f'{{"$oid": "{stored["_id"]}"}}']
    assert chunk.rows.schema == mongodb.SCHEMA


def test_an_empty_collection_gives_a_chunk_without_rows(source: Any, database: Any) -> None:
    database.create_collection("empty")
    one = source("empty")
    assert [chunk.rows.num_rows for chunk in one.read(one.plan(FIRST), None)] == [0]


def test_a_view_without_ids_is_read_from_the_beginning(source: Any, database: Any) -> None:
    database.base.insert_many([{"n": n, "list": [1, 2]} for n in range(3)])
    unwound = [{"$unwind": "$list"}, {"$project": {"_id": 0}}]
    database.command("create", "unwound", viewOn="base", pipeline=unwound)
    one = source("unwound")
    (chunk,) = one.read(one.plan(FIRST), None)
    assert chunk.rows["_id"].to_pylist() == [None] * 6
    assert chunk.state is None


def test_a_window_overlaps_the_last_one_and_none_is_planned_without_news(source: Any, database: Any) -> None:
    now = dt.datetime.now(dt.UTC)
    database.seen.insert_many([{"_id": n, "at": now - dt.timedelta(minutes=n)} for n in (1, 5, 30)])
    one = source("seen", mode="incremental", cursor="at", late={"overlap": "10 min"})
    since = Since(mode="incremental", number=0, to=None)
    first = one.plan(since)
    assert first.from_ is None
    assert ids_of(one.read(first, None)) == [f'{{"$numberInt": "{n}"}}' for n in (1, 5, 30)]
    second = one.plan(Since(mode="incremental", number=1, to=first.to))
    assert dt.datetime.fromisoformat(second.from_) == dt.datetime.fromisoformat(first.to) - dt.timedelta(
        minutes=10
    )
    assert len(ids_of(one.read(second, None))) == 2
    later = (now + dt.timedelta(minutes=11)).isoformat()
    assert one.plan(Since(mode="incremental", number=2, to=later)) is None


def test_documents_that_no_window_would_hold_are_refused(source: Any, database: Any) -> None:
    database.undated.insert_many([{"at": dt.datetime.now(dt.UTC)}, {"at": "2024-01-01"}])
    one = source("undated", mode="incremental", cursor="at")
    with pytest.raises(TerminalFault, match="no date in 'at'"):
        one.plan(Since(mode="incremental", number=0, to=None))


def test_a_collection_that_is_dropped_while_it_is_read_is_a_fault(
    source: Any, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.dropped.insert_many([{"n": n} for n in range(1_000)])
    monkeypatch.setattr(mongodb, "_CHUNK_ROWS", 10)
    one = source("dropped")
    pull = one.plan(FIRST)
    reading = one.read(pull, None)
    state = next(reading).state
    database.dropped.drop()
    with pytest.raises(SourceFault):
        list(reading)
    with pytest.raises(SourceChangedFault, match="was dropped"):
        list(source("dropped").read(pull, state))
    database.dropped.insert_one({"n": 1})
    with pytest.raises(SourceChangedFault, match="made anew"):
        list(source("dropped").read(pull, state))


def test_what_stays_until_it_is_mended_is_terminal_and_tells_no_secret(source: Any) -> None:
    with pytest.raises(TerminalFault, match="no collection or view 'none'"):
        source("none").plan(FIRST)
    for uri in ("http://secret@host", "mongodb://user:secret@host:1:2/", ""):
        with pytest.raises(TerminalFault) as caught:
            source("ids", uri).plan(FIRST)
        assert "secret" not in f"{caught.value} {caught.value.remedy}"
    with pytest.raises(TransientFault):
        source("ids", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50").plan(FIRST)


def test_an_srv_address_is_looked_up_in_dns(source: Any) -> None:
    with pytest.raises((TerminalFault, TransientFault)) as caught:
        source("ids", "mongodb+srv://user:secret@cluster.invalid/?connectTimeoutMS=500").plan(FIRST)
    assert "secret" not in str(caught.value)


def test_describe_tells_fields_and_an_estimate(source: Any, database: Any) -> None:
    database.described.insert_many([{"a": 1, "b": "x"}, {"a": "x"}])
    found = source("described").describe()
    assert {c.name: c.type for c in found.columns} == {"_id": "objectid", "a": "int or string", "b": "string"}
    assert (found.keys, found.rows) == (("_id",), 2)


def typed(*values: Any, **rules: Any) -> T.DataType:
    kinds = kinds_of([bson.encode({"v": value}) for value in values])
    return type_of(kinds.fields["v"], DocumentRules(**rules), ("v",)) if kinds.fields else T.NullType()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 2), "int"),
        ((1, Int64(2)), "bigint"),
        ((1, 2.5), "double"),
        ((1, Decimal128("1.5")), "decimal(38,18)"),
        (("a", ObjectId()), "string"),
        ((True, None), "boolean"),
        ((dt.datetime(2024, 1, 1, tzinfo=dt.UTC), DatetimeMS(2**60)), "timestamp"),
        ((b"x",), "binary"),
        ((Binary(bytes(16), 4),), "string"),
        (([], [1], [None]), "array<int>"),
        (({"a": 1}, {"b": [{"c": "x"}]}), "struct<a:int,b:array<struct<c:string>>>"),
        (("a", "b", 1), "string"),
        ((1, 2, "a"), "int"),
        ((None, [], {}, {"a": None}), "void"),
    ],
)
def test_types_follow_the_kinds_of_values(values: tuple[Any, ...], expected: str) -> None:
    assert typed(*values).simpleString() == expected


def test_a_double_holds_whole_numbers_below_its_limit_alone() -> None:
    assert typed(1.5, Int64(2**53 + 1)).simpleString() == "double"
    assert typed(1.5, Int64(2**53 + 1), as_text=True).simpleString() == "string"
    assert typed(1.5, Int64(2**53), as_text=True).simpleString() == "double"
    assert is_mixed(kinds_of([bson.encode({"v": 1.5}), bson.encode({"v": Int64(2**60)})]).fields["v"])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (T.DoubleType(), Int64(2**53), float(2**53)),
        (T.DoubleType(), Int64(2**53 + 1), MisfitError),
        (T.DoubleType(), Decimal128("1.5"), MisfitError),
        (T.IntegerType(), 5.0, 5),
        (T.IntegerType(), 5.5, MisfitError),
        (T.IntegerType(), Int64(2**31), MisfitError),
        (T.IntegerType(), True, MisfitError),
        (T.DecimalType(38, 18), Decimal128("1.10"), Decimal("1.10")),
        (T.DecimalType(38, 18), Decimal128("1E-19"), MisfitError),
        (T.DecimalType(10, 2), 0.1, Decimal("0.10")),
        (T.DecimalType(10, 2), 0.125, MisfitError),
        (T.DecimalType(10, 2), float("nan"), MisfitError),
        (T.DecimalType(10, 2), "1.5", MisfitError),
        (T.DecimalType(38, 18), Decimal128("1E+20"), MisfitError),
        (T.DecimalType(38, 18), Decimal128("9E+19"), Decimal("9E+19")),
        (T.DecimalType(38, 18), Decimal128("Infinity"), MisfitError),
        (T.TimestampType(), DatetimeMS(253402300799999), 253402300799999000),
        (T.TimestampType(), DatetimeMS(253402300800000), MisfitError),
        (T.TimestampType(), DatetimeMS(-62135596800000), -62135596800000000),
        (T.TimestampType(), DatetimeMS(-62135596800001), MisfitError),
        (T.BooleanType(), 1, MisfitError),
        (T.StringType(), 1, MisfitError),
        (T.BinaryType(), "x", MisfitError),
        (T.ArrayType(T.IntegerType()), [1, None], [1, None]),
        (T.ArrayType(T.IntegerType()), [1, "x"], MisfitError),
        (T.ArrayType(T.IntegerType()), 1, MisfitError),
    ],
)
def test_values_fit_exactly_or_not_at_all(kind: T.DataType, value: Any, expected: Any) -> None:
    decoded = document_of(bson.encode({"v": value}))
    assert decoded is not None
    read = reader_of(Field(name="v", path=("v",), type=kind))
    if expected is MisfitError:
        with pytest.raises(MisfitError):
            read(decoded["v"])
    else:
        assert read(decoded["v"]) == expected


def test_text_of_mixed_values_keeps_what_they_say() -> None:
    read = reader_of(Field(name="v", path=("v",), type=T.StringType(), any_text=True))
    given = [
        1,
        Int64(2**60),
        1.5,
        True,
        "x",
        None,
        Decimal128("1.10"),
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        [1],
    ]
    decoded = [(document_of(bson.encode({"v": one})) or {})["v"] for one in given]
    assert [read(one) for one in decoded] == [
        "1", str(2**60), "1.5", "true", "x", None, "1.10", "2024-01-01T00:00:00+00:00", "[1]",
    ]  # fmt: skip


def test_fields_of_structs_are_columns_where_they_are_flattened() -> None:
    documents = [{"a": {"b": {"c": 1}, "d": [{"e": 1}]}, "m": {"x": 1}}, {"a": "x"}, {"a": "y"}, {"a": None}]
    kinds = kinds_of(map(bson.encode, documents), {("m",)})
    rules = DocumentRules(flatten=True, maps=frozenset({("m",)}))
    found = {name: type_of(k, rules, p).simpleString() for name, (p, k) in fields_of(kinds, rules).items()}
    assert found == {"a": "string", "m": "map<string,int>"}
    kinds = kinds_of(map(bson.encode, [documents[0], *documents]), {("m",)})
    found = {name: type_of(k, rules, p).simpleString() for name, (p, k) in fields_of(kinds, rules).items()}
    assert found == {"a__b__c": "int", "a__d": "array<struct<e:int>>", "m": "map<string,int>"}
    with pytest.raises(ValueError, match="a__b"):
        fields_of(kinds_of([bson.encode({"a": {"b": 1}, "a__b": 2})]), rules)


def test_a_field_without_a_name_is_left_out() -> None:
    kinds, rules = kinds_of([bson.encode({"": 1, "a": {"": 1, "b": 2}})]), DocumentRules()
    found = {name: type_of(k, rules, p).simpleString() for name, (p, k) in fields_of(kinds, rules).items()}
    assert found == {"a": "struct<b:int>"}


def test_what_is_counted_apart_is_what_is_counted_together() -> None:
    documents = [
        bson.encode({"a": [{"b": n} if n % 2 else str(n)], "c": Int64(2**53 + n)}) for n in range(10)
    ]
    together, apart = kinds_of(documents), Kinds()
    for one in documents:
        apart.merge(Kinds.from_plain(kinds_of([one]).to_plain()))
    assert apart.to_plain() == together.to_plain()
    assert kinds_of([b"no document", None]).counts.total() == 0


def test_a_column_that_the_table_has_gets_wider_or_stays() -> None:
    def struct(**kinds: T.DataType) -> T.StructType:
        return T.StructType([T.StructField(n, k) for n, k in kinds.items()])

    held = struct(a=T.IntegerType(), b=T.StringType())
    found = struct(a=T.LongType(), b=T.IntegerType(), c=T.DoubleType())
    assert joined(held, found).simpleString() == "struct<a:bigint,b:string,c:double>"
    assert joined(T.ArrayType(T.IntegerType()), T.StringType()).simpleString() == "array<int>"


def test_a_declared_type_is_read_exactly_or_cast_by_spark() -> None:
    def read(declared: T.DataType, *values: Any) -> str:
        kinds = kinds_of([bson.encode({"v": value}) for value in values]).fields["v"]
        return read_as(declared, kinds, type_of(kinds, DocumentRules())).simpleString()

    assert read(T.LongType(), 1, 2) == "bigint"
    assert read(T.DecimalType(10, 2), 1, 2) == "decimal(10,2)"
    assert read(T.DateType(), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)) == "timestamp"
    assert read(T.IntegerType(), "1", "2") == "string"
    assert read(T.IntegerType(), "1", "2", True) == "string"
    assert read(T.DateType(), None) == "date"


def test_ids_are_told_as_canonical_json() -> None:
    from bson.raw_bson import RawBSONDocument

    def text(value: Any) -> str | None:
        return id_text(RawBSONDocument(bson.encode({"_id": value})))

    assert text(5) == '{"$numberInt": "5"}'
    assert text({"a": Int64(1)}) == '{"a": {"$numberLong": "1"}}'
    assert text(ObjectId(bytes(12))) == '{"$oid": "000000000000000000000000"}'
    assert id_text(RawBSONDocument(bson.encode({"a": 1}))) is None


def test_a_pull_is_what_a_manifest_can_hold(source: Any, database: Any) -> None:
    database.pulled.insert_one({"a": 1})
    pull: Pull = source("pulled").plan(FIRST)
    assert pull.from_ is None
    assert pull.identity["database"] == "db"
    assert pull.identity["table"].startswith("pulled ")
    database.pulled.drop()
    database.pulled.insert_one({"a": 1})
    assert source("pulled").plan(FIRST).identity != pull.identity


def test_documents_about_an_erased_person_leave_landed_files() -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    from kedro_lakehouse.erasure.landed import _parquet
    from kedro_lakehouse.file_search.wanted import Wanted

    rows = [
        {"n": n, "buyer": {"email": f"p{n}@example.org"}, "list": [{"email": "all@example.org"}]}
        for n in range(99)
    ]
    raw = [bson.encode(row) for row in rows]
    out = io.BytesIO()
    table = pa.table({"_id": [str(n) for n in range(99)], "document": raw}, schema=mongodb.SCHEMA)
    pq.write_table(table, out, compression="zstd")
    before = out.getvalue()
    wanted = Wanted.of(["p7@example.org"], ["buyer__email"])
    made = _parquet(before, "buyer__email", wanted, has_documents=True)
    assert made is not None
    assert len(made) == len(before)
    assert pq.read_table(io.BytesIO(made))["document"].to_pylist() == [*raw[:7], *raw[8:]]
    assert _parquet(before, "buyer__email", Wanted.of(["nobody"], ["email"]), has_documents=True) is None
