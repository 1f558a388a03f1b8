"""Debezium's messages that are decoded without Spark become the events that Spark makes of the same bytes."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.avro import captured, confluent_schemas
from harness.debezium import AS_NUMBERS, decimal_of, every_postgres, wire, with_schema
from harness.fixtures import FIXTURES
from harness.json_tokens import TOKENS, listed
from harness.project import TemporaryProject
from harness.soak import only_in_soak, soaking
from property.seeds import SWITCH, the_seed
from pyspark.sql import types as T

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.events import POSITION, REASONS
from kedro_lakehouse.commits.event_frames import AGAIN, REPEAT, TIE
from kedro_lakehouse.commits.token import BatchToken
from kedro_lakehouse.config.registries import ConfluentRegistryConfig
from kedro_lakehouse.decoders.debezium import DebeziumDecoder, DebeziumLayout
from kedro_lakehouse.decoders.plain_json import NotPlainError
from kedro_lakehouse.decoders.records import FILE, Columns
from kedro_lakehouse.formats.ddl import storable
from kedro_lakehouse.ingestion.record_rules import RecordRules
from kedro_lakehouse.ingestion.small_changes import _checked, _marked
from kedro_lakehouse.project import Project
from kedro_lakehouse.schema_registries.confluent import ConfluentRegistry
from kedro_lakehouse.schema_registries.records import RecordReader
from kedro_lakehouse.session.line import is_spark3
from kedro_lakehouse.session.sail import on_sail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from kedro_lakehouse.decoders.lines import LineShape

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4: `make test` runs it"),
]

Message = tuple[str | None, str | None]
"""The value and the key of a record."""
TOKEN = BatchToken(table="shop.t", batch=7, after=6, content_hash="x")
PG = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "t", "lsn": 7, "ts_us": 1000}
TYPES: dict[str, T.DataType] = {
    "id": T.LongType(), "n": T.IntegerType(), "d": T.DecimalType(10, 2), "x": T.DoubleType(),
    "f": T.FloatType(), "yes": T.BooleanType(), "day": T.DateType(), "at": T.TimestampType(),
    "local": T.TimestampNTZType(), "word": T.StringType(), "raw": T.BinaryType(),
    "odd name": T.StringType(), "renamed": T.StringType(), "__op": T.StringType(),
    "sent": T.LongType(),
}  # fmt: skip
MORE_TOKENS = (
    '"AQ=="', '"AQ"', '"A Q=="', '"//8="', '""', '"!"', "20455", "-719162", "-719163", "2932896", "2932897",
    "1529507596945104", "1529507596945104999", "-1", "-1000001", "9223372036854775807", "86399999",
    '"2026-01-02Z"', '"2026-01-02T03:04:05Z"', '"2026-01-02T03:04:05.123456789Z"', "1.5E10", "1.0E-5",
    "16777217", "16777217.0", "0.1", "3.4028235E38", "1E-45", "123456789012345678901234567890",
    '"__debezium_unavailable_value"', '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="',
    '{"scale": 2, "value": "AQ=="}', '{"scale": -3, "value": "//8="}', '{"scale": 0, "value": "AA=="}',
    '{"scale": 40, "value": "EtaH"}', '{"scale": "2", "value": "AQ=="}', '{"scale": 2, "value": null}',
    '{"value": "AQ=="}', "[1]", json.dumps(wire(10**38)), json.dumps(wire(-(10**38) + 1)),
    json.dumps(wire(10**10)), json.dumps(wire(10**64 + 5)), json.dumps(wire(0)), json.dumps(wire(10**90)),
)  # fmt: skip
ROW = {"id": 1, "word": "w"}


def message(
    op: str | None = "c", after: Any = ROW, before: Any = None, key: Any = None, **more: Any
) -> Message:
    """An envelope without its schema; what is given as None is null, or not there for ``key``."""
    value = {"before": before, "after": after, "source": PG, "op": op, "ts_ms": 2000} | more
    return json.dumps(value), None if key is None else json.dumps(key)


def source(**more: Any) -> dict[str, Any]:
    return {"source": {n: v for n, v in (PG | more).items() if v != "absent"}}


def flat(**more: Any) -> Message:
    """A row as Debezium's transform flattens it."""
    told = {"__op": "u", "__lsn": 5, "__source_ts_us": 1795424996224542, "__db": "shop", "__table": "t"}
    return json.dumps(ROW | told | {"__schema": "public"} | more), None


