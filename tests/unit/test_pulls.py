"""Pulls without a server: manifests, names, retries, limits, due times, and what declarations may say."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from kedro_lakehouse.config.databases import SqlSourceConfig
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.pulls import PullConfig
from kedro_lakehouse.config.sources import ExtractSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.deploy.access import statements
from kedro_lakehouse.deploy.deployment import Deployment, Place
from kedro_lakehouse.deploy.platforms import platform_of
from kedro_lakehouse.errors import (
    ConfigurationError,
    PullTooLargeError,
    PullUnstableError,
    SourceChangedError,
    SourceRefusedError,
    SourceUnreachableError,
    TypeNotExactError,
)
from kedro_lakehouse.names import SNAPSHOT_ID, TableName
from kedro_lakehouse.pulls import run
from kedro_lakehouse.pulls.errors import InexactFault, TerminalFault, TransientFault, UnstableFault
from kedro_lakehouse.pulls.landing import LandingFile
from kedro_lakehouse.pulls.manifest import Manifest, SealedPulls
from kedro_lakehouse.pulls.protocol import Chunk, Entity, Pull, PullCapabilities, Since, window_begin
from kedro_lakehouse.pulls.retries import Retries, Wait
from kedro_lakehouse.pulls.run import TablePulls, pull_together
from kedro_lakehouse.testing.pulls import PulledSourceContract

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.unit

NAME = TableName("shop", "item")


class Shelf:
    """A source that is no database: rows in memory, with a clock that ticks at each change."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str | None, datetime]] = {}
        self.now, self.version = datetime(2024, 1, 31, 6, tzinfo=UTC), 1
        self.faults: list[Exception] = []
        self.asked = 0

    def put(self, rows: dict[int, str | None]) -> None:
        self.rows |= {number: (name, self.now) for number, name in rows.items()}

    def remove(self, *ids: int) -> None:
        for number in ids:
            self.rows.pop(number, None)

    def settle(self) -> None:
        self.now += timedelta(seconds=1)

    def make_anew(self) -> bool:
        self.rows, self.version = {}, self.version + 1
        return True


class ShelfConfig(PulledSourceConfig):
    """A shelf."""

    lands: ClassVar[Any] = "json"


class ShelfSource:
    """What a third party writes: about forty lines."""

    config_model: ClassVar[type[ShelfConfig]] = ShelfConfig
    capabilities: ClassVar[PullCapabilities] = PullCapabilities(
        modes=frozenset({"full", "incremental", "snapshot"}), lands="json", resumes=True
    )
    shelf: Shelf

    def __init__(
        self, config: ShelfConfig, name: TableName, table: TableConfig, credentials: Mapping[str, Any]
    ) -> None:
        self._config, self._table, self._credentials = config, table, credentials

    def describe(self) -> Entity:
        return Entity()

    def plan(self, since: Since) -> Pull | None:
        self.shelf.asked += 1
        if self._credentials.get("password", "right") != "right":
            raise TerminalFault("the password is wrong")
        begin = (
            window_begin(since, self._config.pull_of(self._table)) if since.mode == "incremental" else None
        )
        identity = {"server": "shelf", "table": str(self.shelf.version)}
        return Pull(from_=begin, to=self.shelf.now.isoformat(), identity=identity)

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        begin = datetime.fromisoformat(pull.from_) if pull.from_ else datetime.min.replace(tzinfo=UTC)
        is_window = self._config.mode_of(self._table) == "incremental"
        end = datetime.fromisoformat(str(pull.to)) if is_window else datetime.max.replace(tzinfo=UTC)
        after = state["id"] if state else -1
        rows = [(n, *r) for n, r in sorted(self.shelf.rows.items()) if n > after and begin <= r[1] < end]
        for some in (rows[begin : begin + 100] for begin in range(0, len(rows), 100)):
            yield Chunk(rows=[_line(*row) for row in some], state={"id": some[-1][0]})
            if self.shelf.faults:
                raise self.shelf.faults.pop(0)

    def close(self) -> None:
        pass


def _line(number: int, name: str | None, time: datetime) -> bytes:
    return json.dumps({"id": number, "name": name, "updated_at": time.isoformat()}).encode()


