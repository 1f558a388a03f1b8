"""The example examples/movies: two databases' movies in Avro, flattened, whose schemas change."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.avro import Double, encoded, registry
from harness.kafka import Connect
from harness.project import ROOT, TemporaryProject
from harness.soak import only_in_soak
from harness.streams import letters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from click.testing import Result
    from harness.databases import MariaDb, Postgres
    from harness.kafka import Broker

pytestmark = [pytest.mark.streams, only_in_soak]

RUN = ("ingestion", "cdc_merge")
DB1, DB2 = "db1.sampledatabase.movies", "db2.sampledatabase.movies"
USE = {"db1": "USE sampledatabase; ", "db2": "SET search_path TO sampledatabase; "}
AS_JSON = {"db1": "JSON_ARRAY", "db2": "json_build_array"}
ROW = ("movie_id", "title", "release_year")
PRINTED = {"name": "COUNTRY", "type": "string"}
"""The field as the published system prints it in its second version: required, without a default."""
PATIENCE = 60


@dataclass
class Example:
    """A connector as the example configures it."""

    name: str
    connector_packages: str

    def connector(self) -> Mapping[str, str]:
        """What the example's file says."""
        text = (ROOT / f"examples/movies/connectors/{self.name}.json").read_text(encoding="utf-8")
        told = json.loads(text)
        return {"name": told["name"], **told["config"]}


@dataclass
class Movies:
    """Two databases with the table ``movies``, their connectors, and the example's project."""

    databases: dict[str, MariaDb | Postgres]
    broker: Broker
    connect: Connect
    double: Double
    project: TemporaryProject
    by_hand: int = 0

    def change(self, *statements: str) -> None:
        """Run statements in both databases."""
        for name, database in self.databases.items():
            database.script(USE[name] + " ".join(f"{s};" for s in statements))

    def held(self, name: str, *columns: str) -> Counter[tuple[Any, ...]]:
        """The rows that a database has."""
        asked = f"SELECT {AS_JSON[name]}({', '.join(columns)}) FROM sampledatabase.movies"
        return Counter(tuple(json.loads(line)) for line in self.databases[name].script(asked))

    def found(self, name: str, *columns: str) -> Counter[tuple[Any, ...]]:
        """The rows of the table, in which a column's name may be in any case."""
        rows = [{k.lower(): v for k, v in row.items()} for row in self.project.rows(f"{name}.movies")]
        return Counter(tuple(row[c] for c in columns) for row in rows)

    def follow(self, *columns: str) -> None:
        """Run until the tables have the databases' rows."""
        end = time.monotonic() + PATIENCE
        while True:
            self.project.run(*RUN)
            different = {name: self.differs(name, columns) for name in self.databases}
            if not any(different.values()):
                return
            assert time.monotonic() < end, f"{different}\n{self.connect.log.read_text()[-3000:]}"

    def differs(self, name: str, columns: tuple[str, ...], by_hand: frozenset[int] = frozenset()) -> Any:
        """The rows that a table lacks, and those that it has too many; None if there are none.

        ``by_hand`` are keys of rows that only the topic has.
        """
        held, found = self.held(name, *columns), self.found(name, *columns)
        assert held
        found -= Counter(row for row in found if row[0] in by_hand)
        return (held - found, found - held) if held != found else None

    def wait(self, records: int) -> None:
        """Wait until both topics have so many records from their connectors."""
        self.broker.wait_for_records(DB1, records + self.by_hand, or_more=True)
        self.broker.wait_for_records(DB2, records, or_more=True)

    def publish(self, identity: str, *rows: dict[str, Any]) -> None:
        """Send rows by hand, as MariaDB's connector would."""
        keys = self.double.subjects[f"{DB1}-key"][-1]
        sent = [
            {
                "key": framed(keys, self.double.schemas[keys], {"movie_id": row["movie_id"]}),
                "value": framed(identity, self.double.schemas[identity], row),
                "partition": 0,
            }
            for row in rows
        ]
        self.broker.send(DB1, sent)
        self.by_hand += len(sent)


