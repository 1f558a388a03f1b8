"""What befalls a pull: cut lines, refusals for a while, a full disk, an end that is asked for.

After each of them no row is lost or there twice, no half pull is listed, and nothing of it is left.
"""

from __future__ import annotations

import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from email.utils import formatdate
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs the extra sql")
import pyarrow.parquet as pq
from harness.jdbc import by_jdbc
from harness.processes import free_port
from harness.project import TemporaryProject, environment
from harness.proxy import Line, line_to
from harness.pulled import CREDENTIALS, DIALECTS, Shop, bound
from harness.rest_api import SECRET, RestApi, rest_api
from harness.soak import soaking

from kedro_lakehouse.errors import PlaceUnusableError, PullTooLargeError, SourceUnreachableError
from kedro_lakehouse.ingestion.pulling import pull_now
from kedro_lakehouse.pulls import retries
from kedro_lakehouse.pulls.sql.postgresql import server_at

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.sources

KINDS: Final = ("postgresql", "mariadb", "rest")
ROWS: Final = 3000
CUTS: Final = 100 if soaking() else 6
KEDRO: Final = str(Path(sys.executable).with_name("kedro"))
SOON: Final = 5.0
"""So many seconds after SIGTERM a process must have ended."""
OUTPUT: Final = "output.txt"
"""The file in the project that gets the output of a process."""


@dataclass
class Place:
    """Tables of one kind of source behind a line, in a project, each with ``ROWS`` rows."""

    kind: str
    project: TemporaryProject
    line: Line
    api: RestApi | None = None

    @property
    def landing(self) -> Path:
        return self.project.path.parent / "landing"

    def pull(self) -> int:
        """Pull in this process; the number of rows of the new pull."""
        (manifest,) = pull_now(bound(self.project, "a.thing")).values()
        return int(manifest.rows)

    def files(self) -> set[Path]:
        """All files but manifests that lie there."""
        return {f for f in self.landing.rglob("*") if f.is_file() and "_manifests" not in f.parts}

    def assert_whole(self, pulls: int) -> None:
        """So many pulls are listed, each with every row once, and no other file lies there."""
        files = bound(self.project, "a.thing").open_source().files()
        listed = [Path(file.path.removeprefix("file://")) for file in files]
        assert len(listed) == pulls
        for path in listed:
            assert sorted(ids_in(path)) == list(range(ROWS))
        assert self.files() == set(listed)


def ids_in(path: Path) -> list[int]:
    if path.suffix == ".json":
        return [json.loads(line)["id"] for line in path.read_bytes().splitlines()]
    found: list[int] = pq.read_table(path, partitioning=None)["id"].to_pylist()
    return found


def filled(dialect: str, server: Any) -> Shop:
    """A database with a table ``thing``."""
    shop = Shop(dialect, server)
    rows = ", ".join(f"({n}, '{'x' * 200}')" for n in range(ROWS))
    shop.script("CREATE TABLE thing (id int PRIMARY KEY, note text);")
    shop.script(f"INSERT INTO thing VALUES {rows};")
    return shop


@pytest.fixture(scope="module")
def with_postgresql(postgres: Any) -> Shop:
    return filled("postgresql", postgres)


@pytest.fixture(scope="module")
def with_jdbc(with_postgresql: Shop) -> Shop:
    return with_postgresql


@pytest.fixture(scope="module")
def with_mariadb(mariadb: Any) -> Shop:
    return filled("mariadb", mariadb)


@pytest.fixture(scope="module")
def with_nobody() -> Shop:
    """A database where nobody listens."""
    return Shop("mariadb", cast("Any", SimpleNamespace(port=free_port())))