class TestShelf(PulledSourceContract):
    """The contract of a source of a third party."""

    @pytest.fixture
    def origin(self) -> Shelf:
        return Shelf()

    def declared(self, origin: Any, mode: Any, folder: str) -> tuple[ShelfConfig, TableName, TableConfig]:
        pull = PullConfig(
            mode=mode,
            cursor="updated_at" if mode == "incremental" else None,
            late="open_transactions" if mode == "incremental" else None,
        )
        table = TableConfig(source="s", entity="item", keys=("id",), pull=pull)
        return ShelfConfig(type="shelf", path=folder), NAME, table

    def opened(self, origin: Any, mode: Any, folder: str, **credentials: str) -> ShelfSource:
        source = ShelfSource(*self.declared(origin, mode, folder), credentials)
        source.shelf = origin
        return source


def pulls(
    shelf: Shelf,
    folder: Path,
    stopping: threading.Event | None = None,
    *,
    pull: dict[str, Any] | None = None,
    **declared: Any,
) -> TablePulls:
    """The pulls of a shelf."""
    config = ShelfConfig(type="shelf", path=str(folder), **declared)
    mode = (pull or {}).get("mode", config.mode)
    keys = {"write": "append"} if mode == "snapshot" else {"keys": ("id",)}
    table = TableConfig(source="s", entity="item", pull=PullConfig(**pull) if pull else None, **keys)
    table = config.completed(table)

    def make() -> ShelfSource:
        source = ShelfSource(config, NAME, table, {})
        source.shelf = shelf
        return source

    sealed = SealedPulls(str(folder), str(NAME))
    return TablePulls(NAME, table, config, make=make, sealed=sealed, stopping=stopping)


@pytest.fixture
def shelf() -> Shelf:
    found = Shelf()
    found.put(dict.fromkeys(range(250), "x"))
    return found


