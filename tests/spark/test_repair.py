"""Quarantine replayed, tables rebuilt, and batches explained: each against a table that never failed."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from harness.kills import stopping
from harness.project import TemporaryProject, write_parquet, write_text
from harness.soak import only_in_soak

from kedro_lakehouse.cli.lakehouse import lakehouse

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DMS = {"type": "dms", "sequence_column": "seq"}
EXTRACTS = {
    "type": "extract", "pattern": "*.csv", "file_format": "csv",
    "extract_time": {"from": "name", "pattern": "%Y-%m-%d"},
}  # fmt: skip
ITEM = {"keys": ["id"], "history": True}
TEXT = ITEM | {"types": {"id": "int", "name": "string", "day": "date", "seq": "decimal(38,0)"}}
CHEAP = {"checks": {"cheap": "qty < 100"}}
PRICE = ITEM | {"types": {"qty": "int"}}
ROW = {"Op": pa.string(), "id": pa.int64(), "name": pa.string(), "qty": pa.int64(), "seq": pa.string()}


def sources(**csv: Any) -> dict[str, Any]:
    landing = "${globals:landing}"
    return {
        "shop": DMS | {"path": f"{landing}/shop"},
        "text": DMS | {"path": f"{landing}/text", "file_format": "csv", "csv": csv.get("text", {})},
        "fair": DMS | {"path": f"{landing}/text", "file_format": "csv", "csv": RIGHT},
        "ext": EXTRACTS | {"path": f"{landing}/ext", "csv": csv.get("ext", {})},
        "just": EXTRACTS | {"path": f"{landing}/ext"},
    }  # fmt: skip


RIGHT = {"delimiter": ";", "date_format": "dd.MM.yyyy"}
TWINS = {
    "shop.item": "shop.item_fair", "text.day": "fair.day", "text.semi": "fair.semi",
    "ext.price": "just.price", "ext.na": "just.na",
}  # fmt: skip


def tables(*, mended: bool, twins: bool) -> dict[str, Any]:
    of = {
        "shop.item": ITEM | ({} if mended else {"checks": {"cheap": "qty < 100"}}),
        "text.day": TEXT,
        "text.semi": TEXT,
        "ext.price": PRICE | ({} if mended else CHEAP),
        "ext.na": ITEM,
        "shop.told": ITEM,
    }
    found = {name: {"source": name.partition(".")[0]} | table for name, table in of.items()}
    if twins:
        found |= {
            twin: {"source": twin.partition(".")[0], "entity": name.partition(".")[2]}
            | (TEXT if name.startswith("text") else PRICE if name == "ext.price" else ITEM)
            for name, twin in TWINS.items()
        }
    return found


def event(op: str, key: int | None, name: str | None, qty: int | None, seq: int) -> dict[str, Any]:
    return {"Op": op, "id": key, "name": name, "qty": qty, "seq": str(seq)}


def land_first(landing: Path) -> None:
    item = landing / "shop/item"
    write_parquet(
        item / "20260101-000001000.parquet",
        [
            event("I", 1, "a", 1, 1), event("U", 1, "b", 500, 2), event("U", 1, "c", 3, 3),
            event("I", 2, "x", 900, 4), event("D", 2, None, None, 5), event("I", 3, "y", 700, 6),
            event("I", None, "nobody", 1, 7), event("?", 4, "z", 1, 8),
        ], ROW,
    )  # fmt: skip
    told = landing / "shop/told"
    first = [event("I", i, f"n{i}", i, i) for i in range(1, 6)]
    write_parquet(told / "20260101-000001000.parquet", first, ROW)
    # Dates are dd.MM.yyyy, and the delimiter is a semicolon: neither was declared at first.
    write_text(landing / "text/day/20260101-000001000.csv", "I;1;a;31.12.2025;1\nU;1;b;;2\n")
    write_text(landing / "text/semi/20260101-000001000.csv", "I;1;a;01.02.2026;1\nI;2;b,c;;2\nD;1;;;3\n")
    price = landing / "ext/price"
    write_text(price / "2026-01-01.csv", "id,name,qty\n1,a,1\n2,b,2\n")
    write_text(price / "2026-01-02.csv", "id,name,qty\n1,a,200\n2,B,300\n3,c,400\n")
    write_text(price / "2026-01-03.csv", "id,name,qty\n1,a,5\n2,b,2\n")
    write_text(landing / "ext/na/2026-01-01.csv", "id,name\nNA,a\nother,o\n")


def land_second(landing: Path) -> None:
    write_parquet(landing / "shop/item/20260102-000001000.parquet", [event("U", 3, "late", 8, 9)], ROW)
    told = [
        event("U", 1, "new", 1, 11), event("D", 2, None, None, 12), event("U", 3, "n3", 3, 13),
        event("I", 6, "six", 6, 14), event("I", 7, "gone", 7, 15), event("D", 7, None, None, 16),
        event("U", 4, "late", 0, 3),
    ]  # fmt: skip
    write_parquet(landing / "shop/told/20260102-000001000.parquet", told, ROW)
    write_text(landing / "ext/price/2026-01-04.csv", "id,name,qty\n1,a,5\n2,b,600\n4,d,4\n")
    write_text(landing / "ext/na/2026-01-02.csv", "id,name\nNA,a\nother,o\n")
    write_text(landing / "ext/na/2026-01-03.csv", "id,name\nNA,b\nother,o2\n")


def call(project: TemporaryProject, *words: str) -> Result:
    """Run a command as a user in the project's folder does."""
    before = os.getcwd()  # noqa: PTH109
    os.chdir(project.path)
    try:
        return CliRunner().invoke(lakehouse, words)
    finally:
        os.chdir(before)


