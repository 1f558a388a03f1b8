"""The metadata service tells each role what it is granted, and reads published snapshots as they were."""

from __future__ import annotations

import io
import json
import time
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from harness.served import (
    SNAPSHOT_ID,
    Served,
    commit_orders,
    erased,
    pull,
    pulled_id,
    served_lake,
    serving,
)

from kedro_lakehouse.formats.iceberg.published import keep_published
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.sources

SHIPMENTS = "/v1/datasets/devices.shipment"
ORDERS = "/v1/datasets/shop.order"
FIRST = f"{SHIPMENTS}/snapshots/{pulled_id(1)}"
LONG = "select count(*) from range(100000000000) a, range(1000) b"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(served_lake(tmp_path_factory.mktemp("served"))) as made:
        yield made


def test_a_role_is_told_of_its_datasets_and_no_others(served: Served) -> None:
    def names(role: str) -> list[str]:
        return [one["dataset"] for one in served.ask("/v1/datasets", role).json["items"]]

    assert names("planner") == ["devices.forecast", "devices.nothing", "devices.shipment", "shop.order"]
    assert names("analyst") == ["shop.customer", "shop.order"]
    assert names("nobody") == []
    unknown, hidden = (
        served.ask(f"/v1/datasets/{name}{more}", "analyst")
        for name, more in (("shop.nothing", ""), ("shop.secret", ""))
    )
    assert (unknown.status, unknown.body) == (hidden.status, hidden.body)
    assert unknown.status == 404
    for more in (
        "",
        "/snapshots",
        "/snapshots/latest",
        f"/snapshots/{pulled_id(1)}",
        "/snapshots/latest/files",
    ):
        assert served.ask(SHIPMENTS + more, "analyst").status == 404
        assert served.ask(SHIPMENTS + more, "planner").status == 200


def test_columns_are_told_with_the_types_that_a_role_sees(served: Served) -> None:
    whole = {
        c["name"]: c["type"] for c in served.ask("/v1/datasets/shop.customer", "auditor").json["columns"]
    }
    shown = {
        c["name"]: c["type"] for c in served.ask("/v1/datasets/shop.customer", "analyst").json["columns"]
    }
    assert whole.keys() - shown.keys() == {"email", "salary"}
    assert (whole["card"], shown["card"]) == ("long", "string")  # the mask shows text
    described = served.ask(ORDERS, "analyst").json
    assert [column["name"] for column in described["columns"]] == ["id", "amount"]
    assert not described["reads"]
    assert "latest" not in described
    assert served.ask(f"{ORDERS}/snapshots", "analyst").status == 404


def test_snapshots_are_listed_newest_first_with_rejected_loads_named(served: Served) -> None:
    items = served.ask(f"{SHIPMENTS}/snapshots").json["items"]
    blocked, refused, *published = items
    assert [one["id"] for one in published] == [pulled_id(n) for n in range(8, 0, -1)]
    assert published[-1] == {
        "dataset": "devices.shipment", "id": pulled_id(1), "partition": f"{SNAPSHOT_ID}={pulled_id(1)}",
        "time": "2024-01-31T06:00:00.000+00:00", "state": "published", "rows": 50,
        "link": FIRST, "files": f"{FIRST}/files",
    }  # fmt: skip
    assert (blocked["state"], blocked["codes"]) == ("rejected", ["EXPECTATION_FAILED"])
    assert (refused["state"], refused["codes"]) == ("rejected", ["INCOMPATIBLE_TYPE"])
    assert refused["partition"] == "Year=2024/Month=03/Date=01/pull=000099"
    assert served.ask(refused["link"]).json == refused
    assert served.ask(f"{SHIPMENTS}/snapshots/latest").json == published[0]
    only = served.ask(f"{SHIPMENTS}/snapshots?state=rejected").json["items"]
    assert only == [blocked, refused]
    assert served.ask(f"{SHIPMENTS}/snapshots?state=published").json["items"] == published


def test_pages_give_each_snapshot_once(served: Served) -> None:
    whole = served.ask(f"{SHIPMENTS}/snapshots").json["items"]
    found, path, pages = [], f"{SHIPMENTS}/snapshots?limit=3", 0
    while path:
        page = served.ask(path).json
        found += page["items"]
        path, pages = page.get("next"), pages + 1
    assert (found, pages) == (whole, 4)
    names = served.ask("/v1/datasets?limit=2").json
    assert [one["dataset"] for one in names["items"]] == ["devices.forecast", "devices.nothing"]
    assert len(served.ask(names["next"]).json["items"]) == 2


def test_a_dataset_without_a_commit_has_no_snapshot(served: Served) -> None:
    assert served.ask("/v1/datasets/devices.nothing").json["latest"] is None
    assert served.ask("/v1/datasets/devices.nothing/snapshots").json == {"items": []}
    assert served.ask("/v1/datasets/devices.nothing/snapshots/latest").status == 404