MOVED, TEXT = {"id": 2, "word": "w"}, str(message()[0])
ODD: list[Message] = [
    (None, '{"id": 1}'), (None, None), ("no json", None), ("", None), ("{}", None), ("[]", "{"), ("7", None),
    message("r"), message("u", before=ROW), message("u"), message("u", MOVED, ROW, {"id": 2}),
    message("u", MOVED, {"id": 1}), message("u", MOVED, None, {"id": 1}), message("u", ROW, {"id": None}),
    message("d", None, ROW, {"id": 1}), message("d", None, None, {"id": 1}), message("d", None, None),
    message("d", None, {"id": 1, "n": "bad"}), message("d", None, {"word": "w"}, {"id": 3}),
    message("t", None), message("t", ROW), message("t", None, key={"id": 1}), message("m"), message("x"),
    message(None), message("c", None), message("c", {}), message("c", {"word": "w"}),
    message("c", {"id": None}), message("c", {"id": 1, "new": 5}), message("c", {"id": 1, "odd name": "a.b"}),
    message("c", [1]), message("c", "x"), message("c", ROW, "x"), message("u", ROW, []),
    message(key={"id": 2}), message(key={"schema": {}, "payload": {"id": 1}}), message(key={"word": "v"}),
    message(key={"schema": {}, "payload": {"id": 2}}), message(key={"payload": {"id": 1}}), message(key="1"),
    message(key=[1]), message(key={"id": 1.0}),
    message(key={"id": {"a": 1}}), message(key={"id": None}), (TEXT, "1"), (TEXT, "{"),
    message(**source(lsn=None)), message(**source(lsn="9")), message(**source(lsn="x")),
    message(**source(lsn=2**63 - 1)), message(**source(lsn=2**63)), message(**source(lsn=1.5)),
    message(**source(ts_us="absent", ts_ns=1795424996224542006, ts_ms=5)),
    message(**source(ts_us="absent", ts_ms=1795424996224)), message(**source(ts_us=0)),
    message(**source(ts_us="absent")), message(**source(ts_us="x")), message(**source(ts_us=-5)),
    message(**source(ts_us="absent", ts_ns=999)), message(**source(ts_us=2**63 - 1)),
    message(**source(ts_us="absent", ts_ms=2**62)),
    message(**source(table="other")), message(**source(schema="shop")), message(**source(table=None)),
    message(**source(table=5)), message(transaction={"id": "571:9", "total_order": 1}),
    message(ts_ms=None), message(ts_ms="x"), message(ddl="x"),
    message(schema=None), message("c", {"id": 1, "__op": "u"}), message("c", {"id": 1, "before": "b"}),
    message("u", {"id": 1, "old": "a"}),
    (json.dumps({"schema": None, "payload": json.loads(TEXT)}), None),
    ('{"schema": null, "payload": null}', None), ('{"schema": {}, "payload": null}', None),
    ('{"schema":{},"payload":' + TEXT + "}", None),
    ('{"schema":{"fields":[]},"payload":' + TEXT + ',"x":1}', None),
    ('{"payload":' + TEXT + "}", None), ('{"payload": 5, "schema": 6}', None),
    ('{"ts_ms": 1565787098802}', None), flat(), flat(__op="d"), flat(__op="d", __deleted="true"),
    flat(__op="t"), flat(__op="x"), flat(__op=None, __deleted="false"), flat(__op=None, __deleted="true"),
    flat(__op="c", __deleted=True), flat(__op="u", __deleted="x"), flat(__lsn="x"),
    flat(__lsn=None, __source_lsn=6), flat(__lsn=6, __source_lsn=8), flat(__source_ts_us=None, __ts_ms=5),
    flat(__source_ts_us=None), flat(__table="other"), flat(__source_table="t"), flat(__source_schema="shop"),
    flat(__connector="postgresql"), flat(word=None), flat(id=None), flat(__op={"a": 1}), flat(ts_ms=7),
    (flat()[0], '{"id": 2}'), (flat(__op="d", id=None)[0], '{"id": 2}'), flat(word={"a": 1}), flat(n=1.5),
    ('{"id": 1, "__op": "c", "__lsn": 5}', None), ('{"status": "BEGIN", "id": "571:1", "ts_ms": 1}', None),
    ("  " + TEXT + "\n", None), (TEXT + "x", None),
    (TEXT.replace('"id": 1', '"id": 1, "id": 2'), None),
    (TEXT.replace('"op": "c"', '"op": "c", "op": "d"'), None),
    (TEXT.replace('"op": "c"', '"op": {"a": 1}'), None),
    (TEXT.replace('"w"', '"' + "[" * 990 + '"'), None),
    (TEXT.replace('"w"', "[" * 990 + "]" * 990), None),
    (TEXT.replace('"w"', '"\\u0000"'), None),
]  # fmt: skip
WITHOUT_POSITION: list[Message] = [
    message(), message(source=None), message(source=[]), message(source={}), ('{"id": 1}', None),
    message("u", MOVED, ROW, **source(connector="mongodb", lsn="absent")), message(**source(connector=None)),
    message("d", None, ROW), message(**source(connector={"a": 1})), message(**source(connector="")),
    flat(__lsn=None), flat(__connector="mongodb"), flat(__lsn=None, __file="f.1", __pos=5),
]  # fmt: skip
AS_TABLE = Columns(
    types=TYPES, rename={"old": "renamed", "__source_ts_ms": "sent"}, control=frozenset({"__ts_ms"})
)
ORDERED = DebeziumLayout(table="shop.t", ordered=True)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session with the project's settings."""
    project = TemporaryProject.make(tmp_path_factory.mktemp("few") / "project", {}, {})
    return Project.load(str(project.path / "conf"), None).session


