"""A table format of plain parquet files on a local disk: rows are appended, or replaced as a whole."""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from kedro_lakehouse.errors import CommitConflictError, CommitUnknownError, UnsupportedError
from kedro_lakehouse.formats.base import Bounds, Capabilities, TableState
from kedro_lakehouse.formats.staged_files import StagedFiles, drop_stages
from kedro_lakehouse.names import quote
from kedro_lakehouse.ops.report import CommitReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.formats.base import FormatContext, Layout
    from kedro_lakehouse.formats.staged_files import StagedChange
    from kedro_lakehouse.names import TableName


class ParquetFormat:
    """Tables whose commits are numbered JSON files, each with the data files that make up the table."""

    name: ClassVar[str] = "parquet"
    capabilities: ClassVar[Capabilities] = Capabilities(
        merge=False, as_of=False, evolve=False, drop_columns=False, partition_transforms=False, views=False,
        maintenance=False,
    )  # fmt: skip

    def __init__(self, context: FormatContext) -> None:
        """Keep how to get at the session, and where the tables lie."""
        self._session, self._run_id = context.session, context.run_id
        self._warehouse = f"{context.lakehouse}/warehouse"

    @classmethod
    def lacking(cls, spark_conf: Mapping[str, str]) -> str | None:  # noqa: ARG003 - Spark reads parquet itself
        """Nothing is needed."""
        return None

    def state(self, table: TableName) -> TableState | None:
        """The newest commit."""
        from pyspark.sql import types as T

        held = _newest(self._folder(table))
        if held is None:
            return None
        schema = T.StructType.fromJson(held["schema"])
        return TableState(
            columns={f.name: f.dataType for f in schema.fields},
            bookmark=CommitReport.from_property(held["bookmark"]),
            snapshot_id=held["number"],
            rows=held["rows"],
            properties=held["properties"],
            uuid=held["uuid"],
            version=_version(held),
        )

    def read(self, table: TableName) -> DataFrame:
        """The files of the newest commit."""
        from pyspark.sql import types as T

        held = _newest(self._folder(table))
        if held is None:
            raise UnsupportedError(what=f"There is no table {table}.", remedy="Run `kedro run` first.")
        reader = self._session().read.schema(T.StructType.fromJson(held["schema"]))
        return reader.parquet(*held["files"]) if held["files"] else reader.parquet(*self._nothing(table))

    def _nothing(self, table: TableName) -> list[str]:
        empty = self._folder(table) / "data" / "none"
        empty.mkdir(parents=True, exist_ok=True)
        return [str(empty)]

    def sql(self, table: TableName) -> str:
        """The name of a view that lasts as long as the session."""
        view = f"{table.namespace}_{table.table}"
        self.read(table).createOrReplaceTempView(view)
        return quote(view)

    def read_at(self, table: TableName, time: datetime) -> NoReturn:  # noqa: ARG002 - refused
        """Refused: replaced files are deleted."""
        raise _lacking(table, "be read as it was")

    def rows_at(self, table: TableName, snapshot_id: int) -> NoReturn:  # noqa: ARG002 - refused
        """Refused, as ``read_at`` is."""
        raise _lacking(table, "be read as it was")

    def holds_snapshot(self, table: TableName, snapshot_id: int) -> bool:
        """Whether it is the newest one."""
        held = _newest(self._folder(table))
        return held is not None and bool(held["number"] == snapshot_id)

    def may_hold(self, table: TableName, column: str, low: object, high: object) -> bool:  # noqa: ARG002
        """No metadata tell."""
        state = self.state(table)
        return state is not None and state.rows > 0

    def bounds(self, table: TableName, *_: Any) -> Bounds:
        """No metadata tell: as many rows as there are."""
        state = self.state(table)
        return Bounds(rows=state.rows if state else 0, ranges={})

    def create(self, table: TableName, columns: Mapping[str, T.DataType], layout: Layout) -> None:
        """Make the first commit, where there is none."""
        from pyspark.sql import types as T

        if any("(" in p for p in layout.partition_by):
            raise _lacking(table, "have partitions by a function")
        if _newest(self._folder(table)) is not None:
            return
        schema = T.StructType([T.StructField(name, kind) for name, kind in columns.items()])
        first = {
            "number": 0, "files": [], "rows": 0, "bookmark": None, "schema": schema.jsonValue(),
            "properties": {k: v for k, v in layout.properties.items() if k.startswith("kedro_lakehouse.")},
            "uuid": uuid.uuid4().hex,
        }  # fmt: skip
        with contextlib.suppress(FileExistsError):
            _write(self._folder(table), first)

    def evolve(self, table: TableName, columns: Mapping[str, T.DataType], state: TableState) -> None:
        """Refused where anything would change."""
        if any(state.columns.get(name) != kind for name, kind in columns.items()):
            raise _lacking(table, "get other columns")

    def ensure_view(self, view: TableName, definition: str, digest: str) -> NoReturn:  # noqa: ARG002 - refused
        """Refused: there are no histories."""
        raise _lacking(view, "be a view")

    def uuid(self, table: TableName) -> str | None:
        """The mark of the first commit."""
        held = _newest(self._folder(table))
        return held["uuid"] if held else None

    def drop(self, table: TableName, *, uuid: str | None = None) -> None:
        """Delete the table's folder and all that is staged of it; with ``uuid`` only of that very table."""
        if uuid is not None and self.uuid(table) != uuid:
            return
        shutil.rmtree(self._folder(table), ignore_errors=True)
        drop_stages(self._session(), f"{self._warehouse}/{table.namespace}", table)

    @contextlib.contextmanager
    def stage(self, table: TableName, state: TableState | None) -> Iterator[StagedFiles]:
        """Open a stage on a state of the table; what the block leaves unpublished is dropped."""
        held = state or self.state(table)  # a table that was made just now has columns, and no rows
        planned = state.version if state else f"{self.uuid(table)}:0"
        stage = _Stage(
            self._session(), table, f"{self._warehouse}/{table.namespace}", run_id=self._run_id,
            before=held.rows if held else 0, columns=held.columns if held else {},
            published=partial(self.read, table), is_current=partial(self._is_current, table, planned),
            commit=partial(self._commit, table, planned),
        )  # fmt: skip
        with stage.opened():
            yield stage

    def _is_current(self, table: TableName, planned: str) -> bool:
        held = _newest(self._folder(table))
        return held is not None and _version(held) == planned

    def _commit(  # noqa: PLR0913, PLR0917 - the protocol's
        self,
        table: TableName,
        planned: str,
        change: StagedChange | None,
        report: CommitReport,
        properties: Mapping[str, str],
        without: Sequence[str],
        rows: int,
    ) -> int:
        """Move the staged files to the table, and write the commit's file, unless another writer did."""
        if without:
            raise _lacking(table, "lose columns")
        held = _newest(self._folder(table))
        if held is None or _version(held) != planned:
            raise CommitConflictError(table=table, attempts=1)
        files = list(held["files"]) if change is None or change.kind == "append" else []
        moved = self._folder(table) / "data" / uuid.uuid4().hex
        if change is not None:
            moved.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(change.files, moved)
            files.append(str(moved))
        following = held | {
            "number": held["number"] + 1, "files": files, "rows": rows, "bookmark": report.to_property(),
            "properties": held["properties"] | dict(properties),
        }  # fmt: skip
        try:
            _write(self._folder(table), following)
        except FileExistsError as error:
            shutil.rmtree(moved, ignore_errors=True)
            raise CommitConflictError(table=table, attempts=1) from error
        except OSError as error:  # the file may be there, and then its data are
            raise CommitUnknownError(table=table, batch=report.batch) from error
        return int(following["number"])

    def _folder(self, table: TableName) -> Path:
        return Path(self._warehouse) / table.namespace / table.table