def test_the_files_of_a_snapshot_are_its_own_and_only_for_who_sees_all(served: Served) -> None:
    files = served.ask(f"{SHIPMENTS}/snapshots/{pulled_id(2)}/files").json["files"]
    assert [one["rows"] for one in files] == [50]
    assert pq.read_table(files[0]["path"].removeprefix("file://"))["site"].to_pylist() == ["s2"] * 50
    path = "/v1/datasets/shop.customer/snapshots"
    assert served.ask(path, "analyst").json == {"items": []}  # its only commit was never recorded
    assert served.ask(f"{path}/latest/files", "analyst").status == 404


def test_a_commit_is_seen_at_once(tmp_path: Path) -> None:
    lake = served_lake(tmp_path, pulls=1)
    with serving(lake) as served:
        before = served.ask(f"{SHIPMENTS}/snapshots/latest").json["id"]
        pull(lake, "devices.shipment", 2)
        after = served.ask(f"{SHIPMENTS}/snapshots/latest").json["id"]
        state = commit_orders(lake, 4)
        assert served.ask(f"{ORDERS}/snapshots/latest").json["id"] == str(state)
    assert (before, after) == (pulled_id(1), pulled_id(2))


def test_a_query_reads_what_its_role_may_see(served: Served) -> None:
    done = served.query("from shop.customer order by id", "analyst", format="json").json
    assert (done["state"], done["rows"]) == ("done", 2)
    result = served.ask(done["result"], "analyst")
    rows = [json.loads(line) for line in result.body.splitlines()]
    assert [row["phone"] for row in rows] == ["****1111", "****1112"]
    assert rows[0].keys().isdisjoint({"email", "salary"})
    assert done["tables"] == [{"table": "shop.customer", "snapshot": None}]  # sizes tell of hidden rows
    for other in ("planner", "auditor"):
        assert served.ask(done["link"], other).status == 404
        assert served.ask(done["result"], other).status == 404
        assert served.ask(done["link"], other, method="DELETE").status == 404


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_each_format_holds_the_same_rows(served: Served, kind: str) -> None:
    text = "select 1.10::decimal(5, 2) d, ['a', null] l, {'x': 1} s, null n, 'ü,\"' t, true b, 1 d"
    done = served.query(text, format=kind, output=f"week=1/one_{kind}").json
    assert done["state"] == "done", done
    body = served.ask(done["result"]).body
    if kind == "parquet":
        (row,) = pq.read_table(io.BytesIO(body)).to_pylist()
        assert (str(row["d"]), row["l"], row["s"], row["t"], row["d_1"]) == (
            "1.10",
            ["a", None],
            {"x": 1},
            'ü,"',
            1,
        )
    elif kind == "json":
        assert json.loads(body) == {
            "d": "1.10", "l": ["a", None], "s": {"x": 1}, "n": None, "t": 'ü,"', "b": True, "d_1": 1,
        }  # fmt: skip
    else:
        head, line = body.decode().splitlines()
        assert head == '"d","l","s","n","t","b","d_1"'
        assert line == '1.10,"[""a"", null]","{""x"": 1}",,"ü,""",true,1'
    assert (served.lake.results / f"planner/week=1/one_{kind}.{kind}").stat().st_mode & 0o077 == 0


ONE, OTHER = pulled_id(3), pulled_id(5)
TWO = "from devices.shipment s join devices.forecast f"
JOINS = {
    "given": f"select count(*) n {TWO} on s.id = f.id",
    "said": f"""select count(*) n from devices.shipment s, devices.forecast f
        where s.id = f.id and s.{SNAPSHOT_ID} = '{ONE}' and f.{SNAPSHOT_ID} in ('{OTHER}')""",
    "joined": f"select count(*) n {TWO} using ({SNAPSHOT_ID}, id) where {SNAPSHOT_ID} = '{ONE}'",
    "equal": f"""with x as (select 1) select count(*) n {TWO} on s.{SNAPSHOT_ID} = f.{SNAPSHOT_ID}
        and s.id = f.id where s.{SNAPSHOT_ID} = '{ONE}'""",
}


@pytest.mark.parametrize("name", JOINS)
def test_a_join_on_snapshots_reads_their_files_alone(served: Served, name: str) -> None:
    snapshots = {"devices.shipment": ONE, "devices.forecast": OTHER} if name == "given" else {}
    done = served.query(JOINS[name], format="json", snapshots=snapshots).json
    assert done["state"] == "done", done
    assert json.loads(served.ask(done["result"]).body) == {"n": 50}
    for one in done["tables"]:
        link = f"/v1/datasets/{one['table']}/snapshots/{snapshots.get(one['table'], ONE)}/files"
        own = served.ask(link).json["files"]
        assert (one["files"], one["bytes"]) == (1, own[0]["bytes"])


