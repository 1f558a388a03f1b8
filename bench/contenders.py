"""The ways to merge a batch that bench/merge.py compares; each starts from the same table state."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from lake import data_files, planned_hashes
from plain_merge import merge, newest, newest_by_time

from kedro_lakehouse.commits.engine import engine_of
from kedro_lakehouse.commits.target import load_pending
from kedro_lakehouse.datasets import TableDataset
from kedro_lakehouse.names import TableName
from kedro_lakehouse.session.later import spark_may_wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lake import State

    from kedro_lakehouse.project import Project


@dataclass
class Contender:
    """One way: ``reset`` is not timed, ``work`` is; ``answer`` names what DuckDB reads its rows from."""

    name: str
    reset: Callable[[], Any]
    work: Callable[[], Any]
    answer: Callable[[], Any] | None = None


class Contenders:
    """All ways to merge batch ``batch`` of ``<table>_changes`` into ``<table>``, one row a ``key``."""

    def __init__(self, project: Project, table: str, key: str, folder: Path, base: State) -> None:
        """Keep what all of them share; the rows that the Iceberg table holds at its base go to Delta once."""
        self._project, self._table, self._key, self._base = project, table, key, base
        self._name = TableName.parse(table)
        self._hashes = planned_hashes(project, self._name)
        self._folder = folder
        base.restore()
        self._files = data_files(project, table)
        self._columns = [f.name for f in project.catalog.find(self._name).schema().fields]
        self._batch_files: list[str] = []
        self._batch = 0
        self._pristine = folder / "delta_base"

    def of(self, batch: int) -> list[Contender]:
        """The contenders for one batch."""
        self._batch = batch
        self._batch_files = data_files(self._project, f"{self._table}_changes", batch=batch)

        def rewind() -> None:
            self._base.restore(batch=batch - 1)

        def iceberg() -> Any:
            found = self._project.catalog.find(self._name)
            return found.scan().to_arrow_batch_reader()

        delta, duck = self._folder / "delta", self._folder / "duckdb.parquet"
        return [
            Contender("ours", rewind, self._ours, iceberg),
            Contender("script", rewind, self._script, iceberg),
            Contender("AWS rule", rewind, self._aws_rule, iceberg),
            Contender("delta-rs", self._reset_delta, self._delta, lambda: _delta_rows(delta)),
            Contender("DuckDB", lambda: duck.unlink(missing_ok=True), self._duckdb, lambda: _parquet(duck)),
            Contender("read + write", _nothing, self._copy),
        ]

    def _ours(self) -> None:
        table = self._project.bind(self._name)
        # Later batches are in the change log already: this one alone is pending, as if they were not.
        found = load_pending(table, "current")[1]
        token = dataclasses.replace(found, batch=self._batch, content_hash=self._hashes[self._batch])
        spark_may_wait.set(True)  # as for our own nodes
        pending = token.read_later(
            lambda: engine_of(table).pending(table, after=token.after, upto=token.batch)
        )
        TableDataset(table=self._table, kind="current").save(pending)

    def _events(self) -> Any:
        return self._project.session.table(f"lake.{self._table}_changes").where(f"_batch = {self._batch}")

    def _script(self) -> None:
        batch = newest(self._events(), [self._key])
        merge(self._project.session, batch, f"lake.{self._table}", [self._key])

    def _aws_rule(self) -> None:
        batch = newest_by_time(self._events(), [self._key])
        merge(self._project.session, batch, f"lake.{self._table}", [self._key], guarded=False)

    def _last(self) -> str:
        """The batch's last event of each key as DuckDB reads it from the files of ``_changes``."""
        return (
            f"SELECT DISTINCT ON ({self._key}) * FROM {_files(self._batch_files)} "
            f"ORDER BY {self._key}, _order.change_seq DESC"
        )

    def _duckdb(self) -> None:
        names = ", ".join(self._columns)
        duckdb.execute(f"""
            COPY (
              WITH last AS MATERIALIZED ({self._last()})
              SELECT {names} FROM {_files(self._files)} ANTI JOIN last USING ({self._key})
              UNION ALL SELECT {names} FROM last WHERE _op = 'upsert'
            ) TO '{self._folder / "duckdb.parquet"}' (FORMAT parquet, COMPRESSION zstd)""")

    def _reset_delta(self) -> None:
        import deltalake

        if not self._pristine.exists():
            rows = ds.dataset(self._files, format="parquet").scanner(columns=self._columns).to_reader()
            deltalake.write_deltalake(str(self._pristine), rows)
        shutil.rmtree(self._folder / "delta", ignore_errors=True)
        shutil.copytree(self._pristine, self._folder / "delta")

    def _delta(self) -> None:
        import deltalake

        batch = duckdb.sql(self._last()).to_arrow_table()
        each = {name: f"s.{name}" for name in self._columns}
        newer = "s._order['change_seq'] > t._order['change_seq']"
        (
            deltalake.DeltaTable(str(self._folder / "delta"))
            .merge(batch, f"t.{self._key} = s.{self._key}", source_alias="s", target_alias="t")
            .when_matched_delete(f"s._op = 'delete' AND {newer}")
            .when_matched_update(each, f"s._op = 'upsert' AND {newer}")
            .when_not_matched_insert(each, "s._op = 'upsert'")
            .execute()
        )

    def _copy(self) -> None:
        whole = ds.dataset(self._files, format="parquet").to_table()
        pq.write_table(whole, self._folder / "copy.parquet", compression="zstd")


def same_rows(answer: Any, oracle: Any, key: str) -> bool:
    """Whether two tables hold the same rows: as many, one a key, and none that differs under its key."""
    with duckdb.connect() as connection:
        for name, rows in (("answer", answer), ("oracle", oracle)):
            connection.register(f"{name}_rows", rows)
            connection.execute(f"CREATE TABLE {name} AS FROM {name}_rows")
        names = [row[0] for row in connection.sql("DESCRIBE oracle").fetchall()]
        differs = " OR ".join(f"a.{n} IS DISTINCT FROM o.{n}" for n in names)
        found = connection.sql(f"""
            SELECT (SELECT count(*) FROM answer), (SELECT count(*) FROM oracle),
                   (SELECT count(DISTINCT {key}) FROM answer),
                   (SELECT count(*) FROM answer a FULL JOIN oracle o ON a.{key} = o.{key} WHERE {differs})
        """).fetchall()[0]
    return found[0] == found[1] == found[2] and found[3] == 0


def _files(paths: list[str]) -> str:
    return f"read_parquet({paths!r}, hive_partitioning=false, union_by_name=true)"


def _delta_rows(folder: Path) -> Any:
    import deltalake

    files = deltalake.DeltaTable(str(folder)).file_uris()
    return ds.dataset([f.removeprefix("file://") for f in files], format="parquet").scanner().to_reader()


def _parquet(path: Path) -> Any:
    return ds.dataset(path).scanner().to_reader()


def _nothing() -> None:
    """There is nothing to reset."""
