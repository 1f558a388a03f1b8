"""Enrichment: references as of arrival, as of the time of the event, or as they are now."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from harness.kills import stopping
from harness.project import TemporaryProject, write_text
from harness.soak import only_in_soak
from property.seeds import SWITCH, the_seed

from kedro_lakehouse.formats.iceberg.format import IcebergFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CSV = {"type": "changes", "file_format": "csv", "pattern": "*.csv", "op_column": "op"}
BY_TIME = {
    "order_by": ["ts"], "effective_time": "ts", "types": {"ts": "timestamp"}, "columns": {"exclude": ["op"]},
}  # fmt: skip
COUNTRY: dict[str, Any] = {"keys": ["countryname"], "history": True} | BY_TIME
LOOKUP = {"table": "ref.country", "on": {"country": "countryname"}, "columns": ["code", "combinedname"]}
ORDER = BY_TIME | {"keys": ["uuid"], "columns": {"exclude": ["country", "unitprice", "op"]}}
REFERENCE, EVENTS = "countryname,code,combinedname,ts,op", "uuid,country,unitprice,ts,op"


def source(folder: str) -> dict[str, Any]:
    return CSV | {"path": f"${{globals:landing}}/{folder}"}


def land(project: TemporaryProject, place: str, header: str, lines: Iterable[str]) -> None:
    write_text(project.landing / f"{place}.csv", "\n".join([header, *lines]) + "\n")


def found(project: TemporaryProject, table: str) -> dict[str, tuple[str | None, str | None]]:
    return {r["uuid"]: (r["code"], r["combinedname"]) for r in project.rows(table)}


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the tables hold after each of five runs."""
    lookups = {
        "arrival": {"enrich": [LOOKUP]},
        "event": {"enrich": [LOOKUP | {"as_of": "event"}]},
        "now": {"enrich": [LOOKUP], "reenrich": True, "history": True},
    }
    tables = {
        f"shop.{n}": {"source": "shop", "entity": "orders"} | ORDER | more for n, more in lookups.items()
    }
    tables["shop.clicks"] = {
        "source": "shop", "entity": "orders", "write": "append",
        "enrich": [LOOKUP | {"columns": {"code": "from_country"}}],
    }  # fmt: skip
    tables["ref.country"] = {"source": "ref"} | COUNTRY
    folder = tmp_path_factory.mktemp("enrichment") / "project"
    project = TemporaryProject.make(folder, {"shop": source("shop"), "ref": source("ref")}, tables)
    states: list[dict[str, Any]] = []

    def run() -> None:
        project.run()
        rows = {name: project.rows(name) for name in (*tables, "shop.now_history", "shop.arrival_quarantine")}
        batches = {name: project.state(f"{name}_changes").batch for name in tables}
        states.append({n: found(project, f"shop.{n}") for n in lookups} | {"rows": rows, "batches": batches})

    (project.landing / "ref/country").mkdir(parents=True)
    land(project, "shop/orders/1", EVENTS, ["a,India,1.5,2026-01-01 10:05,I", "b,Peru,2,2026-01-01 10:05,I"])
    project.run()
    assert not project.rows("shop.arrival"), "the reference does not exist yet: the events wait"
    land(
        project,
        "ref/country/1",
        REFERENCE,
        ["India,IN,IN-India,2026-01-01 10:00,I", "China,CN,CN-China,2026-01-01 10:00,I"],
    )
    run()
    # The reference changes at 11:00; one order is of a time before that, and comes after it.
    land(project, "ref/country/2", REFERENCE, ["India,IN,IN-Bharat,2026-01-01 11:00,U"])
    land(project, "shop/orders/2", EVENTS, ["c,India,3,2026-01-01 12:00,I", "d,India,4,2026-01-01 10:30,I"])
    run()
    # A change of the reference that was forgotten: at 10:20. The first orders come once more, with it.
    land(project, "ref/country/3", REFERENCE, ["India,IN,IN-between,2026-01-01 10:20,U"])
    land(project, "shop/orders/3", EVENTS, ["a,India,1.5,2026-01-01 10:05,I", "b,Peru,2,2026-01-01 10:05,I"])
    run()
    # Only the reference changes: a row is gone from 13:00 on, and another one comes.
    land(
        project,
        "ref/country/4",
        REFERENCE,
        ["India,,,2026-01-01 13:00,D", "Peru,PE,PE-Peru,2026-01-01 10:00,I"],
    )
    run()
    run()
    return states