@pytest.fixture(scope="module")
def with_rest() -> Iterator[RestApi]:
    """An API with as many records."""
    records = [json.dumps({"id": n, "note": "x" * 200}) for n in range(ROWS)]
    with rest_api(RestApi(records, auth="bearer", size=300)) as api:
        yield api


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Makes the place of a kind; more are keys of its source."""
    with ExitStack() as stack:

        def make(kind: str, **more: Any) -> Place:
            one, folder = request.getfixturevalue(f"with_{kind}"), tmp_path / kind
            port = one.port if kind == "rest" else one.server.port
            line = stack.enter_context(line_to(port))
            if kind == "jdbc":
                source = by_jdbc(one, str(folder / "landing"), port=line.port)
            elif kind == "rest":
                source = {
                    "type": "rest", "base_url": f"http://127.0.0.1:{line.port}/v1", "records": "data.items",
                    "paging": {"type": "cursor", "next": "meta.next", "parameter": "after"},
                    "auth": {"type": "bearer"}, "credentials": "api", "path": str(folder / "landing"),
                }  # fmt: skip
            else:
                source = one.source(str(folder / "landing"))
                source["connection"] = source["connection"] | {"port": line.port}
            tables = {"a.thing": {"source": kind, "entity": "thing", "keys": ["id"]}}
            project = TemporaryProject.make(folder / "project", {kind: source | more}, tables)
            secrets = dict.fromkeys(DIALECTS, CREDENTIALS) | {"api": {"token": SECRET}}
            project.write("credentials", secrets, env="local")
            return Place(kind, project, line, one if kind == "rest" else None)

        yield make


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses before the next attempt are short."""
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.005)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("kind", [*KINDS, *(["jdbc"] if soaking() else [])])
def test_lines_that_are_cut_at_random_bytes_lose_and_double_nothing(places: Any, kind: str) -> None:
    place, rng = places(kind), random.Random(26)  # noqa: S311 - a test's
    assert place.pull() == ROWS
    place.line.restart()
    assert place.pull() == ROWS  # a later pull of a process asks for less
    whole = place.line.passed
    for number in range(CUTS):
        if number % 2:
            server_at.cache_clear()  # as in a new process
        place.line.restart(cut_at=rng.randrange(whole - 1))
        assert place.pull() == ROWS
        assert place.line.cuts == number + 1
    place.assert_whole(2 + CUTS)


@pytest.mark.usefixtures("hurried")
def test_an_api_that_refuses_for_a_while_is_asked_again(places: Any) -> None:
    """Too many requests, with both forms of Retry-After, and errors of the server, in the middle of pages."""
    place = places("rest")
    api: RestApi = place.api
    pending = [
        (429, {"Retry-After": "0"}), (429, {"Retry-After": formatdate(time.time(), usegmt=True)}),
        (500, {}), (502, {}), (503, {"Retry-After": "0"}), (500, {}),
    ]  # fmt: skip
    with _answering(api, lambda n: (*pending.pop(), b"{}") if n % 3 == 2 and pending else None):
        assert place.pull() == ROWS
    assert pending == []
    place.assert_whole(1)


def test_an_api_that_fails_longer_than_the_budget_is_given_up_in_time(places: Any) -> None:
    place = places("rest", retry={"budget": "2 s"})
    begun = time.monotonic()
    with (
        _answering(place.api, lambda n: (500, {}, b"{}") if n > 3 else None),
        pytest.raises(SourceUnreachableError, match="500"),
    ):
        place.pull()
    assert time.monotonic() - begun < 4
    assert place.files() == set()
    assert place.pull() == ROWS
    place.assert_whole(1)


def _answering(api: RestApi, answer: Any) -> Any:
    """Answer so by the number of the request, counted from 1, while the block runs."""
    usual, begun = api.answer, len(api.asked)
    api.answer = lambda _path, _query: answer(len(api.asked) - begun)

    class Before:
        def close(self) -> None:
            api.answer = usual

    return closing(Before())


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_is_full_is_told_and_leaves_nothing(places: Any, kind: str) -> None:
    """A limit of the size of files stands for it: the same call fails, at the same place."""
    place = places(kind, retry={"budget": "1 s"})
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}));".format(
        100_000 if kind == "rest" else 3_000
    )
    done = _in_process(limit, place)
    assert done.returncode == 1, done.stderr[-2000:]
    assert PlaceUnusableError.code in done.stdout
    assert "File too large" in done.stdout
    place.assert_whole(0)
    assert place.pull() == ROWS
    place.assert_whole(1)


