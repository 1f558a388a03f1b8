"""Whatever is asked, no role learns what it is not granted, and no request makes the service fail."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from harness.granted import ONE
from harness.served import Served, pulled_id, served_lake, serving

from kedro_lakehouse.service.tokens import hash_of_token, new_token

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.sources

CANARIES = tuple(word.encode() for word in (*ONE.canaries, "kanarienvogel"))
BASE = "/v1/datasets"
PATHS = [
    f"{BASE}/../../etc/passwd", f"{BASE}/..%2f..%2f..%2fetc%2fpasswd", f"{BASE}/%2e%2e/%2e%2e/health",
    f"{BASE}/shop.secret", f"{BASE}/SHOP.SECRET", f"{BASE}/shop.secret%00", f"{BASE}/shop%2Esecret/snapshots",
    f"{BASE}/lake.shop.secret", f"{BASE}/%22shop%22.%22secret%22", f"{BASE}/shop.customer_changes",
    f"{BASE}/shop.customer_quarantine", f"{BASE}/shop.customer_history/snapshots", f"{BASE}/ops.batches",
    f"{BASE}/ops.runs/snapshots/latest/files", f"{BASE}/shop.customer'%20or%20'1'='1",
    f"{BASE}/shop.customer%3B%20drop%20table%20x", f"{BASE}/{'a' * 1500}", f"{BASE}/{'%ff' * 20}",
    f"{BASE}/shop.customer/snapshots/..%2f..%2fsecret", f"{BASE}/shop.customer/snapshots/1%20or%201=1",
    f"{BASE}/shop.customer/snapshots/{'9' * 400}", f"{BASE}/shop.customer/snapshots/-1",
    f"{BASE}/shop.customer/snapshots/latest/files", f"{BASE}/shop.customer/snapshots/%00",
    f"{BASE}/shop.customer/snapshots/{pulled_id(1)}", f"{BASE}/devices.shipment/snapshots/{pulled_id(1)}",
    f"{BASE}/shop.customer/snapshots?limit=0", f"{BASE}/shop.customer/snapshots?limit=-5",
    f"{BASE}/shop.customer/snapshots?limit=1e9", f"{BASE}/shop.customer/snapshots?limit={'9' * 5000}",
    f"{BASE}/shop.customer/snapshots?limit=1&after=' or 1=1 --".replace(" ", "%20"),
    f"{BASE}/shop.customer/snapshots?after={'x' * 5000}", f"{BASE}/shop.customer/snapshots?state=all",
    f"{BASE}/shop.customer/snapshots?limit=%F0%9F%92%A9", f"{BASE}?limit=99999999999999999999",
    f"/v1/queries/{'0' * 32}", "/v1/queries/../../results", "/v1/queries/..%2f_queries%2fx",
    "/v1/queries/%00",
    f"/v1/queries/{'f' * 32}/result", "/v1/queries", "/openapi.json", "/docs", "/v1", "/", "//etc/passwd",
    "/v2/datasets", "/health/../v1/datasets/shop.secret",
]  # fmt: skip
QUERIES = [
    "from read_csv('{canary}')", "from read_text('{canary}')", "from read_blob('{canary}')",
    "from '{canary}'",
    "from read_parquet('{lake}/**/*.parquet', union_by_name = true)", "from glob('{lake}/**')",
    "from read_json('{results}/_queries/*.json')", "from sniff_csv('{canary}')",
    "from parquet_metadata('{lake}/**')",
    "select content from read_text('/proc/self/environ')", "select getenv('HOME')",
    "from iceberg_scan('{lake}')",
    "from sqlite_scan('{lake}/catalog.db', 'iceberg_tables')", "from query('from shop.secret')",
    "from query_table('shop.secret')", "from duckdb_views()", "from duckdb_settings()",
    "from duckdb_secrets()",
    "from information_schema.tables", "pragma database_list", "from pragma_table_info('shop.customer')",
    'from "__shop.customer"', 'from temp.main."__shop.customer"', "from lake.shop.secret", "from shop.SECRET",
    "select email from shop.customer", "select * from shop.customer where salary > 0", "from shop.order",
    "from devices.shipment", "copy shop.customer to '{outside}/x.csv'", "export database '{outside}/x'",
    "attach '{lake}/catalog.db' as x", "install httpfs", "load httpfs", "set enable_external_access = true",
    "call enable_logging()", "create table x as select 1", "select 1; select 2", "delete from shop.customer",
    "select * from shop.customer as of '2020-01-01'", "select nextval('x')",
    "select cast(phone as int) from shop.customer", "select error(phone) from shop.customer",
    "with recursive r as (select 1 n union all select n + 1 from r) select count(*) from r, range(1)",
    "select repeat('a', 2000000000) || repeat('b', 2000000000)",
    "from shop.customer where name like '%CANARY%'", "from shop.customer where card > 0 and born is not null",
]  # fmt: skip
OUTPUTS = [
    "../x", "../../x", "/etc/cron.d/x", "a/../../x", "a//b", "", ".", "..", "~/x", "a\\..\\x", "x\0",
    "_queries/../../x",
    ".hidden", "link/x", "a/b/c/d/e/f", "x" * 200, "ü", "%2e%2e/x", "s3://bucket/x", "file:///tmp/x", "C:\\x",
]  # fmt: skip
BODIES: list[Any] = [
    b"", b"{", b"null", b"[]", b'"x"', b"[" * 50_000, b'{"query": 1}', b'{"query": ""}', b'{"query": null}',
    b'{"query": "select 1", "role": "auditor"}', b'{"query": "select 1", "format": "xlsx"}',
    b'{"query": "select 1", "engine": "spark"}', b'{"query": "select 1", "output": 7}',
    b'{"query": "select 1", "snapshots": {"shop.secret": "1"}}', b'{"query": "select 1", "snapshots": ["x"]}',
    b'{"query": "from shop.customer", "snapshots": {"shop.customer": "1 or 1=1"}}',
    b'{"query": "from shop.customer", "snapshots": {"shop.customer\\ud800": "1"}}',
    b'{"query": "select \\ud800"}', b'{"query": "select \\u0000"}', b'\xff\xfe{"query": "select 1"}',
    b'{"query": "' + b"x" * 150_000 + b'"}', b'{"query": "' + b"x" * 1_000_000 + b'"}',
    b'{"query": "select 1", "query": "from shop.secret", "extra": true}',
]  # fmt: skip
RAW = [
    b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 2**20 + b"\r\n\r\n",
    b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\n" + b"X-Many: 1\r\n" * 20_000 + b"\r\n",
    b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"a" * 20_000 + b"\r\n\r\n",
    b"GET /v1/datasets HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\0" * 1000,
    b"GET http://elsewhere/v1/datasets HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
    b"POST /v1/queries HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\nA: b\r\n Authorization: Bearer x\r\n\r\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    lake = served_lake(folder, pulls=2, query={"time": "20 s", "memory": "512 MiB"})
    (folder / "outside").mkdir()
    (folder / "canary.csv").write_text("a\nkanarienvogel\n", encoding="utf-8")
    (lake.results / "analyst").mkdir(parents=True)
    (lake.results / "analyst/link").symlink_to(folder / "outside")
    with serving(lake) as made:
        yield made


def judge(status: int, body: bytes) -> None:
    """Every refusal is one of the asker's own making, and holds nothing that is hidden."""
    assert 400 <= status < 500, (status, body[:300])
    assert not [word for word in CANARIES if word in body], body[:300]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40])