def told(result: Result) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> tuple[TemporaryProject, dict[str, Any]]:
    """Two runs with wrong rules, then the right ones, a replay of each table, and twins that never failed."""
    path = tmp_path_factory.mktemp("repair") / "project"
    wrong = sources(text={"delimiter": ",", "date_format": "yyyy/MM/dd"}, ext={})
    project = TemporaryProject.make(path, wrong, tables(mended=False, twins=False))
    land_first(project.landing)
    project.declare(sources(text=RIGHT | {"date_format": "yyyy/MM/dd"}), tables(mended=False, twins=False))
    semi = tables(mended=False, twins=False)
    project.run(namespaces=[n for n in semi if n != "text.semi"])
    project.declare(wrong, semi)
    project.run(namespaces=["text.semi"])
    land_second(project.landing)
    project.declare(sources(text=RIGHT, ext={"null_value": "NA"}), semi)
    project.run(namespaces=["shop.item", "shop.told", "ext.price", "ext.na"])
    before = {t: len(project.rows(f"{t}_quarantine")) for t in TWINS}
    project.declare(sources(text=RIGHT), tables(mended=True, twins=True))
    done: dict[str, Any] = {t: told(call(project, "quarantine", t, "--replay", "--json")) for t in TWINS}
    project.run(namespaces=list(TWINS.values()))
    return project, {"before": before, "done": done}


def comparable(rows: list[dict[str, Any]]) -> Counter[str]:
    """Rows as a bag, without where and in which batch an event came."""
    kept = [{k: v for k, v in r.items() if k not in ("_batch", "_position")} for r in rows]
    return Counter(json.dumps(r, sort_keys=True, default=str) for r in kept)


@pytest.mark.parametrize("table", TWINS)
@pytest.mark.parametrize("role", ["_changes", "", "_history"])
def test_a_replay_ends_in_the_tables_of_one_that_never_failed(
    mended: tuple[TemporaryProject, dict[str, Any]], table: str, role: str
) -> None:
    project, _ = mended
    found, wanted = (comparable(project.rows(f"{t}{role}")) for t in (table, TWINS[table]))
    assert wanted
    assert found == wanted


def test_what_is_still_invalid_stays_in_quarantine(mended: tuple[TemporaryProject, dict[str, Any]]) -> None:
    project, seen = mended
    assert seen["before"] == {"shop.item": 5, "text.day": 1, "text.semi": 3, "ext.price": 4, "ext.na": 2}
    left = {t: [r["_reasons"] for r in project.rows(f"{t}_quarantine")] for t in TWINS}
    assert sorted(left.pop("shop.item")) == [["null_key"], ["unknown_op"]]
    assert left == {"text.day": [], "text.semi": [], "ext.price": [], "ext.na": []}
    assert {t: (d["replayed"], d["left"]) for t, d in seen["done"].items()} == {
        "shop.item": (3, 2), "text.day": (1, 0), "text.semi": (3, 0), "ext.price": (4, 0), "ext.na": (2, 0),
    }  # fmt: skip


def test_a_second_replay_and_run_change_nothing(mended: tuple[TemporaryProject, dict[str, Any]]) -> None:
    project, _ = mended
    before = {t: project.state(f"{t}_changes").batch for t in TWINS}
    again = told(call(project, "quarantine", "shop.item", "--replay", "--json"))
    assert (again["batch"], again["replayed"], again["left"]) == (None, 0, 2)
    assert project.run(namespaces=list(TWINS)) == []
    assert {t: project.state(f"{t}_changes").batch for t in TWINS} == before


def test_a_batch_is_told_by_key_and_effect(mended: tuple[TemporaryProject, dict[str, Any]]) -> None:
    project, _ = mended
    found = told(call(project, "changes", "shop.told", "--batch", "2", "--json"))
    assert found["counts"] == {"I": 1, "U": 1, "D": 1, "N": 3}
    assert {r["id"]: r["effect"] for r in found["keys"]} == {
        1: "U", 2: "D", 3: "N", 4: "N", 6: "I", 7: "N",
    }  # fmt: skip
    first = told(call(project, "changes", "shop.told", "--batch", "1", "--json"))
    assert {r["id"]: r["effect"] for r in first["keys"]} == dict.fromkeys(range(1, 6), "I")
    # Of an extract, the rows that it held unchanged are told too.
    na = told(call(project, "changes", "just.na", "--batch", "1", "--json"))
    assert {r["id"]: r["effect"] for r in na["keys"]} == {"NA": "I", "other": "I"}
    refused = call(project, "changes", "shop.told", "--batch", "9")
    assert refused.exit_code == 1
    assert "BATCH_NOT_FOUND" in refused.stderr
    assert "1 to 2" in refused.stderr