def test_the_reference_counts_as_it_is_on_arrival(states: list[dict[str, Any]]) -> None:
    first = {"a": ("IN", "IN-India"), "b": (None, None)}
    both = first | {"c": ("IN", "IN-Bharat"), "d": ("IN", "IN-Bharat")}
    assert [s["arrival"] for s in states] == [first, both, both, both, both]


def test_the_reference_counts_as_it_was_at_the_time_of_the_event(states: list[dict[str, Any]]) -> None:
    first = {"a": ("IN", "IN-India"), "b": (None, None)}
    both = first | {"c": ("IN", "IN-Bharat"), "d": ("IN", "IN-India")}
    mended = both | {"d": ("IN", "IN-between")}
    known = mended | {"b": ("PE", "PE-Peru")}
    assert [s["event"] for s in states] == [first, both, mended, known, known]


def test_rows_follow_the_reference(states: list[dict[str, Any]]) -> None:
    new = ("IN", "IN-Bharat")
    first = {"a": ("IN", "IN-India"), "b": (None, None)}
    both = {"a": new, "b": (None, None), "c": new, "d": new}
    gone = dict.fromkeys("acd", (None, None)) | {"b": ("PE", "PE-Peru")}
    assert [s["now"] for s in states] == [first, both, both, gone, gone]
    versions = states[-1]["rows"]["shop.now_history"]
    assert {(r["uuid"], r["code"], r["is_current"]) for r in versions} == {
        ("a", None, True), ("b", "PE", True), ("c", None, True), ("d", None, True),
    }  # fmt: skip


def test_what_is_excluded_is_looked_up_by_and_not_kept(states: list[dict[str, Any]]) -> None:
    columns = set(states[0]["rows"]["shop.event"][0])
    assert {"uuid", "code", "combinedname"} <= columns
    assert not {"country", "unitprice", "_lookup"} & columns


def test_a_table_without_keys_is_enriched_too(states: list[dict[str, Any]]) -> None:
    assert sorted((r["uuid"], r["from_country"]) for r in states[1]["rows"]["shop.clicks"]) == [
        ("a", "IN"), ("b", None), ("c", "IN"), ("d", "IN"),
    ]  # fmt: skip


def test_a_repair_is_one_batch_and_nothing_new_is_none(states: list[dict[str, Any]]) -> None:
    before, after = states[-2]["batches"], states[-1]["batches"]
    assert before == after
    assert states[1]["batches"]["shop.event"] == 3, "two batches of files, and a repair before the second"
    assert states[1]["batches"]["shop.arrival"] == 2
    assert not states[-1]["rows"]["shop.arrival_quarantine"]


def test_a_batch_that_was_stopped_looks_up_in_the_state_of_its_plan(tmp_path: Path) -> None:
    tables = {
        "ref.country": {"source": "ref"} | COUNTRY,
        "shop.arrival": {"source": "shop", "entity": "orders", "enrich": [LOOKUP]} | ORDER,
    }
    project = TemporaryProject.make(tmp_path / "p", {"shop": source("shop"), "ref": source("ref")}, tables)
    (project.landing / "shop/orders").mkdir(parents=True)
    land(project, "ref/country/1", REFERENCE, ["India,IN,IN-India,2026-01-01 10:00,I"])
    project.run()
    land(project, "shop/orders/1", EVENTS, ["a,India,1.5,2026-01-01 10:05,I"])
    with stopping("ingestion", "planned"):
        assert project.failures().keys() == {"shop.arrival"}
    land(project, "ref/country/2", REFERENCE, ["India,IN,IN-Bharat,2026-01-01 11:00,U"])
    land(project, "shop/orders/2", EVENTS, ["b,India,1.5,2026-01-01 10:05,I"])
    project.run()
    assert found(project, "shop.arrival") == {"a": ("IN", "IN-India"), "b": ("IN", "IN-Bharat")}