def _in_process(first: str, place: Place) -> subprocess.CompletedProcess[str]:
    """Pull in a process of its own, after a statement; its output has the error's code."""
    script = (
        f"{first} import sys; from pathlib import Path; from harness.pulled import bound;"
        "from harness.project import TemporaryProject; from kedro_lakehouse.errors import LakehouseError;"
        "from kedro_lakehouse.ingestion.pulling import pull_now\n"
        "try:\n    pull_now(bound(TemporaryProject(Path(sys.argv[1])), 'a.thing'))\n"
        "except LakehouseError as error:\n    print(error.code, error)\n    sys.exit(1)"
    )
    words = [sys.executable, "-c", script, str(place.project.path)]
    return subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("kind", "asked"), [*product(KINDS, [signal.SIGTERM, signal.SIGINT]), ("jdbc", signal.SIGINT)]
)
def test_a_process_that_is_asked_to_end_does_so_soon(places: Any, kind: str, asked: signal.Signals) -> None:
    """In an answer that has fallen silent; no half file stays, and the next pull is whole."""
    place = places(kind)
    assert place.pull() == ROWS
    files = place.files()
    half = place.line.passed // 2
    place.line.restart(silent_at=half)
    process = _pulling(place)
    _wait_for_silence(place, process)
    begun = time.monotonic()
    process.send_signal(asked)
    assert process.wait(SOON) != 0
    assert time.monotonic() - begun < SOON
    assert place.files() == files
    place.line.silent.clear()
    assert place.pull() == ROWS
    place.assert_whole(2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_has_fallen_silent_is_given_up_when_its_time_is_over(places: Any, kind: str) -> None:
    place = places(kind, limits={"time": "3 s"})
    assert place.pull() == ROWS
    place.line.restart(silent_at=place.line.passed // 2)
    begun = time.monotonic()
    with pytest.raises(PullTooLargeError, match=r"pull 2 .*0:00:03"):
        place.pull()
    assert time.monotonic() - begun < 3 + SOON
    place.line.silent.clear()
    assert place.pull() == ROWS
    place.assert_whole(2)


def test_a_loop_ends_soon_whose_source_has_fallen_silent(places: Any) -> None:
    place = places("rest")
    assert place.pull() == ROWS
    shutil.rmtree(place.landing)  # or the loop would wait for five minutes until it pulls again
    place.line.restart(silent_at=place.line.passed // 2)
    process = _pulling(place, "stream", "--every", "1 s")
    _wait_for_silence(place, process)
    process.send_signal(signal.SIGTERM)
    process.wait(SOON)
    assert place.files() == set()


def _pulling(place: Place, *command: str) -> subprocess.Popen[bytes]:
    words = [KEDRO, "lakehouse", *(command or ("pull", "a.thing"))]
    with (place.project.path / OUTPUT).open("w", encoding="utf-8") as output:
        return subprocess.Popen(
            words, cwd=place.project.path, env=environment(), stdout=output, stderr=output
        )


def _wait_for_silence(place: Place, process: subprocess.Popen[bytes]) -> None:
    """Wait until the source has fallen silent; if the process ends before, fail with its output."""
    while not place.line.silent.wait(0.05):
        output = (place.project.path / OUTPUT).read_text(encoding="utf-8")
        assert process.poll() is None, output


def test_at_a_terminal_it_is_said_what_is_waited_for_and_ctrl_c_ends_it(places: Any) -> None:
    """The declared budget of ten minutes is a run's: someone at a terminal waits half a minute at most."""
    place = places("nobody")
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [KEDRO, "lakehouse", "pull", "a.thing"], cwd=place.project.path, env=environment(),
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    told = ""
    while "Ctrl-C ends it" not in told:
        told += os.read(controller, 4096).decode()
    found = re.search(r"a\.thing: (.+)\. It is asked again in [0-9.]+ s, and given up\s+in (\d+) s", told)
    assert found is not None, told
    assert 28 <= int(found[2]) <= 30
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(SOON) != 0
    assert time.monotonic() - begun < SOON
    os.close(controller)
    assert place.files() == set()


def test_elsewhere_the_declared_budget_holds_unless_another_is_given(places: Any) -> None:
    place = places("nobody", retry={"budget": "2 s"})
    for words, longest in (((), 2), (("--wait", "1 s"), 1)):
        begun = time.monotonic()
        done = subprocess.run(
            [KEDRO, "lakehouse", "pull", "a.thing", *words, "--json"],
            cwd=place.project.path, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "SOURCE_UNREACHABLE" in done.stderr
        for found in re.findall(r"given up in (\d+) s", done.stderr):
            assert int(found) <= longest
        assert time.monotonic() - begun < 30