def framed(identity: str, schema: str, value: Any) -> bytes:
    return b"\0" + int(identity).to_bytes(4, "big") + encoded(json.loads(schema), value)


@pytest.fixture(scope="module")
def movies(
    broker: Broker, mariadb: MariaDb, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Movies]:
    """Three rows in each database, whose snapshots are in the topics."""
    folder: Path = tmp_path_factory.mktemp("movies")
    mariadb.connector()  # makes Debezium's user
    mariadb.script("CREATE DATABASE sampledatabase")
    postgres.script("CREATE SCHEMA sampledatabase")
    databases: dict[str, MariaDb | Postgres] = {"db1": mariadb, "db2": postgres}
    for name, database in databases.items():
        database.script(f"""
            {USE[name]}
            CREATE TABLE movies(movie_id INT PRIMARY KEY, title VARCHAR(100), release_year INT);
            INSERT INTO movies VALUES (1, 'Zoë', 1990), (2, NULL, 1991), (3, 'Ran', 1985);
        """)
    for topic in (f"{DB1}.dead", f"{DB2}.dead"):
        broker.make_topic(topic)
    project, double = TemporaryProject.of_example("movies", folder / "project"), Double({})
    with pytest.MonkeyPatch.context() as patch, registry(double) as address:
        for name, value in {
            "KAFKA": broker.address, "APICURIO": address, "SCHEMA_REGISTRY": address,
            "MARIADB_HOST": "127.0.0.1", "MARIADB_PORT": str(mariadb.port),
            "MARIADB_USER": "debezium", "MARIADB_PASSWORD": "debezium",
            "POSTGRES_HOST": "127.0.0.1", "POSTGRES_PORT": str(postgres.port),
            "POSTGRES_USER": "postgres", "POSTGRES_PASSWORD": "x", "POSTGRES_DATABASE": "postgres",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        connect = Connect(
            folder / "connect", broker,
            Example("mariadb", mariadb.connector_packages), Example("postgres", postgres.connector_packages),
            avro=True, database_ssl_mode="disable", slot_retry_delay_ms="500",
        )  # fmt: skip
        try:
            yield Movies(databases, broker, connect, double, project)
        finally:
            connect.stop()
            postgres.forget()
            mariadb.script("DROP DATABASE sampledatabase")
            postgres.script("DROP SCHEMA sampledatabase CASCADE")


@pytest.fixture
def project(movies: Movies) -> TemporaryProject:
    """The project that commands are run in."""
    return movies.project


def test_a_snapshot_registers_the_first_schemas(movies: Movies) -> None:
    movies.wait(3)
    movies.follow(*ROW)
    assert {name: len(ids) for name, ids in movies.double.subjects.items()} == {
        f"{topic}-{part}": 1 for topic in (DB1, DB2) for part in ("key", "value")
    }
    columns = {c for row in movies.project.rows("db1.movies") for c in row if not c.startswith("_")}
    assert columns == set(ROW)


def test_a_version_that_fits_is_a_column_and_one_that_does_not_is_quarantined(movies: Movies) -> None:
    movies.change(
        "ALTER TABLE movies ADD COLUMN COUNTRY VARCHAR(40)",
        "INSERT INTO movies VALUES (4, 'Stalker', 1979, 'SU')",
        "UPDATE movies SET title = 'Zoé', COUNTRY = 'FR' WHERE movie_id = 1",
    )
    movies.wait(5)
    subject = f"{DB1}-value"
    assert {name: len(ids) for name, ids in movies.double.subjects.items() if name.endswith("-value")} == {
        subject: 2, f"{DB2}-value": 2,
    }  # fmt: skip
    printed = json.loads(movies.double.schemas[movies.double.subjects[subject][-1]])
    printed["fields"] = [PRINTED if f["name"] == "COUNTRY" else f for f in printed["fields"]]
    identity, version = movies.double.registered(subject, json.dumps(printed))
    assert version == 3
    own = {
        "__op": "c", "__deleted": "false", "__source_ts_ms": 1, "__source_file": "binlog.000009",
        "__source_pos": 4, "__source_row": 0,
    }  # fmt: skip
    by_hand = [
        {"movie_id": key, "title": f"t{key}", "release_year": 1990, "COUNTRY": "DE"} | own
        for key in (901, 902)
    ]
    first = movies.broker.ends(DB1)[0]
    movies.publish(identity, *by_hand)
    movies.change("INSERT INTO movies VALUES (5, 'Ordet', 1955, NULL)")
    movies.wait(6)
    movies.follow(*ROW, "country")

    rows = movies.project.rows("db1.movies_quarantine")
    assert [r["_reasons"][0] for r in rows] == ["incompatible_schema"] * 2
    assert {r["_raw"].partition(" ")[0] for r in rows} == {f"schema={identity}"}
    places = {(f"{DB1}:0", first + n) for n in range(2)}
    assert {(r["_position"]["file"], r["_position"]["row"]) for r in rows} == places
    found = [facts for _, facts in letters(movies.broker, f"{DB1}.dead")]
    prefix = "kedro_lakehouse."
    assert {
        (
            f"{facts[prefix + 'topic'].decode()}:{int(facts[prefix + 'partition'])}",
            int(facts[prefix + "offset"]),
        )
        for facts in found
    } == places
    assert {facts[prefix + "schema_id"].decode() for facts in found} == {identity}
    assert all(json.loads(facts[prefix + "reasons"])[0] == "incompatible_schema" for facts in found)
    assert not movies.project.rows("db2.movies_quarantine")


def test_tables_equal_the_databases_after_deletes_moved_keys_and_restarts(movies: Movies) -> None:
    movies.broker.kill()
    movies.change(
        "DELETE FROM movies WHERE movie_id = 3",
        "UPDATE movies SET movie_id = 20 WHERE movie_id = 2",
    )
    movies.broker.start()
    movies.connect.kill()
    movies.change(
        "UPDATE movies SET release_year = 2000 WHERE movie_id = 20",
        "INSERT INTO movies VALUES (6, 'Playtime', 1967, 'FR')",
    )
    movies.connect.start()
    # A delete has a tombstone, and a moved key is a delete and a row.
    movies.wait(6 + 2 + 3 + 2)
    movies.follow(*ROW, "country")
    assert {row[0] for row in movies.found("db1", *ROW)} == {1, 4, 5, 6, 20}


def test_a_wider_mode_brings_the_records_back(movies: Movies, call: Callable[..., Result]) -> None:
    told = [one for one in json.loads(call("schemas", DB1, "--json").stdout) if one["part"] == "value"]
    assert [(one["version"], one["fits"]) for one in told] == [(1, True), (2, True), (3, False)]
    path = movies.project.path / "conf/base/sources.yml"
    sources = yaml.safe_load(path.read_text(encoding="utf-8"))
    sources["db1"]["compatibility"] = "NONE"
    movies.project.write("sources", sources)
    replayed = call("quarantine", "db1.movies", "--replay", "--json")
    assert replayed.exit_code == 0, replayed.output
    assert (json.loads(replayed.stdout)["replayed"], json.loads(replayed.stdout)["left"]) == (2, 0)
    assert not movies.differs("db1", (*ROW, "country"), frozenset({901, 902}))
    assert movies.found("db1", *ROW, "country")[901, "t901", 1990, "DE"] == 1


def test_a_truncate_is_not_among_flattened_rows(movies: Movies) -> None:
    there = {topic: sum(movies.broker.ends(topic).values()) for topic in (DB1, DB2)}
    movies.change("TRUNCATE TABLE movies", "INSERT INTO movies VALUES (7, 'Close-Up', 1990, 'IR')")
    for topic, records in there.items():
        movies.broker.wait_for_records(topic, records + 1)