def lines_of(messages: Sequence[Message]) -> pa.Table:
    """Messages as lines, each in a place of its own."""
    places = pa.array([str(n) for n in range(len(messages))])
    position = pa.StructArray.from_arrays([places, pa.array(range(len(messages)))], ["file", "row"])
    values, keys = (pa.array([m[part] for m in messages], pa.string()) for part in (0, 1))
    return pa.Table.from_arrays([values, keys, position, places], names=["value", "key", POSITION, FILE])


def compare(
    session: SparkSession,
    messages: Sequence[Message],
    columns: Columns | None = None,
    layout: DebeziumLayout | None = None,
    keys: tuple[str, ...] = ("id",),
) -> tuple[int, int]:
    """Decode messages both ways and compare the events; how many were read here, and refused by Spark."""
    layout = layout or DebeziumLayout(table="shop.t")
    decoder, lines = DebeziumDecoder(), lines_of(messages)
    frame, failures = session.createDataFrame(lines).cache(), list[Any]()
    found = by_place(decoder.discover(frame, layout))
    shapes: list[LineShape] = []
    for n, message in enumerate(messages):
        if (here := tried(decoder.discover_few, lines.slice(n, 1), layout)) is None:
            shapes += found[str(n)]
        else:
            shapes += here
            if not same_shapes(here, found[str(n)]):
                failures.append(("shapes", message, here, found[str(n)]))
    if columns is None:
        types = {name: storable(kind) for shape in shapes for name, kind in shape.columns if name[0] != "_"}
        columns = Columns(types=types)
    rules = RecordRules(decoder="debezium", layout=layout, columns=columns)
    contract = TableContract(table="shop.t", keys=keys, order_by=keys if layout.ordered else ())
    events = rules.events(decoder.unwrap(frame, shapes, layout), contract)
    theirs = by_line(_marked(events, contract, TOKEN))
    frame.unpersist()
    kinds = of_kinds(shapes)
    plain, refused = [], 0
    for n, message in enumerate(messages):
        given = (lines.slice(n, 1), kinds, layout, columns, keys)
        is_bad = any(row[REASONS] for row in theirs[n])
        refused += is_bad
        if n in theirs and tried(decoder.decode_few, *given) is not None:
            plain.append(n)
            if is_bad:
                failures.append(("refused by Spark", message, theirs[n]))
    decoded = decoder.decode_few(lines.take(plain), kinds, layout, columns, keys)
    ours = by_line(on_sail(_checked, decoded, rules, contract, TOKEN))
    failures += [("events", messages[n], ours[n], theirs[n]) for n in plain if ours[n] != theirs[n]]
    assert not failures, (f"again with {SWITCH}={the_seed()}", len(failures), failures[:3])
    return len(plain), refused


