"""``make demo-sources``: four systems become one model, which is served.

The oracle is plain SQL in the source databases.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs it")
pytest.importorskip("httpx2", reason="`make test-sources` installs it")
pytest.importorskip("secantus", reason="`make test-sources` installs it")
pytest.importorskip("uvicorn", reason="`make test-sources` installs it")
from harness.databases import INSTALLED_BY, is_installed
from harness.project import ROOT, TemporaryProject, script
from harness.soak import soaking

from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.sources

EXAMPLE: Final = ROOT / "examples/ticket-platform"
NAME: Final = "kedro-lakehouse-demo-"
DEMO: Final = script(EXAMPLE / "demo.py")
FACTS: Final = {
    "bookings": {
        "city": ("city", "id, name, region"),
        "theatre": ("venue", "id, name, city_id"),
        "title": ("title", "id, name, kind, genre, language"),
        "screening": ("screening", "id, title_id, theatre_id"),
        "booking": ("booking", "id, screening_id, member_id, seats, status"),
    },
    "payments": {
        "offer": ("offer", "code, name, discount"),
        "coupon": ("coupon", "id, offer_code, member_id, price"),
        "payment": ("payment", "id, booking_id, amount, donation, method, card_number"),
    },
}
"""By database: the canonical tables, each with the table there and the columns that are compared as text."""
BOOKED: Final = """
    FROM booking b JOIN screening s ON s.id = b.screening_id JOIN title t ON t.id = s.title_id
    JOIN venue v ON v.id = s.theatre_id JOIN city c ON c.id = v.city_id
"""


@pytest.fixture(scope="module")
def demo() -> Iterator[Any]:
    """The demo, as its command starts it, after its first run."""
    if not soaking():
        pytest.skip("takes a minute; `make soak-sources` runs it")
    for program in ("initdb", "mariadbd"):
        if not is_installed(program):
            pytest.skip(INSTALLED_BY[program])
    DEMO.find_servers()
    with tempfile.TemporaryDirectory(prefix=NAME) as place, ExitStack() as started:
        made = DEMO.Demo(Path(place), started)
        made.start()
        made.run()
        made.serve()
        made.lake = TemporaryProject(made.project, Project.load(str(made.project / "conf"), None))
        yield made
    assert not [line for line in _processes() if place in line]


def _processes() -> list[str]:
    """The command lines of all processes of this machine."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def in_database(demo: Any, name: str, query: str) -> list[tuple[str, ...]]:
    """The rows of a query in a source database, as texts in order; null is nothing."""
    if name == "bookings":
        lines = demo.mariadb.script(f"USE bookings; {query};")
        rows = [tuple("" if part == "NULL" else part for part in line.split("\t")) for line in lines]
    else:
        lines = demo.postgres.script(f"\\connect payments\n{query};")
        rows = [tuple(line.split("|")) for line in lines if not line.startswith("You are now")]
    return sorted(rows)


def in_lake(demo: Any, table: str, columns: str) -> list[tuple[str, ...]]:
    """The rows of a table, as texts in order."""
    names = columns.split(", ")
    rows = demo.lake.rows(table)
    return sorted(tuple("" if row[n] is None else str(row[n]) for n in names) for row in rows)


def compare(demo: Any) -> None:
    """See that facts and summaries are what the databases say."""
    for database, tables in FACTS.items():
        for table, (there, columns) in tables.items():
            found = in_lake(demo, f"tickets.{table}", columns)
            assert found == in_database(demo, database, f"SELECT {columns} FROM {there}"), table
            assert found, table
    popular = f"SELECT t.id, count(*), sum(b.seats) {BOOKED} WHERE b.status = 'booked' GROUP BY t.id"
    found = in_lake(demo, "summary.title_popularity", "title_id, bookings, seats")
    assert found == in_database(demo, "bookings", popular)
    live = (
        f"SELECT c.region, t.id, count(*), sum(b.seats) {BOOKED} WHERE b.status = 'booked' "
        "AND t.kind <> 'movie' GROUP BY c.region, t.id"
    )
    found = in_lake(demo, "summary.live_popularity", "region, title_id, bookings, seats")
    assert found == in_database(demo, "bookings", live)


def test_the_model_and_its_summaries_equal_the_sources(demo: Any) -> None:
    compare(demo)
    found = in_lake(demo, "tickets.member", "id, name, home_city")
    assert found == sorted((str(m["_id"]), m["name"], str(m["home_city"])) for m in DEMO.members())
    plans = {row["theatre_id"]: row["sections"] for row in demo.lake.rows("tickets.seat_plan")}
    assert plans == {plan["_id"]: plan["sections"] for plan in DEMO.seat_plans()}
    api = script(EXAMPLE / "searches_api.py")
    assert len(in_lake(demo, "tickets.search", "id")) == api.COUNT


