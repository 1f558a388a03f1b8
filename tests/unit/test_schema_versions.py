"""Which versions of a schema fit a mode, by Avro's rules; and that the registry is asked once a schema."""

from __future__ import annotations

import base64
import itertools
import json
import logging
import warnings
from typing import TYPE_CHECKING, Any, get_args

import boto3
import pytest
from harness.avro import (
    Double,
    confluent_schemas,
    confluent_subjects,
    encoded,
    glue_schemas,
    registry,
)
from moto.server import ThreadedMotoServer

from kedro_lakehouse.config.registries import ConfluentRegistryConfig, GlueRegistryConfig
from kedro_lakehouse.config.sources import Compatibility, KafkaSourceConfig
from kedro_lakehouse.errors import SourceUnreachableError
from kedro_lakehouse.ops.schemas import KeptSchemas
from kedro_lakehouse.schema_registries.base import SchemaVersion
from kedro_lakehouse.schema_registries.compatibility import changes_between, misfits, unreadable
from kedro_lakehouse.schema_registries.confluent import ConfluentRegistry
from kedro_lakehouse.schema_registries.glue import GlueRegistry
from kedro_lakehouse.sources.schemas import TopicSchemas

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.unit


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def moment(unit: str) -> dict[str, Any]:
    return {"type": "long", "logicalType": f"timestamp-{unit}"}


ID = field("id", "long")
NOTE = field("a", ["null", "string"], default=None)
ONE, TWO = (record(*(field(n, "int") for n in names), name="N") for names in ("q", "qw"))
PAIRS: dict[str, tuple[Any, Any, bool]] = {
    "a nullable field is added": (record(ID, NOTE), record(ID), True),
    "a required field is added": (record(ID, field("a", "string")), record(ID), False),
    "a required field with a default is added": (
        record(ID, field("a", "string", default="")), record(ID), True,
    ),
    "a field is dropped": (record(ID), record(ID, field("a", "string")), True),
    "int to long": (record(ID), record(field("id", "int")), True),
    "long to int": (record(field("id", "int")), record(ID), False),
    "long to double": (record(field("id", "double")), record(ID), True),
    "string to bytes": (record(field("x", "bytes")), record(field("x", "string")), True),
    "string to long": (record(field("x", "long")), record(field("x", "string")), False),
    "a union is widened": (
        record(field("x", ["null", "string", "long"])), record(field("x", ["null", "string"])), True,
    ),
    "a union is narrowed": (
        record(field("x", ["null", "string"])), record(field("x", ["null", "string", "long"])), False,
    ),
    "what was required may be null": (
        record(field("x", ["null", "string"])), record(field("x", "string")), True,
    ),
    "what might be null is required": (
        record(field("x", "string")), record(field("x", ["null", "string"])), False,
    ),
    "a symbol that the reader lacks": (
        record(field("e", enum("A"))), record(field("e", enum("A", "B"))), False,
    ),
    "the same, with the enum's default": (
        record(field("e", enum("A", default="A"))), record(field("e", enum("A", "B"))), True,
    ),
    "renamed with an alias": (
        record(field("b", "string", aliases=["a"])), record(field("a", "string")), True,
    ),
    "a nested record gets a required field": (record(field("n", TWO)), record(field("n", ONE)), False),
    "so does one that may be null": (
        record(field("n", ["null", TWO])), record(field("n", ["null", ONE])), False,
    ),
    "items are widened": (
        record(field("l", {"type": "array", "items": "long"})),
        record(field("l", {"type": "array", "items": "int"})), True,
    ),
    "another size of fixed": (
        record(field("f", {"type": "fixed", "name": "F", "size": 4})),
        record(field("f", {"type": "fixed", "name": "F", "size": 8})), False,
    ),
    "another name of the record": (record(ID, name="S"), record(ID), False),
    "another scale": (record(field("d", decimal(14, 3))), record(field("d", decimal(12, 2))), False),
    "another scale, nullable": (
        record(field("d", ["null", decimal(14, 3)])), record(field("d", ["null", decimal(12, 2)])), False,
    ),
    "another scale inside": (
        record(field("n", record(field("d", decimal(9, 1)), name="N"))),
        record(field("n", record(field("d", decimal(9, 2)), name="N"))), False,
    ),
    "another scale of items": (
        record(field("l", {"type": "array", "items": decimal(9, 1)})),
        record(field("l", {"type": "array", "items": decimal(9, 2)})), False,
    ),
    "more digits": (record(field("d", decimal(14, 2))), record(field("d", decimal(12, 2))), True),
    "fewer digits": (record(field("d", decimal(12, 2))), record(field("d", decimal(14, 2))), False),
    "another unit of time": (
        record(field("t", moment("micros"))), record(field("t", moment("millis"))), False,
    ),
}  # fmt: skip
"""What the Avro specification says of a reader and a writer: whether the one reads what the other wrote."""