def tried(work: Callable[..., Any], *arguments: Any) -> Any:
    """What something gives; None where it leaves its work to Spark."""
    try:
        return work(*arguments)
    except NotPlainError:
        return None


def by_place(shapes: Iterable[LineShape]) -> dict[str, list[LineShape]]:
    found = defaultdict(list)
    for shape in shapes:
        found[shape.place].append(shape)
    return found


def of_kinds(shapes: Iterable[LineShape]) -> list[LineShape]:
    """A shape for each kind of message that can be read here, with all of its columns."""
    found: dict[Any, LineShape] = {}
    for shape in shapes:
        if shape.kind.form == "malformed":
            continue
        known = found.setdefault(shape.kind, shape)
        if known.columns != shape.columns:
            columns = dict(known.columns) | dict(shape.columns)
            found[shape.kind] = replace(known, columns=tuple(columns.items()))
    return list(found.values())


def same_shapes(ours: Sequence[LineShape], theirs: Sequence[LineShape]) -> bool:
    """Whether two findings are one; of what is skipped, the schema block does not matter."""
    if not any(shape.has_rows for shape in (*ours, *theirs)):
        return len(ours) == len(theirs) == 1
    return repr(ours) == repr(theirs)


def by_line(events: pa.Table) -> dict[int, list[dict[str, str]]]:
    """Events by the numbers of their lines, each value as text that tells its type."""
    kept = [c for c in events.column_names if c not in (REPEAT, TIE, AGAIN)]
    numbers, found = events[POSITION].combine_chunks().field("row").to_pylist(), defaultdict(list)
    for number, row in zip(numbers, listed(events.select(sorted(kept))), strict=True):
        found[number].append({name: value if name == REASONS else repr(value) for name, value in row.items()})
    for rows in found.values():
        rows.sort(key=str)
    return found


@only_in_soak
def test_messages_without_a_position(session: SparkSession) -> None:
    assert compare(session, WITHOUT_POSITION, AS_TABLE, ORDERED)[0] >= 3


@only_in_soak
@pytest.mark.parametrize("entity", [("t",), ("public", "t"), ("shop", "t")])
def test_messages_of_other_tables(session: SparkSession, entity: tuple[str, ...]) -> None:
    layout = DebeziumLayout(table="shop.t", entity=entity, ordered=False)
    chosen = [m for m in ODD if m[0] and "source" in m[0]]
    assert compare(session, chosen, AS_TABLE, layout)[0] > 15


def test_messages_without_a_schema(session: SparkSession) -> None:
    """Odd messages, odd values in each column, random rows, and what PostgreSQL's connector sent."""
    chance = random.Random(the_seed())  # noqa: S311 - no secret
    names = [name for name in TYPES if name not in ("__op", "sent", "renamed")]
    pairs = [(name, token) for name in names for token in (*TOKENS, *MORE_TOKENS)]
    chosen = pairs if soaking() else chance.sample(pairs, 400)
    messages = [*ODD, *captured_in("postgres-json-3-partitions")]
    messages += [of_tokens({"id": "1"} | {name: token}, "c", chance) for name, token in chosen]
    messages += [random_message(chance, names[1:], token_of) for _ in range(len(chosen))]
    read, refused = compare(session, messages, AS_TABLE)
    assert read > len(chosen) * 0.7, "else nothing was compared"
    assert refused > 50


