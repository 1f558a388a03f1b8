"""``kedro lakehouse serve`` as a user has it: tokens, a lake that Spark made, maintenance, and its end."""

from __future__ import annotations

import datetime as dt
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness.processes import free_port
from harness.project import TemporaryProject, write_text
from harness.served import Served, ServedLake

from kedro_lakehouse.config.maintenance import ExpireConfig
from kedro_lakehouse.erasure.erase import erase
from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.maintain import maintain_table
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.sources

KEDRO = str(Path(sys.executable).with_name("kedro"))
SOURCES = {
    "shop": {
        "type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv",
        "op_column": "op",
    }
}  # fmt: skip
TABLES: dict[str, Any] = {
    "shop.item": {
        "source": "shop", "keys": ["id"], "order_by": ["n"], "types": {"id": "int", "n": "int"},
        "subject": "name",
    }
}  # fmt: skip
ITEM = TableName("shop", "item")
BASE = "/v1/datasets/shop.item/snapshots"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    """A lake of four batches, of whose snapshots the last two outlive an expiry."""
    made = TemporaryProject.make(tmp_path_factory.mktemp("serve") / "project", SOURCES, TABLES)
    own = {"query": {"output": str(made.path / "results"), "time": "60 s"}, "keep": {"shop.item": 2}}
    made.write("service", {"service": own})
    made.write("grants", {"reader": [{"database": "shop"}], "stranger": []})
    for batch in range(1, 5):
        write_text(made.landing / f"shop/item/{batch:03}.csv", f"op,id,name,n\nU,1,person{batch},{batch}\n")
        made.run()
    return made


@pytest.fixture(scope="module")
def served(project: TemporaryProject) -> Iterator[Served]:
    """The service of the project, started as a user starts it."""
    tokens, hashes = {}, {}
    for role in ("reader", "stranger"):
        done = project.command("lakehouse", "serve", "--new-token", role)
        assert done.returncode == 0, done.stderr
        tokens[role] = done.stdout.strip()
        hashes[role] = re.findall(rf"{role}: ([0-9a-f]{{64}})", done.stderr)
    secrets = {"service_tokens": hashes, "erasure": {"key": "a key of the tests, long enough"}}
    project.write("credentials", secrets, env="local")
    port = free_port()
    server = subprocess.Popen(
        [KEDRO, "lakehouse", "serve", "--port", str(port)], cwd=project.path, text=True,
        stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    try:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == f"http://127.0.0.1:{port}/v1/datasets"
        while not _answers(port):
            assert server.poll() is None
            threading.Event().wait(0.1)
        yield Served(ServedLake(project._project, project.path, tokens), port)
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=10)
        assert server.returncode in (0, -signal.SIGTERM)


def _answers(port: int) -> bool:
    try:
        with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
    except OSError:
        return False


def test_published_batches_read_the_same_after_maintenance(project: TemporaryProject, served: Served) -> None:
    listed = served.ask(BASE, "reader").json["items"]
    assert [one["partition"] for one in listed] == ["batch=4", "batch=3", "batch=2", "batch=1"]
    assert served.ask(BASE, "stranger").status == 404
    text = "select id, name from shop.item"

    def read(number: str) -> bytes:
        done = served.query(text, "reader", format="csv", snapshots={"shop.item": number}).json
        assert done["state"] == "done", done
        return served.ask(done["result"], "reader").body

    assert read(listed[1]["id"]) == b'"id","name"\n1,"person3"\n'
    own = project._project
    at_once = ExpireConfig.model_construct(older_than=dt.timedelta(0), keep=1)
    settings = own.maintenance.of(ITEM).model_copy(update={"expire": at_once})
    for report in maintain_table(own, own.bind(ITEM), settings):
        assert report.table.startswith("shop.item")
    left = served.ask(BASE, "reader").json["items"]
    assert left == listed[:2]
    assert [read(one["id"]) for one in left] == [b'"id","name"\n1,"person4"\n', b'"id","name"\n1,"person3"\n']
    for one in listed[2:]:
        gone = served.ask(one["link"], "reader")
        assert (gone.status, gone.json["code"]) == (410, "SNAPSHOT_EXPIRED")


def test_no_snapshot_from_before_an_erasure_is_read(project: TemporaryProject, served: Served) -> None:
    earlier = served.ask(BASE, "reader").json["items"]
    tags = project._project.catalog.find(ITEM).refs()
    assert {f"published_{one['id']}" for one in earlier} <= tags.keys()
    erased = erase(Project.load(str(project.path / "conf"), None), ["person4"])
    assert (erased.found, erased.pending) == ((), ())
    assert set(project._project.catalog.find(ITEM).refs()) == {"main"}
    for one in earlier:
        gone = served.ask(one["link"], "reader")
        assert (gone.status, gone.json["code"]) == (410, "SNAPSHOT_ERASED")
    done = served.query("select name from shop.item", "reader", format="csv").json
    assert served.ask(done["result"], "reader").body == b'"name"\n"person3"\n'


def test_a_second_server_is_told_that_the_port_is_taken(project: TemporaryProject, served: Served) -> None:
    done = project.command("lakehouse", "serve", "--port", str(served.port))
    assert done.returncode == 1
    assert "Something else listens" in done.stderr


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({}, r"service_tokens"),
        ({"service_tokens": {"reader": "a token itself"}}, r"SHA-256"),
        ({"service_tokens": {"raeder": "0" * 64}}, r"raeder.*Did you mean 'reader'"),
    ],
)
def test_wrong_tokens_are_refused_before_anything_listens(
    project: TemporaryProject, served: Served, held: dict[str, Any], said: str
) -> None:
    file = project.path / "conf/local/credentials.yml"
    before = file.read_bytes()
    try:
        project.write("credentials", held, env="local")
        port = free_port()
        done = project.command("lakehouse", "serve", "--port", str(port))
    finally:
        file.write_bytes(before)
    assert done.returncode == 1
    assert re.search(said, done.stderr, re.DOTALL)
    assert "a token itself" not in done.stderr
