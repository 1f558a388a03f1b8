"""Pulls that are killed at each of their points, one and two at a time, on a disk and in S3.

In the end each row was landed once, each manifest is as it was first sealed, each file that one names is as
it says, and no other file is there.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fsspec
import pyarrow.parquet as pq
import pytest
from harness.aws import LANDING, moto_aws
from harness.kills import kill_at
from harness.project import TemporaryProject, environment
from harness.pulled import CREDENTIALS, Shop, make_table, run
from harness.soak import only_in_soak, soaking

from kedro_lakehouse.decoders.bson.decoder import DOCUMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.sources

KILLS: Final = 5 * int(os.environ.get("KEDRO_LAKEHOUSE_KILLS") or 1)
"""How many pullers are killed of each kind of source at each place."""
POINTS: Final = ("asked", "planned", "chunk", "landed", "sealed", "any")
MOST: Final = 20
"""So many rounds for each kill that is wanted: in some a puller finds nothing new, and lives."""
OTHERS: Final = ("", "-", "any", "landed", "sealed")
"""What a second puller meets that works beside the first: nothing (there is none), or another end."""
TABLE: Final = "a.killed"


@dataclass
class Source:
    """A source with a table ``killed`` whose rows only become more, and how it is declared."""

    declared: dict[str, Any]
    table: dict[str, Any]
    add: Callable[[int], None]
    rows: Callable[[bytes], list[tuple[int, str]]]
    """The rows of a landed file, each its id and its name."""
    credentials: dict[str, Any] = field(default_factory=dict)
    sap_file: Path | None = None
    pause: float = 1.1
    """So many seconds after a row has come a window holds it."""
    overlaps: bool = False
    """Whether windows overlap: it cannot say which transactions are open."""
    longest: float = 0.25
    """Seconds within which a puller is killed at some moment."""


def columns_of(content: bytes, *names: str) -> list[tuple[Any, ...]]:
    found = pq.read_table(io.BytesIO(content))
    return list(zip(*(found[name].to_pylist() for name in names), strict=True))


@contextmanager
def of_database(dialect: str, _: Path, request: pytest.FixtureRequest) -> Iterator[Source]:
    shop: Shop = request.getfixturevalue("shops")[dialect]
    shop.script("DROP TABLE IF EXISTS killed;")
    make_table(shop, "killed")
    connection = shop.connect()

    def add(number: int) -> None:
        run(connection, f"INSERT INTO killed VALUES ({number}, 'n{number}', {shop.now})")

    pull = {"mode": "incremental", "cursor": "updated_at"}
    yield Source(
        shop.source(""), {"pull": pull}, add, lambda file: columns_of(file, "id", "name"), CREDENTIALS
    )
    connection.close()


@contextmanager
def of_jdbc(_: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Source]:
    """PostgreSQL as a database that has no dialect: each puller starts a Spark of its own."""
    from harness.jdbc import by_jdbc

    with of_database("postgresql", folder, request) as source:
        shop: Shop = request.getfixturevalue("shops")["postgresql"]
        pull = source.table["pull"] | {"late": {"overlap": "1 s"}}
        yield replace(source, declared=by_jdbc(shop, ""), table={"pull": pull}, overlaps=True, longest=8.0)


@contextmanager
def of_api(_: str, __: Path, ___: pytest.FixtureRequest) -> Iterator[Source]:
    from harness.rest_api import RestApi, rest_api

    with rest_api(RestApi([], paging="cursor", now=1_800_000_000.0)) as api:

        def add(number: int) -> None:
            at = (api.now or 0) + 10
            row = {"id": number, "name": f"n{number}", "updated_at": str(int(at))}
            api.rows = [*api.rows, json.dumps(row)]
            api.changed = {**api.changed, number: at}
            api.now = at + 60

        declared = {
            "type": "rest", "base_url": f"{api.address}/v1", "records": "data.items", "rate": "1000/s",
            "paging": {"type": "cursor", "next": "meta.next", "parameter": "after"},
            "window": {"from": "since", "to": "before", "format": "unix"},
        }  # fmt: skip
        pull = {"mode": "incremental", "cursor": "updated_at"}
        table = {"pull": pull, "types": {"id": "int"}}

        def rows(content: bytes) -> list[tuple[int, str]]:
            return [(one["id"], one["name"]) for one in map(json.loads, content.splitlines())]

        yield Source(declared, table, add, rows, pause=0, overlaps=True)


@contextmanager
def of_mongodb(_: str, __: Path, ___: pytest.FixtureRequest) -> Iterator[Source]:
    pytest.importorskip("secantus", reason="`make test-sources` installs secantusdb")
    import bson
    from harness.mongodb import client_of, mongodb_server

    with mongodb_server() as uri, client_of(uri) as client:

        def add(number: int) -> None:
            now = dt.datetime.now(dt.UTC)
            client.shop.killed.insert_one({"_id": number, "name": f"n{number}", "updated_at": now})

        def rows(content: bytes) -> list[tuple[int, str]]:
            documents = [bson.decode(raw) for (raw,) in columns_of(content, DOCUMENT)]
            return [(one["_id"], one["name"]) for one in documents]

        declared = {"type": "mongodb", "database": "shop"}
        table = {"keys": ["_id"], "pull": {"mode": "incremental", "cursor": "updated_at"}}
        yield Source(declared, table, add, rows, {"uri": uri}, overlaps=True)


@contextmanager
def of_sap(_: str, folder: Path, __: pytest.FixtureRequest) -> Iterator[Source]:
    pytest.importorskip("pyrfc", reason="`make test-sources` installs the extra sap")
    file, held = folder / "sap.json", list[dict[str, str]]()

    def add(number: int) -> None:
        held.append({"ID": f"{number:010}", "NAME": f"n{number}"})
        answer = dt.datetime.now(dt.UTC).strftime("Date: %Y%m%d   Time: %H%M%S")
        file.write_text(json.dumps({"table": "ZKILLED", "rows": held, "answer": answer}), encoding="utf-8")

    def rows(content: bytes) -> list[tuple[int, str]]:
        return [(int(number), name) for number, name in columns_of(content, "ID", "NAME")]

    connection = {"ashost": "sap.example.com", "sysnr": "00", "client": "100"}
    table = {"entity": "ZKILLED", "keys": ["ID"], "pull": {"fields": ["NAME"]}}
    secret = {"user": "reader", "passwd": "of-the-tests"}
    yield Source({"type": "sap", "connection": connection}, table, add, rows, secret, file, pause=0)


KINDS: Final[dict[str, Any]] = {
    "postgresql": of_database, "mariadb": of_database, "jdbc": of_jdbc, "rest": of_api, "mongodb": of_mongodb,
    "sap": of_sap,
}  # fmt: skip


CASES: Final = [(kind, "disk") for kind in KINDS if kind != "jdbc"] + [("postgresql", "s3")]
IN_SOAK: Final = [
    pytest.param(*case, marks=only_in_soak)
    for case in [(kind, "s3") for kind in KINDS if kind not in ("postgresql", "jdbc")] + [("jdbc", "disk")]
]


@contextmanager
def place_on(store: str, folder: Path) -> Iterator[str]:
    """Where pulls land."""
    if store == "disk":
        yield str(folder / "landing")
        return
    with moto_aws():
        yield f"s3://{LANDING}/pulled"


@contextmanager
def pullers(project: TemporaryProject, source: Source) -> Iterator[Callable[[list[str]], list[int]]]:
    """Gives what lets pullers work, each until its point, and says how each ended."""
    words = [str(Path(__file__).with_name("kill_pulls.py")), str(project.path), TABLE]
    words += [str(source.longest), *([str(source.sap_file)] if source.sap_file else [])]
    errors = project.path / "pullers.txt"
    with (
        errors.open("w") as log,
        subprocess.Popen(
            [sys.executable, *words], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=log, text=True,
        ) as process,
    ):  # fmt: skip
        given, answers = process.stdin, process.stdout
        assert given is not None
        assert answers is not None

        def pull(points: list[str]) -> list[int]:
            given.write(json.dumps(points) + "\n")
            given.flush()
            ended: list[int] = json.loads(answers.readline() or "[]")
            assert set(ended) <= {0, -9}, errors.read_text()[-3000:]
            assert len(ended) == len(points)
            return ended

        yield pull
        given.close()


def manifests_in(place: str) -> dict[str, bytes]:
    """The sealed manifests, by their names; beside them may lie what a kill left unsealed."""
    fs, folder = fsspec.core.url_to_fs(f"{place}/_manifests/{TABLE}")
    fs.invalidate_cache()
    names = [name for name in fs.find(folder) if re.fullmatch(r"\d+\.json", name.rpartition("/")[2])]
    return {name: fs.cat_file(name) for name in sorted(names)}


def landed_in(place: str) -> set[str]:
    """The files beside the manifests, by their paths below a place."""
    fs, folder = fsspec.core.url_to_fs(place)
    fs.invalidate_cache()
    found = {name.removeprefix(f"{folder}/") for name in fs.find(folder)}
    return {name for name in found if not name.startswith("_manifests/")}


def read_named(place: str, manifest: dict[str, Any]) -> list[bytes]:
    """The files of a manifest, which are what it says."""
    fs, folder = fsspec.core.url_to_fs(place)
    found = [fs.cat_file(f"{folder}/{file['path']}") for file in manifest["files"]]
    for content, file in zip(found, manifest["files"], strict=True):
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["size"], file["sha256"])
    return found


@pytest.mark.parametrize(("kind", "store"), [*CASES, *IN_SOAK])
def test_each_row_is_landed_once_and_no_half_pull_is_listed(
    kind: str, store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with place_on(store, tmp_path) as place, KINDS[kind](kind, tmp_path, request) as source:
        more = {"path": place} | ({"credentials": "s"} if source.credentials else {})
        table = {"source": "s", "entity": "killed", "keys": ["id"]} | source.table
        project = TemporaryProject.make(tmp_path / "project", {"s": source.declared | more}, {TABLE: table})
        project.write("credentials", {"s": source.credentials}, env="local")
        killed, number, sealed, reached = 0, 0, dict[str, bytes](), set[str]()
        rounds = zip(itertools.cycle(POINTS), itertools.cycle(OTHERS), strict=False)
        with pullers(project, source) as pull:
            while killed < KILLS or reached != {*POINTS}:
                assert number < MOST * KILLS, reached
                source.add(number := number + 1)
                points = [point for point in next(rounds) if point]
                ended = [point for point, status in zip(points, pull(points), strict=True) if status < 0]
                killed, reached = killed + len(ended), reached.union(ended)
                now = manifests_in(place)
                assert {name: now.get(name) for name in sealed} == sealed
                for name in now.keys() - sealed.keys():
                    read_named(place, json.loads(now[name]))
                sealed = now
            source.add(number := number + 1)
            time.sleep(source.pause)
            assert pull(["-"]) == [0]
        found = [json.loads(content) for content in manifests_in(place).values()]
        whole = found[-1:] if found[-1]["mode"] == "full" else found
        rows = [
            row for manifest in whole for file in read_named(place, manifest) for row in source.rows(file)
        ]
        expected = {n: f"n{n}" for n in range(1, number + 1)}
        assert sorted(set(rows)) == sorted(expected.items())
        assert source.overlaps or len(rows) == number
        named = {file["path"] for manifest in found for file in manifest["files"]}
        assert landed_in(place) == named
        print(f"{kind}, {store}: {killed} killed, {len(found)} pulls")  # noqa: T201
        if (soaking() or kind == "postgresql") and source.sap_file is None and store == "disk":
            kill_at(project, {TABLE: ("published", "ingestion")})
            project.run("ingestion", "cdc_merge")
            (key,) = table["keys"]
            assert {row[key]: row["name"] for row in project.rows(TABLE)} == expected
            assert len(project.rows(f"{TABLE}_changes")) == number
