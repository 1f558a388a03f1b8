"""A row's value and a fetched secret, through every command: neither is in a message, a log or a record."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.project import TemporaryProject, write_parquet, write_text
from harness.soak import only_in_soak

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.ops.store import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CANARY = "kanarienvogel"
SECRET = "geheimnis+7/42"
ROW = {"Op": pa.string(), "id": pa.int64(), "name": pa.string(), "n": pa.string(), "seq": pa.string()}
SOURCES: dict[str, Any] = {
    "shop": {"type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq"},
    "ext": {
        "type": "extract", "path": "${globals:landing}/shop", "file_format": "csv",
        "extract_time": {"from": "modified"},
    },
}  # fmt: skip
IN_SET = {
    "type": "expect_column_values_to_be_in_set", "column": "name", "value_set": ["x"], "severity": "block",
}  # fmt: skip
TABLES: dict[str, Any] = {
    "shop.item": {
        "keys": ["id"],
        "history": True,
        "max_invalid_fraction": 0.9,
        "checks": {"short": "id < 90"},
        "subject": "name",
    },
    "shop.derived": {
        "keys": ["id"],
        "derive": {"inputs": {"i": "shop.item"}, "sql": "select id, cast(name as int) as whole from i"},
    },
    "shop.tie": {"keys": ["id"], "on_tie": "fail"},
    "shop.judged": {"keys": ["id"], "expectations": [IN_SET]},
    "shop.limit": {"keys": ["id"], "max_invalid_fraction": 0.1},
    "shop.header": {"source": "ext", "keys": ["id"]},
    "shop.sized": {"source": "ext", "keys": ["id"], "types": {"id": "bigint", "n": "int"}},
}

Words = tuple[str, ...]
COMMANDS: dict[str, list[Words]] = {
    "check": [()],
    "plan": [()],
    "tables": [()],
    "runs": [()],
    "report": [(), ("--to", "run.html"), ("nobody",)],
    "logs": [(), ("nobody",)],
    "plugins": [()],
    "schemas": [(), ("shop.nothing",)],
    "discovered": [(), ("found.shop_judged",), ("found.nothing",)],
    "crawl": [("nowhere",)],
    "snapshots": [("shop.item",), ("shop.itme",)],
    "tag": [("shop.item", "v1"), ("shop.item", "v1"), ("shop.item", "v1", "--delete")],
    "branch": [("shop.item", "b1"), ("shop.item", "b1", "--snapshot", "7")],
    "changes": [("shop.item", "--batch", "9"), ("shop.itme",)],
    "quarantine": [("shop.item",), ("shop.item", "--decisions"), ("shop.item", "--replay"), ("shop.judged",)],
    "sql": [
        ("select cast(name as int) from shop.item",), ("select nme from shop.item",),
        ("select cast(name as int) from shop.item", "--engine", "spark"),
        ("select id from shop.item where name = 7", "--engine", "spark"),
        ("show tables",), ("show namespaces",), ("describe shop.item",),
        ("from shop.itme", "--engine", "spark"),
        ("select cast(name as int) from shop.item", "--output", "csv"),
        ("select cast(name as int) from shop.item", "--to", "item.parquet"),
    ],
    "lineage": [(), ("shop.item", "--columns"), ("shop.judged", "--output", "mermaid"), ("shop.itme",)],
    "search": [("anything",), ("--add", "landing/shop/header")],
    "maintain": [(), ("shop.item", "--dry-run")],
    "grants": [(), ("show", "nobody")],
    "find-value": [(CANARY,), (CANARY, "--column", "name", "--in", "landing")],
    "rectify": [(CANARY, "--set", "n=7", "--dry-run"), (CANARY, "--set", "nme=7"), (CANARY, "--set", "n")],
    "rollback": [("shop.item", "--to-batch", "9"), ("shop.item", "--to-batch", "1", "--yes")],
    "rebuild": [("shop.item", "--yes"), ("shop.limit", "--from-landing", "--yes")],
    "init": [()],
    "add": [("landing/shop/header", "--show"), ("landing/shop/sized", "--yes"), ("landing/shop/tie",)],
    "schema-files": [()],
    "import-config": [("tables.json",), ("no.json",)],
    "deploy": [("--target", "glue", "--env", "nowhere")],
    "console": [("--no-browser", "--port", "{taken}")],
    "pull": [("shop.item",), ("shop.nothing", "--accept")],
    "serve": [("--port", "{taken}"), ("--new-token", "nobody")],
    "stream": [("--until-idle",), ("--namespaces", "nowhere")],
    "erase": [
        (CANARY, "--dry-run"), (CANARY, "--table", "shop.tie"), (CANARY, "--yes"), ("--verify", "no.json"),
    ],
    "erasures": [(), (CANARY,)],
    "drop": [("shop.item", "--yes")],
}  # fmt: skip
"""In this order; what shows rows when it is asked to (``sql``, ``changes``, ``--raw``) is asked otherwise."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    tables = {name: ({} if "derive" in one else {"source": "shop"}) | one for name, one in TABLES.items()}
    made = TemporaryProject.make(tmp_path_factory.mktemp("canaries") / "project", SOURCES, tables)
    hook = {"type": "webhook", "url": "http://127.0.0.1:9/", "credentials": "chat", "timeout": 1}
    made.write("monitoring", {"notifiers": {"hook": hook}})
    made.write(
        "credentials", {"chat": {"token": SECRET}, "erasure": {"key": f"{SECRET} {SECRET}"}}, env="local"
    )

    def row(key: int | None, op: str = "I", seq: int | None = None) -> dict[str, Any]:
        return {"Op": op, "id": key, "name": CANARY, "n": CANARY, "seq": str(seq if seq is not None else key)}

    lots = {
        "item": [row(1), row(2), row(None, seq=3), row(4, op=CANARY), row(99)],
        "tie": [row(1), row(1) | {"name": f"{CANARY}2"}], "judged": [row(1)],
        "limit": [row(1), row(2, op=CANARY)],
    }  # fmt: skip
    for name, rows in lots.items():
        write_parquet(made.landing / f"shop/{name}/20260101-000001000.parquet", rows, ROW)
    write_text(made.landing / "shop/header/a.csv", f'id,{CANARY},{CANARY}\n1,{CANARY},"{CANARY}\n')
    write_text(made.landing / "shop/sized/a.csv", f"id,n\n1,{CANARY}\n{CANARY},2\n3\n")
    write_text(made.path / "tables.json", json.dumps({"a.b": CANARY})[:-1])
    return made