def test_no_address_reaches_what_is_not_granted(served: Served, path: str) -> None:
    judge(*_told(served, path))


def _told(served: Served, path: str, **words: Any) -> tuple[int, bytes]:
    found = served.ask(path, **({"role": "analyst"} | words))
    assert found.headers["content-type"] == "application/problem+json"
    assert found.json["code"]
    return found.status, found.body


def test_no_token_but_a_right_one_is_let_in(served: Served) -> None:
    right = served.lake.tokens["planner"]
    stolen = hash_of_token(right)  # what somebody reads who reads the credentials
    wrong = [
        "", "Bearer", "Bearer ", f"Bearer {stolen}", f"Bearer {right[:-1]}", f"Bearer {right}x",
        f"Bearer  {right}", f"Basic {right}", right, f"Bearer {right.swapcase()}",
        f"Bearer {new_token()}", "Bearer " + "a" * 10_000, "Bearer null", "Bearer *",
        f"Bearer {right},{right}",
        "Bearer sha256:" + stolen, "Bearer \xe9",
    ]  # fmt: skip
    for header in wrong:
        found = served.ask("/v1/datasets", None, headers={"Authorization": header})
        assert (found.status, found.json["code"]) == (401, "UNAUTHORIZED"), header
    assert served.ask("/v1/datasets", None).status == 401
    assert served.ask(f"/v1/datasets?token={right}&access_token={right}", None).status == 401
    assert served.ask("/v1/datasets", None, headers={"Cookie": f"token={right}"}).status == 401
    assert served.ask("/v1/datasets", "planner").status == 200
    both = f"Authorization: Bearer {right}\r\nAuthorization: Bearer x\r\n\r\n"
    assert served.raw(f"GET /v1/datasets HTTP/1.1\r\nHost: x\r\n{both}".encode()).startswith(b"HTTP/1.1 401")