class Patience(threading.Event):
    """Remembers the pauses before a source is asked again, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        return False


def test_a_source_that_fails_in_the_middle_is_gone_on_with(shelf: Shelf, tmp_path: Path) -> None:
    shelf.faults, patience = [TransientFault("lost"), TransientFault("lost again")], Patience()
    (manifest,) = pull_together([pulls(shelf, tmp_path, patience)]).values()
    assert (manifest.number, manifest.rows, shelf.asked) == (1, 250, 1)
    first, second = patience.pauses
    assert 0 < first <= 1 < 2 * second <= 4


def test_the_wait_that_a_source_asks_for_is_kept(shelf: Shelf, tmp_path: Path) -> None:
    shelf.faults, patience = [TransientFault("too many requests", retry_after=17)], Patience()
    pull_together([pulls(shelf, tmp_path, patience)])
    assert patience.pauses == [17.0]


def test_a_longer_wait_than_the_budget_ends_the_pull(shelf: Shelf, tmp_path: Path) -> None:
    shelf.faults, patience = [TransientFault("too many requests", retry_after=61)], Patience()
    with pytest.raises(SourceUnreachableError, match="too many requests"):
        pull_together([pulls(shelf, tmp_path, patience, retry={"budget": "1 min"})])
    assert patience.pauses == []
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (TerminalFault("no right", "Grant it."), SourceRefusedError),
        (UnstableFault("pages moved"), PullUnstableError),
        (InexactFault("a value of x does not fit", "Read x as text."), TypeNotExactError),
    ],
)
def test_what_stays_is_tried_once(
    shelf: Shelf, tmp_path: Path, fault: Exception, error: type[Exception]
) -> None:
    shelf.faults = [fault, AssertionError("asked again")]
    with pytest.raises(error, match=str(fault)):
        pull_together([pulls(shelf, tmp_path)])
    assert len(shelf.faults) == 1
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


@pytest.mark.parametrize("limits", [{"rows": 249}, {"bytes": 100}])
def test_a_pull_over_its_limits_is_given_up(shelf: Shelf, tmp_path: Path, limits: dict[str, int]) -> None:
    with pytest.raises(PullTooLargeError):
        pull_together([pulls(shelf, tmp_path, limits=limits)])
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


def test_a_pull_that_takes_too_long_is_ended(shelf: Shelf, tmp_path: Path, monkeypatch: Any) -> None:
    closed = threading.Event()
    monkeypatch.setattr(ShelfSource, "close", lambda _: closed.set())

    def read(*_: object) -> Iterator[Chunk]:
        assert closed.wait(10)
        raise TransientFault("the connection was closed")
        yield

    monkeypatch.setattr(ShelfSource, "read", read)
    with pytest.raises(PullTooLargeError, match="0:00:01"):
        pull_together([pulls(shelf, tmp_path, limits={"time": "1 s"})])


def test_a_pull_whose_source_is_silent_ends_with_the_process(
    shelf: Shelf, tmp_path: Path, monkeypatch: Any
) -> None:
    """Also one that takes being closed for the end of its rows."""
    closed, asked_to_end = threading.Event(), threading.Event()
    monkeypatch.setattr(ShelfSource, "close", lambda _: closed.set())

    def read(*_: object) -> Iterator[Chunk]:
        yield Chunk(rows=[b'{"id": 1}'], state={"id": 1})
        asked_to_end.set()
        assert closed.wait(10)

    monkeypatch.setattr(ShelfSource, "read", read)
    begun = time.monotonic()
    with pytest.raises(SourceUnreachableError, match="asked to end"):
        pull_together([pulls(shelf, tmp_path, asked_to_end)])
    assert time.monotonic() - begun < 5
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


def test_pauses_are_told_with_what_is_left_of_the_budget(shelf: Shelf, tmp_path: Path) -> None:
    shelf.faults, patience = [TransientFault("lost"), TransientFault("busy", retry_after=31)], Patience()
    told: list[Wait] = []
    retries = Retries(timedelta(seconds=30), told.append)
    with pytest.raises(SourceUnreachableError, match="busy"):
        pull_together([pulls(shelf, tmp_path, patience)], retries=retries)
    (wait,) = told
    assert (wait.table, wait.reason, wait.left) == (NAME, "lost", 30)
    assert patience.pauses == [wait.seconds]


@pytest.mark.parametrize(
    ("every", "minutes", "due"),
    [("1 h", 55.1, True), ("1 h", 54.9, False), ("10 min", 9.1, True), ("10 min", 8.9, False)],
)
def test_a_schedule_as_long_as_every_finds_each_pull_due(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: str, minutes: float, due: bool
) -> None:
    """It comes some seconds early, or the last pull took some: both count from the begin."""
    pull_together([pulls(shelf, tmp_path, every=every)])
    monkeypatch.setattr(run, "_looked", {})
    found = pulls(shelf, tmp_path, every=every)
    sealed_at = (datetime.now(UTC) - timedelta(minutes=minutes - 1)).isoformat()
    last = replace(found.sealed.read(1), sealed_at=sealed_at, seconds=60.0)
    monkeypatch.setattr(found.sealed, "last", lambda: last)
    assert found.is_due() is due


def test_another_server_is_refused_and_accepted_by_command(shelf: Shelf, tmp_path: Path) -> None:
    window = {"mode": "incremental", "cursor": "updated_at", "late": "open_transactions"}
    shelf.settle()
    pull_together([pulls(shelf, tmp_path, pull=window)])
    shelf.make_anew()
    shelf.put({1: "new"})
    shelf.settle()
    with pytest.raises(SourceChangedError, match="its table was 1 at pull 1, and is 2"):
        pull_together([pulls(shelf, tmp_path, pull=window)])
    (manifest,) = pull_together([pulls(shelf, tmp_path, pull=window)], accept=True).values()
    assert (manifest.number, manifest.from_, manifest.rows) == (2, None, 1)


def test_a_full_pull_takes_a_table_that_was_made_anew(shelf: Shelf, tmp_path: Path) -> None:
    pull_together([pulls(shelf, tmp_path)])
    shelf.make_anew()
    (manifest,) = pull_together([pulls(shelf, tmp_path)]).values()
    assert (manifest.number, manifest.rows) == (2, 0)


def test_a_clock_that_goes_back_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    window = {"mode": "incremental", "cursor": "updated_at", "late": "open_transactions"}
    shelf.settle()
    pull_together([pulls(shelf, tmp_path, pull=window)])
    shelf.now -= timedelta(hours=1)
    with pytest.raises(SourceChangedError, match="its time has gone back"):
        pull_together([pulls(shelf, tmp_path, pull=window)])


def test_windows_begin_where_the_last_one_ended_less_the_overlap(shelf: Shelf, tmp_path: Path) -> None:
    window = {"mode": "incremental", "cursor": "updated_at", "late": {"overlap": "1 min"}}
    shelf.settle()
    (first,) = pull_together([pulls(shelf, tmp_path, pull=window)]).values()
    shelf.settle()
    (second,) = pull_together([pulls(shelf, tmp_path, pull=window)]).values()
    assert first.from_ is None
    assert second.from_ == "2024-01-31T05:59:01+00:00"


def test_an_empty_window_is_not_sealed(shelf: Shelf, tmp_path: Path) -> None:
    window = {"mode": "incremental", "cursor": "updated_at", "late": "open_transactions"}
    shelf.settle()
    pull_together([pulls(shelf, tmp_path, pull=window)])
    shelf.settle()
    assert pull_together([pulls(shelf, tmp_path, pull=window)]) == {}
    shelf.put({1: "later"})
    shelf.settle()
    (manifest,) = pull_together([pulls(shelf, tmp_path, pull=window)]).values()
    assert (manifest.number, manifest.from_, manifest.rows) == (2, "2024-01-31T06:00:01+00:00", 1)


def test_another_cursor_begins_again(shelf: Shelf, tmp_path: Path) -> None:
    window = {"mode": "incremental", "cursor": "updated_at", "late": "open_transactions"}
    shelf.settle()
    pull_together([pulls(shelf, tmp_path, pull=window)])
    shelf.settle()
    (manifest,) = pull_together([pulls(shelf, tmp_path, pull=window | {"cursor": "id"})]).values()
    assert (manifest.number, manifest.from_, manifest.rows) == (2, None, 250)


def test_rows_of_the_ledger_stand_for_manifests_that_are_gone(shelf: Shelf, tmp_path: Path) -> None:
    window = {"mode": "incremental", "cursor": "updated_at", "late": "open_transactions"}
    found = pulls(shelf, tmp_path, pull=window)
    found._planned = lambda: (7, "2024-01-31T05:00:00+00:00")
    assert (found.since().number, found.since().to) == (7, "2024-01-31T05:00:00+00:00")


def test_a_pull_is_due_when_the_last_one_is_long_ago(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pulls(shelf, tmp_path).is_due()
    pull_together([pulls(shelf, tmp_path)])
    assert pulls(shelf, tmp_path).is_due()  # without `every`, each run pulls
    monkeypatch.setattr(run, "_looked", {})
    assert not pulls(shelf, tmp_path, every="1 h").is_due()
    assert pulls(shelf, tmp_path, every="0 s").is_due()
    assert pulls(shelf, tmp_path, every="1 h", pull={"mode": "snapshot"}).is_due()  # declared anew


def test_a_loop_does_not_ask_all_the_time(shelf: Shelf, tmp_path: Path) -> None:
    usual = timedelta(minutes=5)
    assert pulls(shelf, tmp_path).is_due(usual)
    pull_together([pulls(shelf, tmp_path)])
    assert not pulls(shelf, tmp_path).is_due(usual)
    assert pulls(shelf, tmp_path).is_due(timedelta(0))


def test_each_row_of_a_snapshot_names_it(shelf: Shelf, tmp_path: Path) -> None:
    (manifest,) = pull_together([pulls(shelf, tmp_path, pull={"mode": "snapshot"})]).values()
    lines = (tmp_path / manifest.files[0].path).read_bytes().splitlines()
    assert len(lines) == 250
    assert lines[0].startswith(b'{"_snapshot_id":"20240131T060000Z-000001","id": 0')
    assert pulls(shelf, tmp_path, pull={"mode": "snapshot"}).table.partition_by == (SNAPSHOT_ID,)


def test_files_lie_as_the_layout_says(shelf: Shelf, tmp_path: Path) -> None:
    layout = "InputDataSetName={entity}/Year=%Y/Month=%m/Date=%d"
    (manifest,) = pull_together([pulls(shelf, tmp_path, layout=layout)]).values()
    folder = "InputDataSetName=item/Year=2024/Month=01/Date=31/pull=000001/20240131T060000000000Z-000001-"
    assert manifest.files[0].path.startswith(folder)


def test_tables_in_one_state_are_all_landed_before_the_first_is_sealed(shelf: Shelf, tmp_path: Path) -> None:
    both = [pulls(shelf, tmp_path / name) for name in ("a", "b")]
    shelf.faults = [TerminalFault("the first is fine"), TerminalFault("no right")][1:]
    both[1], both[0] = both
    with pytest.raises(SourceRefusedError):
        pull_together(both)
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


class Tagged(pa.ExtensionType):
    """A type that a driver registers."""

    def __init__(self) -> None:
        super().__init__(pa.string(), "test.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Tagged:
        return cls()


def test_parquet_needs_a_chunk_that_tells_the_columns(tmp_path: Path) -> None:
    file = LandingFile(str(tmp_path), "item/a.parquet", snapshot=None)
    with pytest.raises(TerminalFault, match="gave no chunk"):
        file.close()


def test_a_chunk_of_other_columns_is_refused_though_it_is_the_last(tmp_path: Path) -> None:
    file = LandingFile(str(tmp_path), "item/a.parquet", snapshot=None)
    file.add(Chunk(rows=pa.table({"id": [1]})))
    file.add(Chunk(rows=pa.table({"name": ["x"]})))
    with pytest.raises(InexactFault, match="changed while they were read"):
        file.close()
    file.discard()
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == []


def test_parquet_holds_storage_types(tmp_path: Path) -> None:

    tagged = pa.ExtensionArray.from_storage(Tagged(), pa.array(["1.10", None]))
    file = LandingFile(str(tmp_path), "a/x.parquet", snapshot="s1")
    file.add(Chunk(rows=pa.table({"n": tagged})))
    landed = file.close()
    found = pq.read_table(tmp_path / "a/x.parquet", partitioning=None)
    assert found.schema.field("n").type == pa.string()
    assert found.to_pylist() == [{"n": "1.10", "_snapshot_id": "s1"}, {"n": None, "_snapshot_id": "s1"}]
    assert (landed.rows, landed.size) == (2, (tmp_path / "a/x.parquet").stat().st_size)


def test_what_a_killed_attempt_has_landed_goes_with_the_next_seal(shelf: Shelf, tmp_path: Path) -> None:
    killed = pulls(shelf, tmp_path)
    killed.land()  # and no more of it
    other = tmp_path / "item/pull=000001/20240131T060000000000Z-000001-00aa00aa00aa.json"
    other.write_text("of another table of the same entity")
    (manifest,) = pull_together([pulls(shelf, tmp_path)]).values()
    found = {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*.json") if "_manifests" not in str(f)}
    assert found == {manifest.files[0].path, str(other.relative_to(tmp_path))}


def test_a_kill_right_after_the_seal_leaves_nothing_for_long(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls(shelf, tmp_path).land()
    with monkeypatch.context() as killed:
        killed.setattr(TablePulls, "_tidy", lambda *_: None)
        pull_together([pulls(shelf, tmp_path)])
    assert len(list(tmp_path.rglob("pull=000001/*"))) == 2
    pull_together([pulls(shelf, tmp_path)])
    assert len(list(tmp_path.rglob("pull=00000?/*"))) == 2


def test_runs_that_tidy_together_leave_nothing_where_one_is_killed(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        pulls(shelf, tmp_path).land()  # and killed
    remove, removed_by_another = LocalFileSystem.rm_file, list[str]()

    def rm_file(self: LocalFileSystem, path: str) -> None:
        if not removed_by_another:  # by one that is killed then
            removed_by_another.append(path)
            remove(self, path)
        remove(self, path)

    monkeypatch.setattr(LocalFileSystem, "rm_file", rm_file)
    (manifest,) = pull_together([pulls(shelf, tmp_path)]).values()
    assert removed_by_another
    found = [str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*.json") if "_manifests" not in str(f)]
    assert found == [manifest.files[0].path]


def test_of_many_that_seal_one_number_one_wins(shelf: Shelf, tmp_path: Path) -> None:
    pullers = [pulls(shelf, tmp_path) for _ in range(20)]
    for one in pullers:
        one.land()
    sealed: list[Any] = []
    threads = [threading.Thread(target=lambda p=p: sealed.append(p.seal())) for p in pullers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([one for one in sealed if one is not None]) == 1


def test_a_pull_that_is_at_its_seal_keeps_its_file_though_it_is_released(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is asked to end releases a pull whose own thread may just seal it."""
    one, seal = pulls(shelf, tmp_path), SealedPulls.seal

    def while_it_is_released(sealed: SealedPulls, manifest: Manifest) -> bool:
        one.release()
        return seal(sealed, manifest)

    monkeypatch.setattr(SealedPulls, "seal", while_it_is_released)
    one.land()
    manifest = one.seal()
    assert manifest is not None
    assert (tmp_path / manifest.files[0].path).is_file()
    one.land()
    one.release()
    assert one.seal() is None
    assert len([file for file in tmp_path.rglob("*") if file.is_file()]) == 2


