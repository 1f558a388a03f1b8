"""A crawl tells what collections hold, proposes tables, and a second one reports what changed."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("secantus", reason="`make test-sources` installs secantusdb")
import yaml
from bson import Int64, ObjectId
from harness.commands import answer, call, refusal
from harness.mongodb import client_of, mongodb_server
from harness.project import ROOT, TemporaryProject

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["answer", "call", "refusal"]

pytestmark = pytest.mark.sources

CODES = ("deu", "eng", "fra", "spa", "ita", "jpn", "ara", "zho", "por", "nld", "pol", "rus", "tur")
SOURCES = {
    name: {
        "type": "mongodb", "database": name, "credentials": "mongo", "path": f"${{globals:landing}}/{name}",
        "sample": 0,
    }
    for name in ("world", "changing", "packages")
}  # fmt: skip
PLANTED = [
    ("changing.added", "the table is new"),
    ("changing.dropped", "the table is gone"),
    ("changing.seen_dropped", "the table is gone"),
    ("changing.seen_added", "the table is new"),
    ("changing.thing", "column inner.added is new: int"),
    ("changing.thing", "column items[].added is new: string"),
    ("changing.thing", "column added is new: struct"),
    ("changing.thing", "column gone is gone: string"),
    ("changing.thing", "column gone_whole is gone: struct"),
    ("changing.thing", "column large is bigint, no longer int"),
    ("changing.thing", "column mixed is number or string, no longer int"),
    ("changing.thing", "column price is double, no longer int"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with mongodb_server() as uri, client_of(uri) as made:
        made.uri = uri
        yield made


@pytest.fixture
def project(tmp_path: Path, client: Any) -> TemporaryProject:
    found = TemporaryProject.make(tmp_path / "p", SOURCES, {})
    host, port = client.address
    found.write("credentials", {"mongo": {"uri": f"mongodb://{host}:{port}/"}}, env="local")
    return found


def country(number: int, rng: random.Random) -> dict[str, Any]:
    """A document of the shape of a well-known list of countries: codes are the names of fields."""

    def names(of: list[str]) -> dict[str, Any]:
        return {code: {"official": f"o {code}", "common": f"c {code}"} for code in of}

    some = rng.sample(CODES, 3)
    return {
        "name": {"common": f"c {number}", "official": f"o {number}", "native": names(some[:2])},
        "currencies": {code.upper(): {"name": code, "symbol": code[0]} for code in some[:1]},
        "languages": {code: f"language {code}" for code in some},
        "translations": names(list(CODES)),
        "idd": {"root": "+1", "suffixes": ["23"]},
        "latlng": [number % 90, number / 3 if number % 3 else number],
        "borders": [],
        "demonyms": {code: {"f": "x", "m": "y"} for code in ("eng", "fra")},
        "landlocked": number % 2 == 0,
        **({"capital": [f"city {number}"]} if number % 10 else {}),
        "title": number if number % 100 == 0 else f"title {number}",
        "updated_at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    }


@pytest.fixture(scope="module")
def world(client: Any) -> None:
    rng = random.Random(1)  # noqa: S311 - made-up data
    client.world.country.insert_many([country(number, rng) for number in range(250)])
    client.world.command("create", "small", viewOn="country", pipeline=[{"$project": {"name": 1}}])


@pytest.mark.usefixtures("world")
def test_kinds_mixed_and_missing_fields_and_maps_are_told(answer: Any) -> None:
    found = {one["name"]: one for one in answer("crawl", "world")["collections"]}
    country = found["world.country"]
    assert (country["rows"], country["looked_at"]) == (250, 250)
    assert country["maps"] == ["currencies", "demonyms", "languages", "name.native", "translations"]
    fields = {field["path"]: field for field in country["fields"]}
    assert fields["title"] == {
        "path": "title", "type": "number or string", "kinds": {"string": 247, "int": 3}, "missing": 0,
        "mixed": True,
    }  # fmt: skip
    assert fields["capital"]["missing"] == 25
    assert fields["borders"]["kinds"] == {"array": 250}
    assert fields["latlng[]"]["kinds"] == {"int": 334, "double": 166}
    assert not fields["latlng[]"]["mixed"]
    assert [f["path"] for f in country["fields"] if f["path"].startswith("translations")] == [
        "translations", "translations{}", "translations{}.official", "translations{}.common",
    ]  # fmt: skip
    assert found["world.small"]["kind"] == "view"
    assert {f["path"] for f in found["world.small"]["fields"]} >= {"_id", "name", "name.native{}.common"}


@pytest.mark.usefixtures("world")
def test_what_is_printed_is_a_tables_yml_that_loads(call: Any, project: TemporaryProject) -> None:
    done = call("crawl", "world")
    assert done.exit_code == 0, done.output
    tables = yaml.safe_load(done.stdout)
    country = tables["world.country"]
    assert country["types"]["name"] == (
        "struct<common:string,official:string,native:map<string,struct<official:string,common:string>>>"
    )
    assert country["types"]["latlng"] == "array<double>"
    assert country["types"]["currencies"] == "map<string,struct<name:string,symbol:string>>"
    assert "borders" not in country["types"]  # arrays that are always empty tell no type
    project.declare(SOURCES, tables)
    assert {row["table"] for row in json.loads(call("tables", "--json").stdout)} >= tables.keys()
    assert "# Mixed: title: 247 string, 3 int" in done.stdout
    assert "# Missing: capital in 25" in done.stdout
    assert "`cursor: updated_at`" in done.stdout


def test_a_second_crawl_reports_exactly_what_was_planted(
    answer: Any, client: Any, project: TemporaryProject
) -> None:
    database = client.changing
    thing = {
        "same": 1, "price": 1, "large": 1, "mixed": 1, "gone": "x", "inner": {"a": 1}, "items": [{"n": 1}],
        "gone_whole": {"a": {"b": 1}, "c": [1]},
    }  # fmt: skip
    database.thing.insert_many([thing | {"_id": ObjectId()} for _ in range(20)])
    for name in ("same", "dropped"):
        database[name].insert_one({"a": name})
    database.command("create", "seen_dropped", viewOn="same", pipeline=[])
    assert answer("crawl", "changing")["changes"] == []
    assert answer("crawl", "changing")["changes"] == []
    database.thing.update_many({}, {"$unset": {"gone": 1, "gone_whole": 1}})
    database.thing.update_one(
        {},
        {
            "$set": {
                "price": 1.5,
                "large": Int64(2**40),
                "mixed": "x",
                "inner.added": 1,
                "added": {"a": {"b": 1}},
            }
        },
    )
    database.thing.update_one({}, {"$set": {"items.0.added": "x"}})
    database.dropped.drop()
    database.seen_dropped.drop()
    database.added.insert_one({"a": 1})
    database.command("create", "seen_added", viewOn="thing", pipeline=[])
    changes = answer("crawl", "changing")["changes"]
    assert sorted((one["table"], one["words"]) for one in changes) == sorted(PLANTED)
    assert len(changes) == 12
    assert answer("crawl", "changing")["changes"] == []


@pytest.mark.usefixtures("world")
def test_of_many_documents_the_oldest_and_the_newest_are_looked_at(
    answer: Any, project: TemporaryProject
) -> None:
    project.declare({"world": SOURCES["world"] | {"sample": 10}}, {})
    looked = {one["name"]: one["looked_at"] for one in answer("crawl", "world")["collections"]}
    assert looked == {"world.country": 10, "world.small": 10}
    looked = {one["name"]: one["looked_at"] for one in answer("crawl", "world", "--all")["collections"]}
    assert looked == {"world.country": 250, "world.small": 250}


@pytest.mark.usefixtures("world")
def test_a_flattened_table_is_proposed_by_its_own_columns(answer: Any, project: TemporaryProject) -> None:
    project.declare({"world": SOURCES["world"] | {"document": "flatten"}}, {})
    proposed = {one["name"]: one["proposed"] for one in answer("crawl", "world")["collections"]}
    types = proposed["world.country"]["types"]
    assert types["name__common"] == "string"
    assert types["name__native"] == "map<string,struct<official:string,common:string>>"
    assert types["idd__suffixes"] == "array<string>"


@pytest.mark.usefixtures("world")
def test_versions_of_a_crawl_are_listed_and_discovery_leaves_them_alone(
    answer: Any, project: TemporaryProject
) -> None:
    answer("crawl", "world")
    listed = answer("discovered")
    assert {(one["name"], one["version"], one["status"]) for one in listed} == {
        ("world.country", 1, "present"), ("world.small", 1, "present"),
    }  # fmt: skip
    project.write("discovery", {"places": [{"path": str(project.landing)}]})
    project.run("discovery")
    assert {one["status"] for one in answer("discovered")} == {"present"}


def test_a_source_that_cannot_be_crawled_is_named(refusal: Any, project: TemporaryProject) -> None:
    error = refusal("crawl", "wrld")
    assert error["code"] == "UNKNOWN_NAME"
    assert "'world'" in error["message"]
    project.write(
        "credentials", {"mongo": {"uri": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"}}, env="local"
    )
    error = refusal("crawl", "world")
    assert error["code"] == "SOURCE_UNREACHABLE"


def test_declared_tables_of_a_database_are_crawled_by_its_catalog(
    answer: Any, call: Any, project: TemporaryProject, postgres: Any
) -> None:
    postgres.script("CREATE TABLE crawled (id int PRIMARY KEY, name text, gone text);")
    connection = {"host": "127.0.0.1", "port": postgres.port, "database": "postgres", "sslmode": "disable"}
    shop = {
        "type": "sql",
        "dialect": "postgresql",
        "connection": connection,
        "credentials": "shop",
        "path": "x",
    }
    project.declare({"shop": shop}, {"shop.crawled": {"source": "shop", "keys": ["id"]}})
    project.write("credentials", {"shop": {"user": "puller", "password": "pulled-well"}}, env="local")
    (found,) = answer("crawl", "shop")["collections"]
    assert found["proposed"]["keys"] == ["id"]
    assert [field["path"] for field in found["fields"]] == ["id", "name", "gone"]
    postgres.script("ALTER TABLE crawled DROP COLUMN gone; ALTER TABLE crawled ADD COLUMN added date;")
    changes = answer("crawl", "shop")["changes"]
    assert sorted(one["words"] for one in changes) == [
        "column added is new: date",
        "column gone is gone: text",
    ]
    assert "shop.crawled:" in call("crawl", "shop").stdout


def _member(package: str, version: str, path: str) -> Any:
    """A file of a package of npm, fetched by npm's own client; nothing of it is in this repository."""
    npm = shutil.which("npm")
    folder = ROOT / ".cache" / "npm"
    archive = folder / f"{package}-{version}.tgz"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        packed = npm and subprocess.run(
            [npm, "pack", f"{package}@{version}", "--silent"], cwd=folder, capture_output=True, check=False
        )
        if not packed or packed.returncode:
            pytest.skip(f"{package} cannot be fetched: npm is not there, or does not reach its registry")
    with tarfile.open(archive) as opened:
        held = opened.extractfile(f"package/{path}")
        assert held is not None
        return json.load(held)


def test_known_packages_have_the_known_answers(answer: Any, client: Any) -> None:
    client.packages.country.insert_many(_member("world-countries", "5.1.0", "countries.json"))
    client.packages.movie.insert_many(_member("vega-datasets", "3.2.1", "data/movies.json"))
    found = {one["entity"]: one for one in answer("crawl", "packages")["collections"]}
    country, movie = ({f["path"]: f for f in found[name]["fields"]} for name in ("country", "movie"))
    assert found["country"]["maps"] == ["currencies", "demonyms", "languages", "name.native", "translations"]
    assert found["country"]["looked_at"] == 250
    assert country["latlng[]"]["kinds"] == {"int": 287, "double": 213}
    assert movie["Title"]["kinds"] == {"string": 3191, "int": 9, "null": 1}
    assert movie["Title"]["mixed"]