def stopped(project: TemporaryProject, stage: str, phase: str, *words: str) -> None:
    with stopping(stage, phase):
        assert call(project, *words).exit_code == 1


@pytest.mark.parametrize(
    ("stage", "phase", "then"), [("ingestion", "planned", "run"), ("quarantine", "staged", "replay")]
)
def test_a_replay_that_was_stopped_is_finished_by_the_next(
    tmp_path: Path, stage: str, phase: str, then: str
) -> None:
    one = {"shop.item": {"source": "shop"} | ITEM}
    project = TemporaryProject.make(tmp_path / "p", sources(), {"shop.item": one["shop.item"] | CHEAP})
    land_first(project.landing)
    project.run()
    project.declare(sources(), one)
    stopped(project, stage, phase, "quarantine", "shop.item", "--replay")
    if then == "run":
        land_second(project.landing)
        project.run()
    told(call(project, "quarantine", "shop.item", "--replay", "--json"))
    names = {r["id"]: r["name"] for r in project.rows("shop.item")}
    assert names == {1: "c", 3: "late" if then == "run" else "y"}
    versions = Counter((r["id"], r["name"]) for r in project.rows("shop.item_history") if r["id"] != 3)
    assert versions == Counter([(1, "a"), (1, "b"), (1, "c"), (2, "x")])
    assert len(project.rows("shop.item_changes")) == 6 + (then == "run")
    assert len(project.rows("shop.item_quarantine")) == 2
    assert {r["batch"] for r in project.ops("batches")} == set(
        range(1, project.state("shop.item_changes").batch + 1)
    )


REBUILT = {
    "shop.item": ITEM | {"history": {"track": {"include": ["name"]}}, "columns": {"exclude": ["qty"]}},
    "shop.told": ITEM | {"keys": ["name"]},
}


@only_in_soak
def test_a_rebuilt_table_is_that_of_the_new_declaration(tmp_path: Path) -> None:
    old = {n: {"source": "shop"} | ITEM for n in REBUILT}
    new = {n: {"source": "shop"} | t for n, t in REBUILT.items()}
    twins = {f"{n}_fair": {"entity": n.partition(".")[2]} | t for n, t in new.items()}
    project = TemporaryProject.make(tmp_path / "p", sources(), old)
    land_first(project.landing)
    project.run()
    project.declare(sources(), new)
    land_second(project.landing)
    failed = project.failures()
    assert "kedro lakehouse rebuild shop.told --from-landing" in str(failed["shop.told"])
    assert "kedro lakehouse rebuild shop.item`" in str(failed["shop.item"])

    unasked = call(project, "rebuild", "shop.item")
    assert (unasked.exit_code, "--yes" in unasked.stderr) == (2, True)
    done = told(call(project, "rebuild", "shop.item", "--yes", "--json"))
    assert done["batch"] == project.state("shop.item_changes").batch

    refused = call(project, "rebuild", "shop.told", "--yes")
    assert refused.exit_code == 1
    assert "KEY_SCHEMA_DRIFT" in refused.stderr
    file = next((project.landing / "shop/told").glob("20260101*"))
    aside = file.rename(project.path / file.name)
    missing = call(project, "rebuild", "shop.told", "--from-landing", "--yes")
    assert missing.exit_code == 1
    assert file.name in missing.stderr
    assert len(project.rows("shop.told")) == 5
    aside.rename(file)
    told(call(project, "rebuild", "shop.told", "--from-landing", "--yes", "--json"))

    project.declare(sources(), new | twins)
    project.run()
    for table in REBUILT:
        for role in ("_changes", "", "_history"):
            assert project.rows(f"{table}{role}")
            assert comparable(project.rows(f"{table}{role}")) == comparable(
                project.rows(f"{table}_fair{role}")
            ), (table, role)
    assert project.run() == []


@only_in_soak
def test_extracts_are_replayed_after_a_type_was_widened(tmp_path: Path) -> None:
    source = {"ext": sources()["ext"]}

    def declared(kind: str) -> dict[str, Any]:
        return {"ext.wide": ITEM | {"source": "ext", "types": {"n": kind}, "max_invalid_fraction": 1}}

    project = TemporaryProject.make(tmp_path / "project", source, declared("int"))
    write_text(project.landing / "ext/wide/2026-01-01.csv", "id,n\n1,1\n2,5000000000\n")
    project.run()
    write_text(project.landing / "ext/wide/2026-01-02.csv", "id,n\n1,2\n2,5000000000\n3,6000000000\n")
    project.run()
    project.declare(source, declared("bigint"))
    done = told(call(project, "quarantine", "ext.wide", "--replay", "--json"))
    assert (done["replayed"], done["left"]) == (3, 0)
    assert {r["id"]: r["n"] for r in project.rows("ext.wide")} == {"1": 2, "2": 5 * 10**9, "3": 6 * 10**9}
