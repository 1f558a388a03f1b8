"""Hudi tables through real runs: both table types, side by side, with one that changes its columns."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.formats import context_of
from harness.project import TemporaryProject, write_parquet

from kedro_lakehouse.errors import ClockBehindError, CommitConflictError, UnsupportedError
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.formats.hudi import timeline as hudi_timeline
from kedro_lakehouse.formats.hudi.format import HudiFormat
from kedro_lakehouse.formats.hudi.table import HudiTable
from kedro_lakehouse.names import TableName
from kedro_lakehouse.testing import report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kedro_lakehouse.formats.base import TableState

pytestmark = pytest.mark.spark

SOURCES = {
    "shop": {
        "type": "dms", "path": "${globals:landing}/shop",
        "sequence_column": "seq", "timestamp_column": "ts",
    }
}  # fmt: skip
ROW = {"id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string()}
# Each commit cleans and archives all that Hudi lets it.
FORGETFUL = {
    "hoodie.clean.commits.retained": "1", "hoodie.commits.archival.batch": "1",
    "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
}  # fmt: skip
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
ITEM: dict[str, Any] = {"source": "shop", "entity": "item", "keys": ["id"], "history": True}
TABLES = {
    "cow.item": ITEM | {"partition_by": ["name"]},
    "mor.item": ITEM | {"properties": MERGE_ON_READ, "sort_by": ["name", "id"]},
    "db.object": {"source": "shop", "entity": "object", "keys": ["object_id"], "properties": FORGETFUL},
}
STORED = [f"{n}.item{s}" for n in ("cow", "mor") for s in ("", "_history", "_changes")]
OBJECT = {
    "object_name": pa.string(), "object_description": pa.string(), "new_column_add": pa.string(),
    "new_field_1": pa.string(), "object_id": pa.int32(), "ts": pa.timestamp("us"), "seq": pa.string(),
}  # fmt: skip
ADDED = {"object_name": pa.string(), "test_column": pa.int32(), **OBJECT}
RENAMED = {"new_field_2" if n == "new_field_1" else n: t for n, t in ADDED.items()}
DROPPED = {n: t for n, t in RENAMED.items() if n != "new_field_2"}


def at(second: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, 0, 0, second)  # noqa: DTZ001 - zone-less, as DMS writes it


def land(project: TemporaryProject, batch: int, events: Sequence[tuple[str, int, str | None, int]]) -> None:
    rows = [{"Op": o, "id": i, "name": n, "ts": at(s), "seq": str(s)} for o, i, n, s in events]
    name = f"20260101-00000{batch}000.parquet"
    write_parquet(project.landing / f"shop/item/{name}", rows, {"Op": pa.string(), **ROW})


def land_object(project: TemporaryProject, key: int, columns: dict[str, pa.DataType]) -> None:
    """One inserted row; every text is its column's name and the row's key."""
    row = {n: f"{n} {key}" if t == pa.string() else key for n, t in columns.items()}
    row |= {"Op": "I", "ts": at(key), "seq": str(key)}
    name = f"20260101-00000{key}000.parquet"
    write_parquet(project.landing / f"shop/object/{name}", [row], {"Op": pa.string(), **columns})


def commits(project: TemporaryProject, tables: Sequence[str] = STORED) -> list[int]:
    return [project.state(table).snapshot_id for table in tables]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    """Five runs: inserts, changes of them, late events, further ones, and one of the other table alone."""
    made = TemporaryProject.make(tmp_path_factory.mktemp("hudi") / "project", SOURCES, TABLES, env="hudi")
    made.write("maintenance", {"compact": {"small_files": 2}})
    batches: list[list[tuple[str, int, str | None, int]]] = [
        [("I", i, f"n{i}", i) for i in range(1, 5)],
        [("U", 1, "new", 10), ("D", 2, None, 11), ("I", 9, "n9", 12), ("?", 6, "x", 13)],
        [("U", 1, "between", 7), ("U", 3, "later", 20)],
        [("I", 5, None, 30), ("D", 4, None, 31)],
    ]
    for number, events in enumerate(batches):
        land(made, number + 1, events)
        if number < 3:
            land_object(made, number + 1, [OBJECT, ADDED, RENAMED][number])
        made.run()
    return made


@pytest.mark.parametrize("namespace", ["cow", "mor"])
def test_one_commit_upserts_and_deletes(project: TemporaryProject, namespace: str) -> None:
    rows = sorted((r["id"], r["name"]) for r in project.rows(f"{namespace}.item"))
    assert rows == [(1, "new"), (3, "later"), (5, None), (9, "n9")]
    assert project.state(f"{namespace}.item").rows == 4
    versions = sorted(
        (
            r["id"],
            r["name"] or "",
            int(r["_order_from"]["seq"]),
            r["_order_to"] and int(r["_order_to"]["seq"]),
        )
        for r in project.rows(f"{namespace}.item_history")
    )
    assert versions == [
        (1, "between", 7, 10), (1, "n1", 1, 7), (1, "new", 10, None), (2, "n2", 2, 11),
        (3, "later", 20, None), (3, "n3", 3, 20), (4, "n4", 4, 31), (5, "", 30, None), (9, "n9", 12, None),
    ]  # fmt: skip
    assert project.state(f"{namespace}.item_history").rows == len(versions)
    assert sorted(r["_batch"] for r in project.rows(f"{namespace}.item_changes")) == sorted(
        [1] * 4 + [2] * 3 + [3] * 2 + [4] * 2
    )


def test_columns_come_and_go_without_a_statement(project: TemporaryProject) -> None:
    others = commits(project)
    land_object(project, 4, DROPPED)
    project.run()
    assert commits(project) == others
    named = ["object_name", "test_column", "new_field_1", "new_field_2"]
    rows = sorted((r["object_id"], *(r[c] for c in named)) for r in project.rows("db.object"))
    assert rows == [
        (1, "object_name 1", None, "new_field_1 1", None), (2, "object_name 2", 2, "new_field_1 2", None),
        (3, "object_name 3", 3, None, "new_field_2 3"), (4, "object_name 4", 4, None, None),
    ]  # fmt: skip
    shown = _format(project).sql(TableName("db", "object"))
    assert set(named) < set(project._project.session.table(shown.replace("`", "")).columns)


def test_the_list_of_tables_tells_keys_and_loads(
    project: TemporaryProject, answer: Callable[..., Any]
) -> None:
    told = {row["table"]: row for row in answer("tables")}
    assert {t: (r["record_key"], r["partition_key"], r["load"], r["state"]) for t, r in told.items()} == {
        "cow.item": (["id"], ["name"], "delta", "fresh"),
        "mor.item": (["id"], [], "delta", "fresh"),
        "db.object": (["object_id"], [], "delta", "fresh"),
    }  # fmt: skip


def test_a_table_as_it_was(project: TemporaryProject) -> None:
    lake, name = _format(project), TableName("cow", "item")
    own = [r for r in project.ops("batches") if (r["table"], r["stage"]) == ("cow.item", "current")]
    first, second, *_ = sorted(own, key=lambda r: r["batch"])
    query = f"SELECT id, name FROM {lake.rows_at(name, first['snapshot_id'])}"  # the format quotes
    assert sorted(map(tuple, project._project.session.sql(query).collect())) == [
        (i, f"n{i}") for i in range(1, 5)
    ]
    earlier = lake.read_at(name, second["committed_at"])  # told just before that commit
    assert earlier.count() == 4
    assert lake.holds_snapshot(name, first["snapshot_id"])


@pytest.mark.parametrize("namespace", ["cow", "mor"])
def test_what_changed_since_a_time_is_asked_by_hudis_incremental_query(
    project: TemporaryProject, namespace: str
) -> None:
    told = [r for r in project.ops("batches") if (r["table"], r["stage"]) == (f"{namespace}.item", "current")]
    third = sorted(told, key=lambda r: r["batch"])[2]
    path = project.path / "lakehouse/warehouse" / namespace / "item"
    since = hudi_timeline.instant_of(third["committed_at"])  # told just before that commit
    asked = f"SELECT id, name FROM hudi_table_changes('{path}', 'latest_state', '{since}')"
    rows = sorted(map(tuple, project._project.session.sql(asked).collect()))
    assert rows == [(3, "later"), (5, None)]


def test_commands_answer_by_spark(project: TemporaryProject, answer: Callable[..., Any]) -> None:
    asked = "select id, name from mor.item where name is not null order by id"
    rows = answer("sql", asked, "--engine", "spark")
    assert [(r["id"], r["name"]) for r in rows] == [(1, "new"), (3, "later"), (9, "n9")]
    (wrong,) = answer("quarantine", "mor.item")
    assert (wrong["batch"], wrong["reasons"]) == (2, ["unknown_op"])


def test_maintenance_leaves_rows_and_bookmarks(project: TemporaryProject, answer: Callable[..., Any]) -> None:
    def settings() -> list[str]:
        folders = [project.path / "lakehouse/warehouse" / t.replace(".", "/") for t in STORED]
        return [(folder / ".hoodie/hoodie.properties").read_text(encoding="utf-8") for folder in folders]

    before = [(project.state(t).bookmark, project.state(t).rows) for t in STORED]
    stored = settings()
    due = {r["table"]: [a["work"] for a in r["actions"]] for r in answer("maintain", "mor.item", "--dry-run")}
    project.run("maintenance")
    again = answer("maintain", "mor.item", "--dry-run")
    assert [(project.state(t).bookmark, project.state(t).rows) for t in STORED] == before
    assert settings() == stored  # readers would find the file empty while it is written
    assert sum(map(len, due.values())) > sum(len(r["actions"]) for r in again)
    assert project.run() == []


def test_a_replay_after_archival_adds_no_row(project: TemporaryProject) -> None:
    stored = project.path / "lakehouse/warehouse/db/object/.hoodie/timeline"
    assert any((stored / "history").glob("*.parquet")), "nothing was archived"
    before, rows = project.state("db.object"), sorted(map(repr, project.rows("db.object")))
    assert before.batch > 1
    assert project.run() == []
    assert project.state("db.object") == before
    land_object(project, 1, OBJECT)  # the first file again, with another time: its events are known
    project.run(namespaces=["db.object"])
    assert sorted(map(repr, project.rows("db.object"))) == rows
    assert len(project.rows("db.object_changes")) == before.rows


def test_commits_of_the_archived_timeline_are_told_too(project: TemporaryProject) -> None:
    name = TableName("db", "object")
    told = list(_format(project).commits(name))
    assert [report.batch for report, _ in told] == list(range(told[0][0].batch, 0, -1))
    assert told[0] == (project.state(str(name)).bookmark, project.state(str(name)).snapshot_id)
    kept = [_format(project).holds_snapshot(name, at) for _, at in told]
    assert (kept[0], kept[-1]) == (True, False)


def test_of_two_writers_on_one_state_the_later_is_refused(project: TemporaryProject) -> None:
    name = TableName("cow", "item")
    lake, other = _format(project), _format(project, run_id="other")
    state: TableState | None = lake.state(name)
    assert state is not None
    assert state.bookmark is not None
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(CommitConflictError))
        one, two = (stack.enter_context(f.stage(name, state)) for f in (lake, other))
        for stage, key in ((one, 70), (two, 71)):
            row = {r["id"]: r for r in project.rows("cow.item")}[9] | {"id": key}
            stage.merge(None, project._project.session.createDataFrame([row], lake.read(name).schema), ["id"])
        one.publish(state.bookmark)
        two.publish(state.bookmark)
    assert sorted(r["id"] for r in project.rows("cow.item")) == [1, 3, 5, 9, 70]


def test_a_table_is_there_whole_or_not_at_all(
    project: TemporaryProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, name = _format(project), TableName("cow", "half")
    columns = {"id": project.state("cow.item").columns["id"]}
    with monkeypatch.context() as killed:
        killed.setattr(hudi_timeline, "move_folder", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lake.create(name, columns, Layout())
    assert lake.state(name) is None
    lake.create(name, columns, Layout())
    uuid = lake.uuid(name)
    folder = project.path / "lakehouse/warehouse/cow/half"
    assert [f.name for f in folder.iterdir() if not f.name.endswith(".crc")] == [".hoodie"]
    with monkeypatch.context() as beside:  # the other writer looked before the table was there
        beside.setattr(hudi_timeline.HudiTimeline, "exists", lambda *_: False)
        lake.create(name, columns, Layout())
    assert lake.state(name).rows == 0
    assert lake.uuid(name) == uuid


def test_the_process_that_writes_holds_the_turn(
    project: TemporaryProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, name = _format(project), TableName("cow", "turn")
    lake.create(name, {"id": project.state("cow.item").columns["id"]}, Layout())
    lock = project.path / f"lakehouse/leases/{name}.writer.lock"
    write, tried = HudiTable.write, []

    def look_first(*args: Any, **options: Any) -> None:
        with lock.open("r+") as handle, pytest.raises(BlockingIOError):
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # this process's, not the JVM's
        tried.append(options)
        write(*args, **options)

    monkeypatch.setattr(HudiTable, "write", look_first)
    with lake.stage(name, lake.state(name)) as stage:
        stage.publish(report(1))
    assert (lake.state(name).batch, len(tried)) == (1, 1)
    with lock.open("r+") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_turn_that_another_run_took_over_publishes_nothing(
    project: TemporaryProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, name = _format(project), TableName("cow", "taken")
    lake.create(name, {"id": project.state("cow.item").columns["id"]}, Layout())
    lock = project.path / f"lakehouse/leases/{name}.publish.lock"
    work = HudiTable.timeline

    def stalled(table: HudiTable) -> hudi_timeline.HudiTimeline:
        lock.unlink(missing_ok=True)  # what tells the holder that another run may have it
        return work(table)

    with lake.stage(name, lake.state(name)) as stage:
        monkeypatch.setattr(HudiTable, "timeline", stalled)
        with pytest.raises(CommitConflictError):
            stage.publish(report(1))
    monkeypatch.undo()
    assert lake.state(name).batch == 0


@pytest.mark.parametrize(("ahead", "outcome"), [(600, "refused"), (2, "published")])
def test_a_clock_that_is_behind_the_newest_commit_loses_nothing(
    project: TemporaryProject, ahead: int, outcome: str
) -> None:
    """Hudi itself would write, and neither it nor we would take the commit for the newest: it came twice."""
    lake, name = _format(project), TableName("cow", f"clock_{outcome}")
    lake.create(name, {"id": project.state("cow.item").columns["id"]}, Layout())
    with lake.stage(name, lake.state(name)) as stage:
        stage.publish(report(1))
    found = str(lake.state(name).snapshot_id)
    moved = hudi_timeline.instant_of(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=ahead))
    timeline = project.path / f"lakehouse/warehouse/cow/{name.table}/.hoodie/timeline"
    for file in timeline.glob(f"*{found}*"):  # as a machine names it whose clock is ahead
        file.rename(timeline / file.name.replace(found, moved))
    wrong = contextlib.nullcontext() if outcome == "published" else pytest.raises(ClockBehindError)
    with lake.stage(name, lake.state(name)) as stage, wrong:
        stage.publish(report(2))
    assert lake.state(name).batch == (2 if outcome == "published" else 1)


def test_a_dropped_table_leaves_nothing_staged(project: TemporaryProject) -> None:
    lake, name, source = _format(project), TableName("cow", "dropped"), TableName("cow", "item")
    rows = lake.read(source)
    lake.create(name, {f.name: f.dataType for f in rows.schema.fields}, Layout())
    beside = project.path / "lakehouse/warehouse/cow"
    with lake.stage(name, lake.state(name)) as stage:
        stage.append(rows)
        assert list(beside.glob(".stage_dropped.*"))
        lake.drop(name)
        assert not list(beside.glob(".stage_dropped.*"))
        with pytest.raises(CommitConflictError):
            stage.publish(report(1))
    assert lake.state(name) is None


def test_a_name_that_avro_has_not_is_refused_with_its_remedy(project: TemporaryProject) -> None:
    kinds = dict(project.state("cow.item").columns)
    with pytest.raises(UnsupportedError, match=r"cannot hold the names GICS Sector: .* `rename`"):
        _format(project).create(TableName("cow", "odd"), {"GICS Sector": kinds["name"]}, Layout())


def _format(project: TemporaryProject, run_id: str = "test") -> HudiFormat:
    return HudiFormat(context_of(project._project, run_id))