def captured_in(name: str) -> list[Message]:
    """What one of Debezium's connectors sent."""
    text = (FIXTURES.parent / f"streams/{name}.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    return [(r["value"], r["key"]) for r in records if r["topic"].endswith(".orders")]


def of_tokens(row: dict[str, str], op: str, chance: random.Random, beginning: str = "") -> Message:
    """A message whose row has values that are given as JSON."""
    text = "{" + ",".join(f"{json.dumps(name)}:{token}" for name, token in row.items()) + "}"
    images = f'"before":{text},"after":null' if op == "d" else f'"before":null,"after":{text}'
    lsn, time = chance.randint(1, 10**12), chance.randint(1, 2 * 10**15)
    if not beginning and chance.random() < 0.2:
        return f'{text[:-1]},"__op":"{op}","__lsn":{lsn},"__source_ts_us":{time}}}', None
    at = json.dumps(PG | {"lsn": lsn, "ts_us": time})
    body = f'{{{images},"source":{at},"op":"{op}","ts_ms":5}}'
    key = f'{{"id":{row["id"]}}}' if chance.random() < 0.8 else None
    return f"{beginning}{body}{'}' if beginning else ''}", key


def random_message(
    chance: random.Random,
    names: Sequence[str],
    token: Callable[[str, random.Random], str],
    beginning: str = "",
) -> Message:
    """A message with values of their own kind in most columns."""
    chosen = chance.sample(list(names), chance.randint(0, len(names)))
    row = {"id": str(chance.randint(1, 9))} | {name: token(name, chance) for name in chosen}
    return of_tokens(row, chance.choice("rccuudd"), chance, beginning)


def token_of(name: str, chance: random.Random) -> str:
    """A value as Debezium writes it without a schema; at times an odd one."""
    if chance.random() < 0.05:
        return chance.choice(TOKENS)
    whole = chance.randint(-(10 ** chance.randint(0, 9)), 10 ** chance.randint(0, 9))
    day = f"{chance.randint(1, 9999):04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    time = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"
    found = {
        "n": str(whole), "d": f'"{whole % 10**6}.{chance.randint(0, 99):02}"',
        "x": repr(whole * chance.random()), "f": repr(round(chance.random() * 1000, 4)),
        "yes": chance.choice(["true", "false"]), "day": str(whole % 10**5), "at": f'"{day}T{time}Z"',
        "local": f'"{day}T{time}"', "raw": json.dumps(wire(whole)),
    }.get(name)  # fmt: skip
    return found if found is not None else json.dumps(chance.choice(["", "a", "\u00e9", "1.5", "x" * 30]))


@cache
def described() -> tuple[dict[str, str], str]:
    """A column for each of Debezium's types, with a value; and how a message with this schema begins."""
    facts = {name: json.dumps(value) for name, _, value, _ in every_postgres()}
    more = {f"as_number_{name}": json.dumps(value) for name, value in AS_NUMBERS.items() if name != "id"}
    fields = [field | {"field": name} for name, field, _, _ in every_postgres()]
    fields += [f | {"field": f"as_number_{f['field']}"} for f in fields if f["field"] in AS_NUMBERS]
    times = "io.debezium.time."
    fields += [
        {"field": "iso_day", "type": "string", "name": f"{times}IsoDate"},
        {"field": "iso_time", "type": "string", "name": f"{times}IsoTimestamp"},
        {"field": "nano_clock", "type": "int64", "name": f"{times}NanoTime"},
        {"field": "byte", "type": "int8"}, {"field": "price", **decimal_of("4", "38")},
    ]  # fmt: skip
    more |= {
        "iso_day": '"2026-01-02Z"', "iso_time": '"2026-01-02T03:04:05.678Z"', "nano_clock": "54796945104999",
        "byte": "-128", "price": json.dumps(wire(-(10**37))),
    }  # fmt: skip
    text = json.dumps(json.loads(with_schema(fields, {}, PG)), separators=(",", ":"))
    return facts | more, text[: text.index(',"payload":') + len(',"payload":')]


def flattened(text: str) -> Message:
    """A message with its schema, as the transform flattens it."""
    whole = json.loads(text)
    (after,) = (field for field in whole["schema"]["fields"] if field["field"] == "after")
    own = {"__op": "string", "__lsn": "int64", "__source_ts_us": "int64"}
    fields = after["fields"] + [{"field": name, "type": kind} for name, kind in own.items()]
    told = whole["payload"]["source"]
    row = whole["payload"]["after"] | {"__op": "c", "__lsn": told["lsn"], "__source_ts_us": told["ts_us"]}
    value = {"schema": {"type": "struct", "fields": fields}, "payload": row}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False), None