@pytest.fixture(scope="module")
def ran(project: TemporaryProject) -> dict[str, BaseException]:
    failed = project.failures()
    project.write("discovery", {"places": [{"path": str(project.landing)}]})
    assert project.failures("discovery") == {}
    return failed


def is_clean(text: str) -> bool:
    return not [word for word in (CANARY, SECRET, SECRET.split("+", maxsplit=1)[0]) if word in text]


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == set(lakehouse.commands)


def test_a_run_that_fails_in_many_ways_tells_neither(
    project: TemporaryProject, ran: dict[str, BaseException], capfd: pytest.CaptureFixture[str]
) -> None:
    assert len(ran) >= 4, ran
    for error in ran.values():
        if hasattr(error, "code"):
            assert is_clean(str(error) + repr(error))
    assert is_clean(repr(project._project) + str(vars(project._project)))


@pytest.mark.parametrize("as_json", [False, pytest.param(True, marks=only_in_soak)])
def test_no_command_tells_either(
    project: TemporaryProject,
    ran: dict[str, BaseException],
    call: Callable[..., Result],
    as_json: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = {}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for name, invocations in COMMANDS.items():
            if as_json and not [p for p in lakehouse.commands[name].params if "--json" in p.opts]:
                continue
            for words in invocations:
                given = [name, *(word.format(taken=port) if "{" in word else word for word in words)]
                done = call(*given, *(["--json"] if as_json else []))
                assert isinstance(done.exception, SystemExit | None), (given, done.exception)
                told[" ".join(given)] = done.stdout + done.stderr
    assert {name: text for name, text in told.items() if not is_clean(text)} == {}
    assert is_clean(caplog.text)


def test_the_page_about_the_run_holds_neither(
    project: TemporaryProject, ran: dict[str, BaseException]
) -> None:
    pages = [project.path / "run.html", *project.path.glob("data/08_reporting/run_report.html/*/*.html")]
    assert len(pages) >= 2
    for page in pages:
        assert is_clean(page.read_text(encoding="utf-8"))


def test_no_record_and_no_log_holds_either(project: TemporaryProject, ran: dict[str, BaseException]) -> None:
    for table in SCHEMAS:
        assert is_clean(str(project.ops(table))), table
    logs = sorted((project.path / "lakehouse/logs").iterdir())
    assert len(logs) >= 1
    for log in logs:
        assert is_clean(log.read_text(encoding="utf-8")), log.name
