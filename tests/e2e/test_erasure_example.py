"""The example examples/erasure: a customer is erased while two writers land purchases and the loop runs.

The oracle is what the writers have written down: every record that they landed, whoever it is about.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from harness.planned import as_planned
from harness.project import FORMAT, ROOT, TemporaryProject, environment, script
from harness.soak import only_in_soak, soaking

from kedro_lakehouse.cli.spark import spark_answer
from kedro_lakehouse.erasure.erase import erase, rectify
from kedro_lakehouse.erasure.requests import DONE, known_erasures
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.preview.plan import plan_run
from kedro_lakehouse.project import Project, activate
from kedro_lakehouse.query.answer import run_query

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

EXAMPLE: Final = ROOT / "examples/erasure"
TABLE: Final = "icebergdemodb.customer"
ERASED, RIGHTED = 59_289, 51_936
READINGS: Final = 200 if soaking() else 20
PATIENCE: Final = 120.0
ODD: Final = {"hour": "24", "minute": "60", "month": "2", "day": "30"}
FORMATS: Final[list[Any]] = (
    [FORMAT, pytest.param("delta", marks=[pytest.mark.delta, only_in_soak])]
    if FORMAT == "iceberg"
    else [pytest.param(FORMAT, marks=only_in_soak)]
)


purchases = script(EXAMPLE / "purchases.py")


@dataclass
class Shop:
    """The example's project, and what was landed for it."""

    project: TemporaryProject
    table_format: str
    landed: list[dict[str, Any]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def land(self, chance: random.Random) -> None:
        """Land a file of a hundred records; of each person in question there is one among them."""
        rows = [purchases.purchase(chance) for _ in range(97)]
        rows += [purchases.purchase(chance, ERASED), purchases.purchase(chance, RIGHTED)]
        rows.append(purchases.purchase(chance, 7_000) | ODD)
        purchases.land(self.folder, f"{next(self.numbers):05}", rows)
        self.landed += rows

    @property
    def folder(self) -> Path:
        return Path(self.project.path) / "data/01_raw/purchases/customer"

    def expected(self, **right: str) -> Counter[tuple[Any, ...]]:
        """The rows of a lake that never had the erased customer; ``right`` is right of the other one."""
        kept = (row for row in self.landed if row["customerid"] != str(ERASED))
        return _counted(row | (right if row["customerid"] == str(RIGHTED) else {}) for row in kept)

    def rows(self, role: str = "") -> Counter[tuple[Any, ...]]:
        return _counted(self.project.rows(f"{TABLE}{role}"))

    def opened(self) -> Project:
        return activate(Project.load(str(self.project.path / "conf"), None))


def _counted(rows: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple((n, row[n]) for n in sorted(row) if not n.startswith("_")) for row in rows)


@contextmanager
def going_on(shop: Shop) -> Iterator[subprocess.Popen[bytes]]:
    """Two writers land records, and the loop ingests them, until the block ends."""
    stop = threading.Event()

    def write(seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - reproducible
        while not stop.wait(1.0):
            shop.land(chance)

    kedro = str(Path(sys.executable).with_name("kedro"))
    writers = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    with (shop.project.path / "loop.txt").open("wb") as log:
        words = [kedro, "lakehouse", "stream", "--every", "1 s"]
        with subprocess.Popen(
            words, cwd=shop.project.path, env=environment(), stdout=log, stderr=log, start_new_session=True
        ) as loop:
            for writer in writers:
                writer.start()
            try:
                yield loop
            finally:
                stop.set()
                for writer in writers:
                    writer.join()
                loop.send_signal(signal.SIGTERM)
                assert loop.wait(PATIENCE) == 0, (shop.project.path / "loop.txt").read_text()[-2000:]


@pytest.fixture(
    scope="module",
    params=FORMATS,
)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The example after its first run, in its own folder."""
    project = TemporaryProject.of_example("erasure", tmp_path_factory.mktemp("shop") / "project")
    project.set_globals(table_format=request.param)
    project.write("credentials", {"erasure": {"key": "a key for the tests, long enough"}}, env="local")
    (project.path / "data/01_raw/requests/erasure_request").mkdir(parents=True)
    made = Shop(project, request.param)
    chance = random.Random(0)  # noqa: S311 - reproducible
    for _ in range(6):
        made.land(chance)
    with as_planned(project):
        project.run("ingestion", "cdc_merge")
    assert made.rows() == _counted(made.landed)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path)
        yield made


def test_a_customer_goes_while_others_keep_coming(shop: Shop) -> None:
    """Every reading meanwhile has all of the customer's rows that had come, or none; none fails."""
    opened = shop.opened()
    counts: list[int] = []

    def count() -> int:
        text = f"select count(*) from {TABLE} where customerid = '{ERASED}'"
        if shop.table_format == "iceberg":
            ((found,),) = run_query(opened.catalog, text).rows
        else:  # Spark alone reads the others
            ((found,),) = spark_answer(opened, text, limit=None).rows
        return int(found)

    def read() -> None:
        while len(counts) < READINGS or not done.is_set():
            counts.append(count())

    done, before = threading.Event(), len([row for row in shop.landed if row["customerid"] == str(ERASED)])
    with going_on(shop):
        _wait(lambda: "batch 2" in (shop.project.path / "loop.txt").read_text())
        reader = threading.Thread(target=read)
        reader.start()
        evidence = erase(opened, [str(ERASED)])
        _wait(lambda: shop.project.state(f"{TABLE}_quarantine") is not None)
        done.set()
        reader.join(3 * PATIENCE)
        assert len(counts) >= READINGS
        with_rows = list(itertools.takewhile(bool, counts))
        assert [before, *with_rows] == sorted([before, *with_rows])
        assert set(counts[len(with_rows) :]) == {0}
    shop.project.run("ingestion", "cdc_merge")
    assert evidence.is_done, (evidence.found, evidence.pending)
    assert evidence.removed
    assert shop.rows() == shop.expected()
    assert shop.rows("_changes") == shop.expected()
    refused = shop.project.rows(f"{TABLE}_quarantine")
    assert {(*row["_reasons"], row["_raw"]) for row in refused} == {("erased_subject", None)}


def test_no_file_but_those_that_landed_later_holds_the_customer(shop: Shop) -> None:
    wanted = Wanted.of([str(ERASED)], ["customerid"])
    lakehouse = str(shop.project.path / "data/lakehouse")
    assert [(one.path, one.hits) for one in search_files([lakehouse], wanted).found] == []
    later = search_files([str(shop.folder)], wanted).found
    assert 0 < len(later) == len(shop.project.rows(f"{TABLE}_quarantine"))
    assert erase(shop.opened(), [str(ERASED)]).is_done
    assert search_files([str(shop.folder)], wanted).found == []


def test_a_phone_number_is_corrected_and_nothing_else(shop: Shop) -> None:
    changed = rectify(shop.opened(), [str(RIGHTED)], {"phonenumber": "000"})
    assert {one.table for one in changed} == {TABLE, f"{TABLE}_changes"}
    assert shop.rows() == shop.expected(phonenumber="000")
    assert shop.rows("_changes") == shop.expected(phonenumber="000")


@only_in_soak
def test_a_request_in_a_file_is_met(shop: Shop) -> None:
    place = shop.project.path / "data/01_raw/requests/erasure_request/1.csv"
    place.write_text(f"request,customerid,due\n1,{RIGHTED},2099-12-31\n")
    with as_planned(shop.project):
        shop.project.run("ingestion", "cdc_merge")
    due = dt.datetime(2099, 12, 31, tzinfo=dt.UTC) if shop.table_format == "iceberg" else None
    asked = {"table": "icebergdemodb.erasure_request", "requests": 1, "due": due}
    assert asked in plan_run(shop.opened()).erasures
    shop.project.run("erasure")
    assert "requests" not in {key for one in plan_run(shop.opened()).erasures for key in one}
    assert not [row for row in shop.project.rows(TABLE) if row["customerid"] == str(RIGHTED)]
    assert shop.project.rows("icebergdemodb.erasure_request") == []
    assert str(RIGHTED) not in place.read_text()
    last = known_erasures(shop.opened().ops)[0]
    assert (last.status, last.due and last.due.year) == (DONE, 2099)
    assert shop.rows()


def _wait(is_so: Any) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.2)