SQL = {
    "type": "sql",
    "dialect": "postgresql",
    "connection": {"host": "db"},
    "path": "p",
    "credentials": "erp",
}


@pytest.mark.parametrize(
    ("source", "table", "key", "words"),
    [
        (
            {},
            {"keys": ["id"], "pull": {"mode": "incremental"}},
            "tables.yml: shop.item.pull.cursor",
            "cursor",
        ),
        ({"mode": "incremental"}, {"write": "append"}, "tables.yml: shop.item.keys", "without keys"),
        ({}, {"keys": ["id"], "pull": {"cursor": "t"}}, "tables.yml: shop.item.pull.cursor", "no window"),
        ({"mode": "snapshot"}, {"keys": ["id"]}, "tables.yml: shop.item.write", "beside each other"),
        ({}, {"write": "append"}, "tables.yml: shop.item.write", "would be added"),
        ({}, {"keys": ["id"], "pull": {"curser": "t"}}, "tables.yml: shop.item.pull.curser", "'cursor'"),
        ({}, {"keys": ["id"], "pull": {"late": "5"}}, "tables.yml: shop.item.pull.late", "overlap"),
        ({}, {"keys": ["id"], "pull": 5}, "tables.yml: shop.item.pull", "keys"),
        (
            {"connection": {"password": "x"}},
            {"keys": ["id"]},
            "sources.yml: erp.connection.password",
            "secret",
        ),
        ({"layout": "../x"}, {"keys": ["id"]}, "sources.yml: erp.layout", "leaves"),
    ],
)
def test_what_does_not_fit_is_refused(source: Any, table: Any, key: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        declarations({"erp": SQL | source}, {"shop.item": {"source": "erp"} | table})
    assert f"{told.value.file}: {told.value.key}" == key
    assert words in str(told.value)


def test_a_source_that_is_not_asked_has_no_pull() -> None:
    extract = {"type": "extract", "path": "p", "extract_time": {"from": "modified"}}
    with pytest.raises(ConfigurationError, match="they arrive"):
        declarations({"erp": extract}, {"shop.item": {"source": "erp", "keys": ["id"], "pull": {}}})


def test_the_cursor_is_the_order() -> None:
    pull = {"mode": "incremental", "cursor": "updated_at"}
    found = declarations({"erp": SQL}, {"shop.item": {"source": "erp", "keys": ["id"], "pull": pull}})
    assert found.tables[NAME].order_by == ("updated_at",)


def test_a_job_on_aws_may_write_where_it_lands_what_it_pulls() -> None:
    place = Place("landing", "erp")
    deployment = Deployment(
        name="n", package="n", env="aws", lakehouse=Place("lake", "l"), landing=(place,), lifetimes={},
        namespaces=("shop",), platform=platform_of({}), formats=("iceberg",), pulled=(place,),
    )  # fmt: skip
    rights = {one["Sid"]: one for one in statements(deployment)}
    assert rights["Pulls1"]["Action"] == ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    assert "/erp/*" in str(rights["Pulls1"]["Resource"])


def declarations(sources: Any, tables: Any) -> Any:
    """Checked declarations."""
    models: Any = {"sql": SqlSourceConfig, "extract": ExtractSourceConfig}
    return load_declarations(sources, tables, models)