def test_a_snapshot_reads_the_same_after_later_commits_and_expiry(tmp_path: Path) -> None:
    lake = served_lake(tmp_path, pulls=1, keep={"shop.order": 2})
    with serving(lake) as served:
        first, second, third = (
            one["id"] for one in reversed(served.ask(f"{ORDERS}/snapshots").json["items"])
        )
        text = "select id, amount from shop.order order by id"

        def read(number: str, output: str) -> bytes:
            done = served.query(text, format="csv", output=output, snapshots={"shop.order": number}).json
            assert done["state"] == "done", done
            return served.ask(done["result"]).body

        before = [read(number, f"before_{number}") for number in (first, second, third)]
        name, catalog = TableName.parse("shop.order"), lake.project.catalog
        made = keep_published(catalog, name, [int(first), int(second), int(third)], 2)
        assert made == {f"published_{second}": int(second), f"published_{third}": int(third)}
        assert keep_published(catalog, name, [int(first), int(second), int(third)], 2) == {}
        commit_orders(lake, 4)
        lake.table("shop.order").maintenance.expire_snapshots().by_id(int(first)).commit()
        gone = served.ask(f"{ORDERS}/snapshots/{first}")
        assert (gone.status, gone.json["code"]) == (410, "SNAPSHOT_EXPIRED")
        refused = served.query(text, snapshots={"shop.order": first})
        assert (refused.status, refused.json["code"]) == (410, "SNAPSHOT_EXPIRED")
        assert [read(n, f"after_{n}") for n in (second, third)] == before[1:]
        erased(lake, "shop.order")
        assert served.ask(f"{ORDERS}/snapshots/{first}").json["code"] == "SNAPSHOT_ERASED"
        assert served.ask(f"{ORDERS}/snapshots/7").status == 404


def test_tags_move_on_with_new_snapshots(tmp_path: Path) -> None:
    lake = served_lake(tmp_path, pulls=3)
    name, catalog = TableName.parse("devices.shipment"), lake.project.catalog
    assert len(keep_published(catalog, name, [], 2)) == 2
    pull(lake, str(name), 4)
    assert list(keep_published(catalog, name, [], 2)) == [f"published_{pulled_id(4)}"]
    assert {r for r in lake.table(str(name)).refs() if r != "main"} == {
        f"published_{pulled_id(n)}" for n in (3, 4)
    }
    lake.table(str(name)).delete(f"{SNAPSHOT_ID} in ('{pulled_id(1)}', '{pulled_id(3)}')")
    with serving(lake) as served:
        gone = served.ask(f"{SHIPMENTS}/snapshots/{pulled_id(1)}")
        assert (gone.status, gone.json["code"]) == (410, "SNAPSHOT_EXPIRED")
        done = served.query("from devices.shipment", snapshots={"devices.shipment": pulled_id(3)}).json
        assert (done["state"], done["rows"]) == ("done", 50)  # by its tag
        assert served.ask(f"{SHIPMENTS}/snapshots/{pulled_id(5)}").status == 404


def test_a_cancelled_query_ends_within_two_seconds_and_leaves_no_file(served: Served) -> None:
    begun = served.ask("/v1/queries", method="POST", body={"query": LONG, "output": "never"}).json
    assert begun["state"] == "running"
    asked = time.monotonic()
    ended = served.ask(begun["link"], method="DELETE").json
    assert time.monotonic() - asked < 2
    assert (ended["state"], ended["error"]["code"]) == ("cancelled", "QUERY_CANCELLED")
    assert served.ask(f"{begun['link']}/result").status == 404
    assert not [
        file for file in served.lake.results.rglob("*") if "never" in file.name or ".part" in file.name
    ]


def test_more_queries_than_may_run_are_refused_until_one_has_ended(tmp_path: Path) -> None:
    with serving(served_lake(tmp_path, pulls=1, query={"at_once": 1})) as served:
        one = served.ask("/v1/queries", method="POST", body={"query": LONG}).json
        refused = served.ask("/v1/queries", method="POST", body={"query": "select 1"})
        assert (refused.status, refused.json["code"]) == (429, "QUERIES_TOO_MANY")
        assert served.ask(one["link"], method="DELETE").json["state"] == "cancelled"
        assert served.query("select 1").json["state"] == "done"


def test_a_role_that_asks_too_often_is_told_to_wait(tmp_path: Path) -> None:
    with serving(served_lake(tmp_path, pulls=1, rate=5)) as served:
        answers = [served.ask("/v1/datasets").status for _ in range(20)]
        assert answers[:5] == [200] * 5
        assert 429 in answers
        assert served.ask("/v1/datasets", "analyst").status == 200
        assert served.ask("/health", None).json == {"status": "ok"}