def test_summaries_over_several_systems_equal_them(demo: Any) -> None:
    """What no one database can say is counted from both, by the rows that each has."""
    rows = {r["id"]: r for r in demo.lake.rows("tickets.payment")}
    where = f"SELECT b.id, c.region, c.name, v.name, t.name, t.genre, b.seats, t.kind, b.status {BOOKED}"
    sales: dict[tuple[str, ...], list[Any]] = {}
    given: dict[tuple[str, str], Decimal] = {}
    for number, *group, seats, kind, status in in_database(demo, "bookings", where):
        paid = rows[int(number)]
        if paid["donation"]:
            key = (group[0], str(paid["paid_at"].date().replace(day=1)))
            given[key] = given.get(key, Decimal(0)) + paid["donation"]
        if kind == "movie" and status == "booked":
            bookings, of_all, amount = sales.get(tuple(group), [0, 0, Decimal(0)])
            sales[tuple(group)] = [bookings + 1, of_all + int(seats), amount + paid["amount"]]
    expected = sorted((*group, *map(str, counts)) for group, counts in sales.items())
    columns = "region, city, theatre, title, genre, bookings, seats, amount"
    assert in_lake(demo, "summary.sales", columns) == expected
    expected = sorted((*key, str(amount)) for key, amount in given.items())
    assert in_lake(demo, "charity.donation", "region, month, amount") == expected
    coupons = "SELECT offer_code, count(*), count(redeemed_at), sum(price) FROM coupon GROUP BY offer_code"
    held: dict[str, list[Any]] = {}
    for row in demo.lake.rows("marketing.coupon_use"):
        sums = held.setdefault(row["offer"], [0, 0, Decimal(0)])
        held[row["offer"]] = [sums[0] + row["bought"], sums[1] + row["redeemed"], sums[2] + row["earned"]]
    found = sorted((offer, *map(str, sums)) for offer, sums in held.items())
    assert found == in_database(demo, "payments", coupons)
    searches = demo.lake.rows("summary.trending_search")
    assert sum(row["searches"] for row in searches) == script(EXAMPLE / "searches_api.py").COUNT
    assert {row["place"] for row in searches} >= {1, 2}


def test_roles_see_their_zones_over_http(demo: Any, capsys: pytest.CaptureFixture[str]) -> None:
    datasets = [one["dataset"] for one in json.loads(demo.http("analyst", "/v1/datasets"))["items"]]
    assert not [name for name in datasets if name.startswith(("marketing", "charity"))]
    masked = demo.ask("select name from tickets.member limit 1", "marketing")
    assert masked.split() == ['"name"', '"****"']
    with pytest.raises(SystemExit):
        demo.ask("select * from charity.donation", "marketing")
    DEMO.show(demo)
    assert "title" in capsys.readouterr().out


def test_old_clicks_leave_their_table_and_the_landed_files_become_one(demo: Any) -> None:
    files, each = DEMO.CLICKS
    old = sum(each for file in range(files) if DEMO.is_old(file))
    landed = demo.project / "data/01_raw/clicks/click"
    size = sum(file.stat().st_size for file in landed.iterdir())
    done, found = demo.keep()
    counted = [int(line.split()[-1]) for line in found.splitlines()[1:]]
    assert counted == [files * each - old, old, files * each]
    assert list(landed.iterdir()) == []
    (bundle,) = (demo.project / "data/archive").rglob("*.tar.gz")
    merged = f"files {files} -> 1, bytes {size:,} -> {bundle.stat().st_size:,}"
    assert f"tickets.click (landing): archive landed files; {merged}" in done


def test_a_change_arrives(demo: Any) -> None:
    assert DEMO.check(demo) == 0
    compare(demo)


def test_what_is_missing_is_said_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(DEMO, "find_spec", lambda name: None if name == "pymongo" else name)
    extras, java, postgres, mariadb = DEMO.missing()
    assert "kedro-lakehouse[mongodb]" in extras
    assert "apt-get install openjdk-17" in java
    assert "apt-get install postgresql" in postgres
    assert "apt-get install mariadb-server" in mariadb


def test_the_command_says_what_is_missing_and_ends(tmp_path: Path) -> None:
    words = [sys.executable, str(EXAMPLE / "demo.py")]
    ended = subprocess.run(
        words, capture_output=True, text=True, check=False, env={"PATH": str(tmp_path)}, timeout=60
    )
    assert ended.returncode == 1
    assert "Java 17" in ended.stdout