def test_a_format_that_cannot_let_rows_follow_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {
        "ref.country": {"source": "ref"} | COUNTRY,
        "shop.now": {"source": "shop", "entity": "orders", "enrich": [LOOKUP], "reenrich": True} | ORDER,
    }
    project = TemporaryProject.make(tmp_path / "p", {"shop": source("shop"), "ref": source("ref")}, tables)
    land(project, "ref/country/1", REFERENCE, ["India,IN,IN-India,2026-01-01 10:00,I"])
    land(project, "shop/orders/1", EVENTS, ["a,India,1.5,2026-01-01 10:05,I"])
    lacking = replace(IcebergFormat.capabilities, follows_references=False)
    monkeypatch.setattr(IcebergFormat, "capabilities", lacking)
    (error,) = project.failures().values()
    assert "shop.now: rows of tables in iceberg cannot follow their reference" in str(error)
    assert project.rows("ref.country")
    assert not project.rows("shop.now")


ORDERS, WAVES, NAMES, KEYS = 200, 4, ("India", "China", "Peru"), 12


def at(minute: int) -> str:
    return f"2026-01-01 {10 + minute // 60}:{minute % 60:02}"


Change = tuple[str, str, int, str]


def expected(reference: Sequence[Change], events: Sequence[Change]) -> dict[str, str | None]:
    """By hand: of each key the last event, and of its country the last change up to that event's time."""
    rows: dict[str, str | None] = {}
    for uuid, country, moment, op in sorted(events, key=lambda e: e[2]):
        changes = [c for c in sorted(reference, key=lambda c: c[2]) if c[0] == country and c[2] <= moment]
        rows[uuid] = changes[-1][1] if changes and changes[-1][3] != "D" else None
        if op == "D":
            del rows[uuid]
    return rows


def dealt(lines: Sequence[str], chance: random.Random) -> list[list[str]]:
    """Lines in some order in waves; some come twice."""
    waves: list[list[str]] = [[] for _ in range(WAVES)]
    for line in chance.sample(lines, len(lines)):
        for number in {chance.randrange(WAVES) for _ in range(chance.choice((1, 1, 1, 2)))}:
            waves[number].append(line)
    return waves


@only_in_soak
def test_two_hundred_orders_of_arrival_give_the_same_rows(tmp_path: Path) -> None:
    seed = the_seed()
    chance = random.Random(seed)  # noqa: S311 - reproducible
    minutes = chance.sample(range(300), 80)
    reference = [(chance.choice(NAMES), f"name{m}", m, chance.choice("UUUUD")) for m in minutes[:20]]
    events = [
        (f"o{chance.randrange(KEYS)}", chance.choice(NAMES), m, chance.choice("UUUUUD")) for m in minutes[20:]
    ]
    lookup = LOOKUP | {"columns": ["combinedname"], "as_of": "event"}
    tables = {
        "ref.country": {"source": "ref"} | COUNTRY,
        "shop.orders": {"source": "shop", "enrich": [lookup]} | ORDER,
    }
    project = TemporaryProject.make(tmp_path / "p", {"shop": source("shop"), "ref": source("ref")}, tables)
    # Each order of arrival has keys of its own, in the reference too: they do not meet in the one table.
    waves = {place: dealt([], chance) for place in ("ref/country", "shop/orders")}
    for n in range(ORDERS):
        of_order = {
            "ref/country": [f"{n}-{c},x,{name},{at(m)},{op}" for c, name, m, op in reference],
            "shop/orders": [f"{n}-{key},{n}-{c},1,{at(m)},{op}" for key, c, m, op in events],
        }
        for place, lines in of_order.items():
            for wave, more in zip(waves[place], dealt(lines, chance), strict=True):
                wave.extend(more)
    for number in range(WAVES):
        land(project, f"ref/country/{number}", REFERENCE, waves["ref/country"][number])
        land(project, f"shop/orders/{number}", EVENTS, waves["shop/orders"][number])
        project.run()
    wanted = expected(reference, events)
    held = {r["uuid"]: r["combinedname"] for r in project.rows("shop.orders")}
    for n in range(ORDERS):
        of_order = {key: held.get(f"{n}-{key}", "no row") for key in wanted}
        assert of_order == wanted, f"again with {SWITCH}={seed}, order {n}"
    assert len(held) == ORDERS * len(wanted)
