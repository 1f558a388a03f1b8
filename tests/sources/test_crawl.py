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
from harness.jdbc import by_jdbc
from harness.mongodb import client_of, mongodb_server
from harness.project import ROOT, TemporaryProject
from harness.pulled import CREDENTIALS, Shop

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
NAMES = ("thing", "renamed", "other", "dropped", "added", "some")
"""The tables and views of the tests of databases."""
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


@pytest.mark.parametrize("dialect", ["postgresql", "mariadb", "jdbc"])
def test_a_database_is_crawled_by_its_catalog(
    answer: Any, call: Any, project: TemporaryProject, shops: dict[str, Shop], dialect: str
) -> None:
    """All tables and views that the user may read, declared or not; what is printed loads."""
    shop = shops["mariadb" if dialect == "mariadb" else "postgresql"]
    place = f"crawled_{dialect}"
    shop.script(f"CREATE {'SCHEMA' if shop.is_postgres else 'DATABASE'} {place};")
    shop.script(f"CREATE TABLE {place}.thing (id int PRIMARY KEY, name text, gone text);")
    shop.script(f"CREATE TABLE {place}.renamed (id int); CREATE TABLE {place}.dropped (id int);")
    shop.script(f"CREATE VIEW {place}.some AS SELECT id, name FROM {place}.thing;")
    source = (by_jdbc if dialect == "jdbc" else Shop.source)(shop, "x", credentials="shop")
    if not shop.is_postgres:
        shop.script(f"GRANT SELECT ON {place}.* TO 'puller'@'127.0.0.1';")
        source["connection"] = source["connection"] | {"database": place}
    name = "{}" if not shop.is_postgres else f"{place}.{{}}"
    things = {"shop.things": {"source": "shop", "entity": name.format("thing"), "keys": ["id"]}}
    project.declare({"shop": source}, things)
    project.write("credentials", {"shop": CREDENTIALS}, env="local")

    def crawled() -> dict[str, Any]:
        found = answer("crawl", "shop")
        return {"changes": found["changes"]} | {
            one["entity"]: one for one in found["collections"] if one["entity"] in map(name.format, NAMES)
        }

    found = crawled()
    assert found.keys() == {"changes", *map(name.format, ("thing", "renamed", "dropped", "some"))}
    thing, view = found[name.format("thing")], found[name.format("some")]
    assert (thing["name"], thing["kind"], thing["proposed"]["keys"]) == ("shop.things", "table", ["id"])
    assert [field["path"] for field in thing["fields"]] == ["id", "name", "gone"]
    assert (view["kind"], [field["path"] for field in view["fields"]]) == ("view", ["id", "name"])
    assert crawled()["changes"] == []
    shop.script(f"DROP VIEW {place}.some; ALTER TABLE {place}.thing DROP COLUMN gone, ADD COLUMN added date;")
    shop.script(f"ALTER TABLE {place}.renamed RENAME TO {'other' if shop.is_postgres else place + '.other'};")
    shop.script(f"DROP TABLE {place}.dropped; CREATE TABLE {place}.added (id int);")
    changes = {
        (one["table"].removeprefix("shop.").removeprefix(f"{place}_"), one["words"])
        for one in crawled()["changes"]
    }
    renamed = {("renamed", "the table is gone"), ("other", "the table is new")}
    if dialect == "postgresql":  # it tells that the table is the same
        renamed = {("other", f"the table was shop.{place}_renamed")}
    assert changes == renamed | {
        ("things", "column added is new: date"), ("things", "column gone is gone: text"),
        ("dropped", "the table is gone"), ("some", "the table is gone"), ("added", "the table is new"),
    }  # fmt: skip
    tables = yaml.safe_load(call("crawl", "shop").stdout)
    project.declare({"shop": source}, tables)
    assert {row["table"] for row in json.loads(call("tables", "--json").stdout)} >= tables.keys()


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