def test_no_role_sees_datasets_and_queries_of_another(served: Served) -> None:
    mine = served.query("from shop.customer", "auditor", format="json").json
    assert any(word in served.ask(mine["result"], "auditor").body for word in CANARIES)
    for role in ("analyst", "planner", "nobody"):
        for path, method in ((mine["link"], "GET"), (mine["result"], "GET"), (mine["link"], "DELETE")):
            judge(*_told(served, path, role=role, method=method))
        assert served.ask("/v1/datasets/shop.secret", role).body == served.ask(f"{BASE}/no.such", role).body
    assert served.ask(mine["link"], "auditor").json == mine


@pytest.mark.parametrize("sent", BODIES, ids=lambda sent: repr(sent)[:40])
def test_no_body_makes_the_service_fail(served: Served, sent: bytes) -> None:
    judge(*_told(served, "/v1/queries", method="POST", body=sent))


@pytest.mark.parametrize("sent", RAW, ids=lambda sent: repr(sent)[:30])
def test_no_bytes_make_the_service_fail(served: Served, sent: bytes) -> None:
    found = served.raw(sent)
    assert not found or found.startswith(b"HTTP/1.1 4"), found[:100]
    assert served.ask("/health", None).status == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "POST", "GETT"])
def test_no_method_does_more(served: Served, method: str) -> None:
    assert 400 <= served.ask(BASE, "analyst", method=method).status < 500


def test_no_result_is_written_outside_of_a_roles_own_folder(served: Served) -> None:
    before = {file for file in served.lake.folder.rglob("*") if "_queries" not in file.parts}
    for output in OUTPUTS:
        found = served.ask(
            "/v1/queries", "analyst", method="POST", body={"query": "select 1", "output": output}
        )
        judge(found.status, found.body)
        assert found.json["code"] in ("QUERY_OUTPUT", "BAD_REQUEST"), output
    done = served.query("select 1", "analyst", output="planner/x", format="csv").json
    again = served.ask(
        "/v1/queries",
        "analyst",
        method="POST",
        body={"query": "select 2", "output": "planner/x", "format": "csv"},
    )
    assert (done["state"], again.status, again.json["code"]) == ("done", 400, "QUERY_OUTPUT")
    after = {file for file in served.lake.folder.rglob("*") if "_queries" not in file.parts}
    own = served.lake.results / "analyst/planner"
    assert after - before - {own, own / "x.csv"} == set()


def test_no_query_reads_more_than_its_role_may(served: Served) -> None:
    folder = served.lake.folder
    places = {
        "{canary}": f"{folder}/canary.csv", "{lake}": f"{folder}/lake", "{results}": str(served.lake.results),
        "{outside}": f"{folder}/outside",
    }  # fmt: skip
    told: dict[str, str] = {}

    def ask(texts: list[str]) -> None:
        for text in texts:
            sent = text
            for name, place in places.items():
                sent = sent.replace(name, place)
            found = served.query(sent, "analyst", format="json")
            assert found.status in (200, 400), (text, found.body)
            whole = {key: value for key, value in found.json.items() if key != "query"}
            told[text] = json.dumps(whole)
            if found.json.get("state") == "done":
                told[text] += served.ask(found.json["result"], "analyst").body.decode()

    threads = [threading.Thread(target=ask, args=(QUERIES[place::3],)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told.keys() == set(QUERIES)
    leaks = {text: said for text, said in told.items() if any(word.decode() in said for word in CANARIES)}
    assert leaks == {}
    answered = [text for text, said in told.items() if '"state": "done"' in said]
    assert set(answered) <= {
        "from shop.customer where name like '%CANARY%'",
        "from shop.customer where card > 0 and born is not null",
        "select cast(phone as int) from shop.customer",
    }
    assert list((folder / "outside").iterdir()) == []
