"""Versions of schemas: those that do not fit are quarantined and come back, and the registry may be away."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.avro import Double, encoded, registry
from harness.project import TemporaryProject
from harness.streams import letters

from kedro_lakehouse.errors import SourceUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.kafka import Broker

pytestmark = pytest.mark.streams

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
TYPED = [
    {"name": "movie_id", "type": "int"}, {"name": "at", "type": "long"},
    {"name": "title", "type": ["null", "string"], "default": None},
    {"name": "price", "type": ["null", PRICE], "default": None},
    {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "score", "type": "float"}, {"name": "hit", "type": "boolean"},
    {"name": "poster", "type": "bytes"}, {"name": "tags", "type": {"type": "array", "items": "string"}},
]  # fmt: skip
SEEN = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
VALUES = {
    "at": 1, "title": "Zoë", "price": Decimal("-1234567.05"), "seen": SEEN, "day": date(2026, 1, 2),
    "score": 0.1, "hit": True, "poster": b"\x00\xff", "tags": ["a"],
}  # fmt: skip
FLAT = [
    {"name": "movie_id", "type": "int"}, {"name": "title", "type": "string"},
    {"name": "release_year", "type": "int"}, {"name": "__op", "type": "string"},
    {"name": "__source_ts_ms", "type": "long"}, {"name": "__deleted", "type": "string"},
]  # fmt: skip
COUNTRY = {"name": "COUNTRY", "type": "string"}
NULLABLE = {"name": "COUNTRY", "type": ["null", "string"], "default": None}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Value", "namespace": "db1.movies", "fields": list(fields)}


STARS = {"name": "stars", "type": ["null", "int"], "default": None}
MOVIE, REQUIRED, OPTIONAL = record(*TYPED), record(*TYPED, COUNTRY), record(*TYPED, NULLABLE, STARS)
WIDER = record({"name": "movie_id", "type": "long"}, *TYPED[1:], NULLABLE, STARS)
FILM, FILM_OPTIONAL, FILM_REQUIRED = record(*FLAT), record(*FLAT, NULLABLE), record(*FLAT, COUNTRY)
SCHEMAS = {
    "schemas.movies-value": {1: MOVIE, 2: REQUIRED, 3: OPTIONAL},
    "schemas.films-value": {11: FILM, 12: FILM_OPTIONAL},
    "schemas.reels-value": {13: FILM, 14: FILM_REQUIRED},
}


def movie(schema: int, key: int, **more: Any) -> dict[str, Any]:
    value = {"movie_id": key, **VALUES, **more}
    kinds = {n: s for versions in SCHEMAS.values() for n, s in versions.items()}
    return framed(schema, encoded(kinds[schema], value))


def film(schema: int, key: int, **more: Any) -> dict[str, Any]:
    row = {
        "movie_id": key,
        "title": f"t{key}",
        "release_year": 1990,
        "__source_ts_ms": 1,
        "__deleted": "false",
    }
    return movie(schema, key, **row, __op="c", **more)


def framed(schema: int, body: bytes) -> dict[str, Any]:
    return {"value": b"\0" + schema.to_bytes(4, "big") + body, "partition": 0}


@pytest.fixture(scope="module")
def double() -> Double:
    held = Double({})
    for subject, versions in SCHEMAS.items():
        for number, schema in versions.items():
            held.register(subject, str(number), schema)
    return held


MOVIES = {"keys": ["movie_id"], "order_by": ["at"], "entity": "movies"}
FILMS = {"keys": ["movie_id"], "order_by": ["__source_ts_ms"], "source": "changes"}


@pytest.fixture(scope="module")
def sources(broker: Broker, double: Double) -> Iterator[dict[str, Any]]:
    kafka = {
        "type": "kafka", "bootstrap_servers": broker.address, "topic": "schemas.{entity}",
        "schema_registry": "main",
    }  # fmt: skip
    with registry(double) as address:
        yield {
            "address": address,
            "rows": kafka | {"decoder": "json", "dead_letter_topic": "schemas.{entity}.dead"},
            "all": kafka | {"decoder": "json", "compatibility": "NONE"},
            "changes": kafka,
        }


@pytest.fixture(scope="module")
def project(
    broker: Broker, sources: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> TemporaryProject:
    """Tables of topics that hold records of all versions."""
    tables = {
        "shop.movies": MOVIES | {"source": "rows"}, "shop.all": MOVIES | {"source": "all"},
        "shop.films": FILMS, "shop.reels": FILMS,
    }  # fmt: skip
    declared = {name: found for name, found in sources.items() if name != "address"}
    made = TemporaryProject.make(tmp_path_factory.mktemp("schemas") / "project", declared, tables)
    made.write("registries", {"main": {"type": "confluent", "url": sources["address"]}})
    for topic in ("movies", "movies.dead", "films", "reels"):
        broker.make_topic(f"schemas.{topic}")
    broker.send(
        "schemas.movies",
        [
            movie(3, 1, COUNTRY="DE", stars=3),
            movie(2, 2, COUNTRY="FR"),
            movie(1, 3, price=None),
            movie(2, 1, COUNTRY="GB", at=2),
        ],
    )
    broker.send("schemas.films", [film(11, 1), film(12, 2, COUNTRY="DE"), film(11, 3)])
    broker.send("schemas.reels", [film(13, 1), film(14, 2, COUNTRY="DE"), film(13, 3)])
    assert made.attempt("ingestion", "cdc_merge").failed == {}
    return made


def countries(project: TemporaryProject, table: str) -> dict[int, str | None]:
    return {row["movie_id"]: row.get("COUNTRY") for row in project.rows(table)}


def test_an_added_nullable_field_is_a_column_and_null_in_old_rows(project):
    assert countries(project, "shop.films") == {1: None, 2: "DE", 3: None}
    assert countries(project, "shop.movies") == {1: "DE", 3: None}
    assert countries(project, "shop.all") == {1: "GB", 2: "FR", 3: None}


def test_columns_have_the_types_of_the_schema(project):
    kinds = {name: str(kind) for name, kind in zip(*_schema(project, "shop.movies"), strict=True)}
    expected = {
        "movie_id": "int32", "at": "int64", "title": "string", "price": "decimal128(9, 2)",
        "seen": "timestamp[us, tz=UTC]", "day": "date32[day]", "score": "float", "hit": "bool",
        "poster": "binary", "tags": "string", "COUNTRY": "string", "stars": "int32",
    }  # fmt: skip
    assert {name: kinds[name].replace("large_", "") for name in expected} == expected
    (row,) = [r for r in project.rows("shop.movies") if r["movie_id"] == 1]
    assert {n: row[n] for n in ("price", "seen", "day", "hit", "poster")} == {
        n: VALUES[n] for n in ("price", "seen", "day", "hit", "poster")
    }
    assert (row["score"], json.loads(row["tags"])) == (pytest.approx(0.1), ["a"])


def _schema(project: TemporaryProject, table: str) -> tuple[list[str], list[Any]]:
    found = project.arrow(table).schema
    return found.names, found.types


def test_versions_that_do_not_fit_are_quarantined_and_dead_letters(broker, project):
    rows = project.rows("shop.movies_quarantine")
    unfit = [movie(2, 2, COUNTRY="FR")["value"], movie(2, 1, COUNTRY="GB", at=2)["value"]]
    assert [r["_raw"] for r in rows] == [f"schema=2 base64:{base64.b64encode(v).decode()}" for v in unfit]
    assert {r["_reasons"][0] for r in rows} == {"incompatible_schema"}
    assert [r["_position"]["row"] for r in rows] == [1, 3]
    assert [r["_reasons"][0] for r in project.rows("shop.reels_quarantine")] == ["incompatible_schema"]
    found = letters(broker, "schemas.movies.dead")
    assert [value for value, _ in found] == unfit
    assert {facts["kedro_lakehouse.schema_id"] for _, facts in found} == {b"2"}


def test_a_schema_is_kept_once(project):
    kept = [r for r in project.rows("ops.schemas") if r["table"] == "shop.movies"]
    assert sorted((r["id"], r["version"], r["batch"]) for r in kept) == [
        ("1", 1, 1),
        ("2", 2, 1),
        ("3", 3, 1),
    ]


def test_a_registry_that_is_away_stops_only_what_needs_it(broker, project, double):
    asked = len(double.asked)
    double.is_away = True
    broker.send("schemas.movies", [movie(1, 4), movie(1, 5), movie(2, 6, COUNTRY="ES")])
    assert project.attempt("ingestion", "cdc_merge", namespaces=["shop.movies"]).failed == {}
    assert countries(project, "shop.movies") == {1: "DE", 3: None, 4: None, 5: None}
    assert len(double.asked) == asked, "all schemas were known"
    SCHEMAS["schemas.movies-value"][4] = WIDER
    broker.send("schemas.movies", [movie(4, 2**40, COUNTRY=None, stars=None), movie(1, 7)])
    error = project.attempt("ingestion", "cdc_merge", namespaces=["shop.movies"]).failed["shop.movies"]
    assert isinstance(error, SourceUnreachableError)
    assert "503" in str(error)
    double.is_away = False
    double.register("schemas.movies-value", "4", WIDER)
    assert project.attempt("ingestion", "cdc_merge", namespaces=["shop.movies"]).failed == {}
    assert countries(project, "shop.movies") == {1: "DE", 3: None, 4: None, 5: None, 2**40: None, 7: None}
    assert len(project.rows("shop.movies_quarantine")) == 3


def test_the_command_tells_versions_and_changes(project):
    done = project.command("lakehouse", "schemas", "schemas.movies", "--json")
    assert done.returncode == 0, done.stderr
    found = [one for one in json.loads(done.stdout) if one["table"] == "shop.movies"]
    assert [(one["version"], one["fits"], one["mode"]) for one in found] == [
        (1, True, "BACKWARD"), (2, False, "BACKWARD"), (3, True, "BACKWARD"), (4, True, "BACKWARD"),
    ]  # fmt: skip
    assert "COUNTRY" in found[1]["reason"]
    assert found[1]["changes"] == ["added COUNTRY string without default"]
    assert found[3]["changes"] == ["movie_id: int became long"]
    assert all(one["since"] for one in found)


def test_a_wider_mode_brings_the_records_back_as_if_they_had_never_failed(project, sources, call):
    rows = sources["rows"] | {"compatibility": "NONE"}
    declared = {name: found for name, found in sources.items() if name != "address"} | {"rows": rows}
    project.write("sources", declared)
    replayed = call("quarantine", "shop.movies", "--replay", "--json")
    assert replayed.exit_code == 0, replayed.output
    assert (json.loads(replayed.stdout)["replayed"], json.loads(replayed.stdout)["left"]) == (3, 0)
    assert project.attempt("ingestion", "cdc_merge", namespaces=["shop.all"]).failed == {}
    assert countries(project, "shop.movies")[1] == "GB"
    wanted = {r["movie_id"]: _values(r) for r in project.rows("shop.all")}
    assert {r["movie_id"]: _values(r) for r in project.rows("shop.movies")} == wanted


def _values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def test_schemas_of_many_records_are_found_by_workers(broker, project, double):
    """So many records are not read by the driver."""
    many = {5: MOVIE, 6: REQUIRED}
    for number, schema in many.items():
        double.register("schemas.many-value", str(number), schema)
    SCHEMAS["schemas.many-value"] = many
    broker.make_topic("schemas.many", 2)
    good, bad = movie(5, 1), movie(6, 2, COUNTRY="DE")
    broker.send(
        "schemas.many", [one | {"partition": n % 2} for n, one in enumerate([good] * 12_000 + [bad] * 3)]
    )
    project.write("tables", {"shop.many": MOVIES | {"source": "many", "entity": "many"}})
    kafka = {
        "type": "kafka", "bootstrap_servers": broker.address, "topic": "schemas.{entity}",
        "schema_registry": "main", "decoder": "json",
    }  # fmt: skip
    project.write("sources", {"many": kafka})
    assert project.attempt("ingestion", "cdc_merge").failed == {}
    assert countries(project, "shop.many") == {1: None}
    assert [r["_reasons"][0] for r in project.rows("shop.many_quarantine")] == ["incompatible_schema"] * 3