@pytest.mark.parametrize("label", PAIRS)
def test_a_reader_reads_a_writer_by_the_specification(label: str) -> None:
    reader, writer, expected = PAIRS[label]
    assert (not unreadable(json.dumps(reader), json.dumps(writer))) is expected


def test_schemas_of_connectors_are_compared_without_a_warning() -> None:
    texts = [*confluent_schemas().values(), *glue_schemas().values()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one, other in itertools.product(texts, texts):
            unreadable(one, other)


def lineage(*schemas: Any) -> list[SchemaVersion]:
    return [SchemaVersion(number=n, identity=str(n), text=json.dumps(s)) for n, s in enumerate(schemas, 1)]


MOVIE = record(field("movie_id", "int"), field("title", ["null", "string"], default=None))
REQUIRED = record(*MOVIE["fields"], field("COUNTRY", "string"))
NULLABLE = record(*MOVIE["fields"], field("COUNTRY", ["null", "string"], default=None))


def test_a_required_field_without_a_default_is_not_backward() -> None:
    found = misfits(lineage(MOVIE, REQUIRED), "BACKWARD")
    assert list(found) == [2]
    assert found[2].endswith("cannot read version 1: reader field missing default value: COUNTRY")
    for mode, expected in {"FORWARD": [], "FULL": [2], "BACKWARD_TRANSITIVE": [2], "NONE": []}.items():
        assert list(misfits(lineage(MOVIE, REQUIRED), mode)) == expected, mode  # type: ignore[arg-type]
    assert not misfits(lineage(MOVIE, NULLABLE), "FULL_TRANSITIVE")


def test_an_alter_that_changes_a_scale_fits_no_mode() -> None:
    """The four versions that a connector registered after one ALTER each."""
    (texts,) = [
        [confluent_schemas()[one] for one in ids]
        for subject, ids in confluent_subjects().items()
        if subject.endswith("-value")
    ]
    versions = [SchemaVersion(number=n, identity=str(n), text=text) for n, text in enumerate(texts, 1)]
    assert changes_between(texts[1], texts[2]) == [
        "removed before.note string or null",
        "before.amount: decimal(12,2) or null became decimal(14,3) or null",
    ]
    for mode in ("BACKWARD", "FORWARD", "FULL"):
        assert list(misfits(versions, mode)) == [3, 4], mode  # type: ignore[arg-type]
    assert not misfits(versions, "NONE")
    assert not misfits(versions[:2], "FULL_TRANSITIVE")


def test_a_version_is_compared_with_those_that_fit() -> None:
    also = record(*REQUIRED["fields"], NOTE)
    found = misfits(lineage(MOVIE, REQUIRED, also, NULLABLE), "BACKWARD")
    assert list(found) == [2, 3]  # the third would read the second, which is not used


def test_transitive_means_all_versions_before() -> None:
    versions = lineage(
        record(ID), record(ID, field("a", "string", default="")), record(ID, field("a", "string"))
    )
    assert not misfits(versions, "BACKWARD")
    assert list(misfits(versions, "BACKWARD_TRANSITIVE")) == [3]


POOL = [
    record(ID), record(ID, NOTE), record(ID, field("a", "string")), record(field("id", "int")),
    record(ID, field("a", "string", default="")), record(field("id", "int"), NOTE),
]  # fmt: skip
RULES: dict[str, tuple[bool, bool, bool]] = {
    "BACKWARD": (True, False, False), "BACKWARD_TRANSITIVE": (True, False, True),
    "FORWARD": (False, True, False), "FORWARD_TRANSITIVE": (False, True, True),
    "FULL": (True, True, False), "FULL_TRANSITIVE": (True, True, True), "NONE": (False, False, False),
}  # fmt: skip


def wider(mode: str) -> list[str]:
    """The modes that ask for less."""
    mine = RULES[mode]
    return [
        m for m, r in RULES.items() if m != mode and all(a or not b for a, b in zip(mine, r, strict=True))
    ]


@pytest.mark.parametrize("mode", get_args(Compatibility))
def test_widening_only_brings_versions_back_and_later_ones_change_nothing(mode: Any) -> None:
    for schemas in itertools.permutations(POOL, 4):
        versions = lineage(*schemas)
        found = set(misfits(versions, mode))
        for other in wider(mode):
            assert set(misfits(versions, other)) <= found, (schemas, other)  # type: ignore[arg-type]
        for until in range(1, len(versions)):
            assert set(misfits(versions[:until], mode)) == {n for n in found if n <= until}
        assert set(misfits(versions[::-1], mode)) == found


def test_what_changed_is_told_in_words() -> None:
    old = record(
        ID, field("d", decimal(9, 2)), field("x", "string"), field("n", ONE), field("s", "int", default=1)
    )
    new = record(
        ID, field("d", ["null", decimal(9, 3)]), NOTE, field("n", TWO), field("s", "int", default=2),
        field("e", enum("A")),
    )  # fmt: skip
    assert changes_between(json.dumps(old), json.dumps(new)) == [
        "removed x string",
        "d: decimal(9,2) became decimal(9,3) or null",
        "added a string or null default null",
        "added n.w int without default",
        "s: default 1 became 2",
        "added e enum(A) without default",
    ]


class Store:
    """The rows of ``lake.ops.schemas`` in memory, each commit a list."""

    def __init__(self) -> None:
        self.commits: list[list[dict[str, Any]]] = []

    def read(self, _: str) -> list[dict[str, Any]]:
        return [row for commit in self.commits for row in commit]

    def append(self, _: str, rows: Sequence[dict[str, Any]], *, unless: Sequence[str]) -> None:
        assert unless
        if rows:
            self.commits.append(list(rows))


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def double() -> Iterator[tuple[Double, str]]:
    held = Double({})
    held.register("shop.movies-value", "11", MOVIE)
    held.register("shop.movies-value", "12", REQUIRED)
    held.register("other-value", "11", MOVIE)
    held.schemas["99"] = json.dumps(MOVIE)
    with registry(held) as address:
        yield held, address


def opened(store: Store, address: str, mode: Any = "BACKWARD", topic: str = "shop.movies") -> TopicSchemas:
    """The schemas of a table, as a process finds them that has just begun."""
    config = ConfluentRegistryConfig(type="confluent", url=address)
    return TopicSchemas(
        table="shop.movies", topic=topic, name="main", mode=mode, registry=ConfluentRegistry(config, {}),
        kept=KeptSchemas(store), run_id="r",  # type: ignore[arg-type]
    )  # fmt: skip


FIRST, SECOND = ("value", "11"), ("value", "12")


def test_a_schema_is_written_once_and_needs_no_registry_then(store, double, caplog):
    held, address = double
    schemas = opened(store, address)
    with caplog.at_level(logging.WARNING):
        reader = schemas.reader({SECOND}, "rows")
    assert (list(reader.values), reader.refused) == ([], {SECOND})
    assert "version 2 of shop.movies-value (schema 12) does not fit BACKWARD" in caplog.text
    schemas.keep(7)
    (commit,) = store.commits
    assert [(r["id"], r["version"], r["batch"]) for r in commit] == [("11", 1, None), ("12", 2, 7)]
    assert {r["subject"] for r in commit} == {"shop.movies-value"}
    held.is_away = True
    asked = len(held.asked)
    again = opened(store, address)
    reader = again.reader({FIRST, SECOND}, "rows")
    assert (list(reader.values), reader.refused) == (["11"], {SECOND})
    again.keep(8)
    assert [(r["id"], r["batch"]) for r in store.commits[1]] == [("11", 8)], "its first record came now"
    last = opened(store, address, "NONE")
    assert list(last.reader({FIRST, SECOND}, "rows").values) == ["11", "12"]
    last.keep(9)
    assert (len(store.commits), len(held.asked)) == (2, asked)


def test_the_order_of_arrival_decides_nothing(double):
    _, address = double
    found = []
    for arrivals in ([{FIRST}, {SECOND}], [{SECOND}, {FIRST}], [{FIRST, SECOND}]):
        store, refused = Store(), set()
        for batch, named in enumerate(arrivals, 1):
            schemas = opened(store, address)
            refused |= schemas.reader(named, "rows").refused
            schemas.keep(batch)
        found.append(refused)
    assert found == [{SECOND}] * 3


def test_an_unknown_schema_is_poison_if_the_registry_says_so_and_waits_if_it_is_away(store, double):
    held, address = double
    schemas = opened(store, address)
    reader = schemas.reader({("value", "50")}, "rows")
    assert (reader.values, reader.refused) == ({}, frozenset())
    held.is_away = True
    with pytest.raises(SourceUnreachableError, match="503"):
        schemas.reader({("value", "50")}, "rows")
    schemas.keep(1)
    assert store.commits == []


@pytest.mark.parametrize("lists", [True, False])
def test_a_schema_of_several_subjects_is_looked_up_in_that_of_its_topic(store, double, lists):
    held, address = double
    held.lists = lists
    schemas = opened(store, address)
    schemas.reader({FIRST}, "rows")
    schemas.keep(1)
    assert [r["subject"] for r in store.commits[0]] == ["shop.movies-value"]


def test_a_schema_of_no_subject_is_compared_with_none(store, double):
    held, address = double
    schemas = opened(store, address)
    assert list(schemas.reader({("value", "99")}, "rows").values) == ["99"]
    schemas.keep(1)
    held.is_away = True
    assert list(opened(store, address).reader({("value", "99")}, "rows").values) == ["99"]


def test_another_registry_of_the_same_name_is_another_one(store, double):
    _, address = double
    schemas = opened(store, address)
    schemas.reader({FIRST}, "rows")
    schemas.keep(1)
    with registry(Double({"11": '"string"'})) as other:
        assert list(opened(store, other).reader({FIRST}, "rows").values.values()) == ['"string"']


def test_an_address_is_kept_without_its_user(store, double):
    _, address = double
    config = ConfluentRegistryConfig(type="confluent", url=address.replace("//", "//me:secret@"))
    named = opened(store, address)
    named.registry.place = config.url
    assert "secret" not in named._place


def test_what_a_key_names_is_kept_and_checked_too(store, double):
    held, address = double
    held.register("shop.movies-key", "21", record(ID, name="K"))
    held.register("shop.movies-key", "22", record(ID, field("b", "string"), name="K"))
    schemas = opened(store, address)
    reader = schemas.reader({FIRST, ("key", "22")}, "rows")
    body = encoded(MOVIE, {"movie_id": 1, "title": "x"})
    raw, key = b"\0\0\0\0\x0b" + body, b"\0\0\0\0\x16\x02"
    assert json.loads(str(reader.text(raw))) == {"movie_id": 1, "title": "x"}
    assert reader.text(raw, key) == f"schema=22 base64:{base64.b64encode(raw).decode()}"
    assert reader.text(None, key) is None


def test_glue_tells_versions_without_a_list():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        place = {"region_name": "eu-central-1", "endpoint_url": f"http://{host}:{port}"}
        glue = boto3.client("glue", **place, **keys)
        glue.create_registry(RegistryName="shop")
        where = {"RegistryName": "shop", "SchemaName": "movies"}
        first = glue.create_schema(
            RegistryId={"RegistryName": "shop"}, SchemaName="movies", DataFormat="AVRO",
            Compatibility="NONE", SchemaDefinition=json.dumps(MOVIE),
        )["SchemaVersionId"]  # fmt: skip
        ids = [first] + [
            glue.register_schema_version(SchemaId=where, SchemaDefinition=json.dumps(s))["SchemaVersionId"]
            for s in (REQUIRED, NULLABLE)
        ]
        config = GlueRegistryConfig(type="glue", region="eu-central-1", endpoint=place["endpoint_url"])
        store = Store()
        schemas = TopicSchemas(
            table="shop.movies", topic="movies", name="main", mode="BACKWARD", run_id="r",
            registry=GlueRegistry(config, keys), kept=KeptSchemas(store),  # type: ignore[arg-type]
        )  # fmt: skip
        reader = schemas.reader({("value", one) for one in ids[1:]}, "rows")
        assert (list(reader.values), reader.refused) == ([ids[2]], {("value", ids[1])})
        schemas.keep(1)
        assert [(r["id"], r["version"], r["batch"]) for r in store.commits[0]] == [
            (ids[0], 1, None), (ids[1], 2, 1), (ids[2], 3, 1),
        ]  # fmt: skip
    finally:
        server.stop()


def test_only_a_source_whose_records_name_schemas_has_a_mode() -> None:
    declared = {"type": "kafka", "bootstrap_servers": "here:9092"}
    assert (
        KafkaSourceConfig.model_validate(declared | {"schema_registry": "main"}).compatibility == "BACKWARD"
    )
    with pytest.raises(ValueError, match="only records that name a schema"):
        KafkaSourceConfig.model_validate(declared | {"compatibility": "FULL"})
    with pytest.raises(ValueError, match="FULL_TRANSITIVE"):
        KafkaSourceConfig.model_validate(declared | {"schema_registry": "main", "compatibility": "STRICT"})