class _Stage(StagedFiles):
    """A stage that holds no change by key."""

    def merge(self, *_: Any, **__: Any) -> NoReturn:
        """Refused."""
        raise _lacking(self.table, "have keys")

    def replace_where(self, condition: str, rows: DataFrame) -> NoReturn:  # noqa: ARG002 - refused
        """Refused."""
        raise _lacking(self.table, "be replaced in part")


def _newest(folder: Path) -> dict[str, Any] | None:
    commits = sorted(folder.glob("commits/*.json"))
    return json.loads(commits[-1].read_text(encoding="utf-8")) if commits else None


def _version(held: Mapping[str, Any]) -> str:
    return f"{held['uuid']}:{held['number']}"


def _write(folder: Path, commit: Mapping[str, Any]) -> None:
    """Write a commit's file whole, or not at all where it is there."""
    commits = folder / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    fresh = commits / f".{uuid.uuid4().hex}"
    fresh.write_text(json.dumps(commit), encoding="utf-8")
    try:
        (commits / f"{commit['number']:010}.json").hardlink_to(fresh)
    finally:
        fresh.unlink()


def _lacking(table: object, what: str) -> UnsupportedError:
    return UnsupportedError(
        what=f"{table}: a table of plain parquet files cannot {what}.",
        remedy="Declare another `format` in tables.yml.",
    )