def test_values_with_a_schema(session: SparkSession) -> None:
    """Each odd value in a column of each of Debezium's types, and random rows."""
    chance = random.Random(the_seed())  # noqa: S311 - no secret
    values, beginning = described()
    pairs = [(name, token) for name in values for token in (*TOKENS, *MORE_TOKENS) if name != "id"]
    chosen = pairs if soaking() else chance.sample(pairs, 500)

    def own(name: str, chance: random.Random) -> str:
        return "null" if chance.random() < 0.1 else values[name]

    simple = [name for name in values if values[name][0] not in "[{" and name != "id"]
    messages = [of_tokens({"id": "1", name: values[name]}, "c", chance, beginning) for name in values]
    messages += [of_tokens({"id": "1", name: token}, "u", chance, beginning) for name, token in chosen]
    messages += [random_message(chance, simple, own, beginning) for _ in range(100)]
    messages += [(text.replace(",", ", ", 1) if text else None, key) for text, key in messages[-5:]]
    messages += [flattened(text) for text, _ in messages[: len(values)] if text]
    read, refused = compare(session, messages)
    assert read > 250, "else nothing was compared"
    assert refused > 50


def test_captured_messages(session: SparkSession) -> None:
    """What MariaDB's connector sent."""
    messages = captured_in("mariadb-json-3-partitions")
    kinds = {
        "id": T.LongType(), "amount": T.DecimalType(12, 2), "day": T.DateType(), "raw": T.BinaryType(),
        "placed": T.LongType(),
    }  # fmt: skip
    names = {n for value, _ in messages for n in (json.loads(value or "{}").get("after") or {})}
    read, _ = compare(session, messages, Columns(types=dict.fromkeys(sorted(names), T.StringType()) | kinds))
    assert read > len(messages) / 2


@only_in_soak
def test_captured_messages_in_avro(session: SparkSession) -> None:
    """What Debezium's connector sent through a converter of Avro, as JSON with its schema."""
    registry = ConfluentRegistry(ConfluentRegistryConfig(type="confluent", url="nowhere.invalid"), {})
    reader = RecordReader(registry, "messages", confluent_schemas(), confluent_schemas())
    messages = [(reader.text(r["value"], r["key"]), reader.key(r["key"])) for r in captured("confluent")]
    assert compare(session, messages)[0] > len(messages) / 2


@only_in_soak
def test_messages_of_other_projects(session: SparkSession) -> None:
    """Messages with their schemas, as these projects have captured them."""
    files = [f for f in sorted(FIXTURES.rglob("debezium*")) if f.suffix == ".txt"]
    lines = [line for f in files for line in f.read_text(encoding="utf-8").splitlines()]
    by_key: dict[str, list[Message]] = defaultdict(list)
    for line in lines:
        if line.startswith('{"schema"') and (after := json.loads(line)["payload"].get("after")):
            by_key[next(n for n in after if n[0] != "_")].append((line, None))
    read = sum(compare(session, messages, None, ORDERED, (key,))[0] for key, messages in by_key.items())
    assert read > 0
