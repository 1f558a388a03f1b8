"""Stage a commit of an Iceberg table on a branch that no reader sees, then publish it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import AuditFailedError, CommitConflictError, CommitUnknownError
from kedro_lakehouse.formats.base import is_stage_branch
from kedro_lakehouse.formats.literals import constant
from kedro_lakehouse.names import CATALOG, TableName, quote
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.session.jvm import each, java_class, texts
from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.formats.iceberg.new_files import MergedFiles, WrittenFiles
    from kedro_lakehouse.session.catalog import MetadataCatalog

_FEW: Final = 500_000
"""Up to this many rows, columns are read into this process; of more rows, by Spark."""
_RACED: Final = (
    "CommitFailedException",
    "is not an ancestor of",
    "Cannot commit",
    "already exists",
    "Branch does not exist",
    "branch does not exist",
    "NoSuchTableException",
    "Cannot find snapshot",
    "unknown snapshot",
)
_OWN: Final = "kedro_lakehouse."
_MERGES: Final = "commit.manifest.min-count-to-merge"
_FEW_FILES: Final = 50
"""A commit that deletes rows of at most so many data files merges manifests: readers open each of them."""
_TRIES: Final = 20
"""How often a commit is tried while others change metadata without changing what readers see."""


def version_of(uuid: str, snapshot: int | None, properties: Mapping[str, str]) -> str:
    """A text that identifies a published state: the table, its snapshot, and a hash of our own properties."""
    own = sorted((k, v) for k, v in properties.items() if k.startswith(_OWN))
    return f"{uuid}/{snapshot or '-'}/{hashlib.sha256(json.dumps(own).encode()).hexdigest()[:16]}"


class IcebergStage:
    """An unpublished change, on a branch of its own that begins at the state it was planned on."""

    def __init__(
        self,
        session: SparkSession,
        catalog: MetadataCatalog,
        table: TableName,
        branch: str,
        planned_on: TableState | None,
    ) -> None:
        """Store where the stage will be; the first write creates the branch."""
        self._session, self._catalog, self.table, self.branch = session, catalog, table, branch
        self._planned_on = planned_on.version if planned_on else ""
        self._before = planned_on.rows if planned_on else 0
        self._files: WrittenFiles | None = None
        """Files that were written without Spark: these are the stage then, and there is no branch."""
        self._target = f"{table.sql}.{quote(f'branch_{branch}')}"
        """The name of the staged table in SQL, for reads and writes."""
        self.is_open = False
        """Whether anything was staged."""
        self._head: int | None = None
        """The newest snapshot of this stage."""
        self.has_new_rows = self._replaced = False

    @contextlib.contextmanager
    def _written_here(self) -> Iterator[None]:
        """Create the branch at the planned state if needed, run the block, and check where its write landed.

        The write must directly follow the newest snapshot of this stage.

        Raises:
            CommitConflictError: Another run published meanwhile, or removed the branch as a dead run's.
        """
        with self._told_as_ours():
            if not self.is_open:
                self._begin()
            yield
            written = load_table(self._session, self.table).snapshot(self.branch)
        parent = written.parentId() if written is not None else None
        # If the branch is gone, Iceberg writes on top of main instead, without this stage's earlier writes.
        if written is None or self._head not in (parent, written.snapshotId()):
            raise CommitConflictError(table=self.table, attempts=1)
        self._head = written.snapshotId()

    def _begin(self) -> None:
        handle = load_table(self._session, self.table)
        refuse_other_state(self.table, handle.operations().current(), self._planned_on)
        head = handle.currentSnapshot()
        base = [head.snapshotId()] if head is not None else []
        handle.manageSnapshots().createBranch(self.branch, *base).commit()
        made = load_table(self._session, self.table).snapshot(self.branch)
        self._head = made.snapshotId() if made is not None else None
        self.is_open = True

    def append(self, rows: DataFrame) -> None:
        """Append rows on the branch; one Spark job."""
        self.has_new_rows = True
        with self._written_here():
            self._whole(rows).writeTo(self._target).option("fanout-enabled", "true").append()

    def replace(self, rows: DataFrame) -> None:
        """Replace all rows on the branch; one Spark job, which may read the table itself."""
        from pyspark.sql import functions as F

        self.has_new_rows = self._replaced = True
        with self._written_here():
            self._whole(rows).writeTo(self._target).option("fanout-enabled", "true").overwrite(F.lit(True))

    def _whole(self, rows: DataFrame) -> DataFrame:
        """The rows, with nulls for the columns that they lack: Spark 3 does not add those by itself."""
        from pyspark.sql import functions as F

        if not is_spark3():
            return rows
        given = set(rows.columns)
        stored = self._session.table(self._target).schema.fields
        lacking = [F.lit(None).cast(f.dataType).alias(f.name) for f in stored if f.name not in given]
        return rows.select("*", *lacking) if lacking else rows

    def put(self, files: WrittenFiles) -> None:
        """Stage files that hold new rows and the places of deleted ones: nothing is committed for that."""
        self._files = files

    def staged(self) -> DataFrame:
        """The whole table with the staged change applied."""
        return self._session.table(self._target if self.is_open else self.table.sql)

    def replace_where(self, condition: str, rows: DataFrame) -> None:
        """Delete the rows that meet a condition (whole files without a Spark job), then append ``rows``."""
        with self._written_here():
            self._session.sql(f"DELETE FROM {self._target} WHERE {condition}")  # noqa: S608 - the caller's words
        self.append(rows)

    def merge(
        self,
        rows_to_delete: DataFrame | None,
        rows: DataFrame | None,
        on: Sequence[str],
        *,
        near: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> None:
        """Delete the rows whose ``on`` columns match ``rows_to_delete``, then append ``rows``.

        Rows are deleted by position. One Spark job each.
        """
        if rows_to_delete is not None:
            self._delete(rows_to_delete, on, near or {})
        if rows is not None:
            self.append(rows)

    def _delete(
        self, rows_to_delete: DataFrame, on: Sequence[str], near: Mapping[str, tuple[Any, Any]]
    ) -> None:
        view = f"_doomed_{uuid.uuid4().hex}"
        rows_to_delete.createOrReplaceTempView(view)
        matches = " AND ".join(f"t.{quote(c)} = d.{quote(c)}" for c in on)
        ends = {f"t.{quote(c)}": map(constant, pair) for c, pair in near.items()}
        ranges = [f"{name} BETWEEN {low} AND {high}" for name, (low, high) in ends.items()]
        exists = f"EXISTS (SELECT 1 FROM {quote(view)} AS d WHERE {matches})"  # noqa: S608 - quoted
        matching = " AND ".join([*ranges, exists])
        try:
            with self._written_here():
                self._session.sql(f"DELETE FROM {self._target} AS t WHERE {matching}")  # noqa: S608 - quoted
        finally:
            self._session.catalog.dropTempView(view)

    def rows(self) -> int:
        """Row count of the staged table, from its metadata: no job."""
        if self._files is not None:
            return self._before + self._files.added - self._files.removed
        handle = load_table(self._session, self.table)
        handle.refresh()
        snapshot = handle.snapshot(self.branch) if self.is_open else handle.currentSnapshot()
        return _rows_of(snapshot) if snapshot is not None else 0

    def expect(self, rows: int) -> None:
        """Check that the staged table has ``rows`` rows; if metadata disagrees, count the rows.

        A compaction, also one by another engine, may leave deletes for files that no longer exist. Metadata
        counts these deletes until some commit drops them, perhaps this one.
        """
        if (found := self.rows()) != rows and not self._counts_to(rows):
            raise AuditFailedError(
                table=self.table, batch=0, check="row arithmetic", expected=rows, found=found
            )

    def _counts_to(self, rows: int) -> bool:
        """Whether counts of the staged and the published rows differ by as many rows as expected."""
        head = load_table(self._session, self.table).currentSnapshot()
        before = _rows_of(head) if head is not None and not self._replaced else 0
        published = 0 if self._replaced else self._session.table(self.table.sql).count()
        return self.staged().count() - published == rows - before

    def appended(self) -> DataFrame:
        """The rows of this stage's last write, read back from their files."""
        if self._replaced:
            return self.staged()
        head = load_table(self._session, self.table).snapshot(self.branch)
        reader = self._session.read.format("iceberg").option("end-snapshot-id", head.snapshotId())
        if head.parentId() is None:
            return self._session.table(self._target)
        return reader.option("start-snapshot-id", head.parentId()).load(
            f"{CATALOG}.{self.table.namespace}.{self.table.table}"
        )

    def written(self, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the rows of the last write; None after a replacement, or if the rows are too many."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._replaced:
            return None
        handle = load_table(self._session, self.table)
        files = list(each(handle.snapshot(self.branch).addedDataFiles(handle.io())))
        paths = [str(file.location()) for file in files]
        many = sum(file.recordCount() for file in files) > _FEW
        found = self._catalog.find(self.table)
        if many or found is None or not all(path.endswith(".parquet") for path in paths):
            return None
        parts = []
        for path in paths:
            with found.io.new_input(path).open() as file:
                parts.append(pq.read_table(file, columns=list(columns)))
        return pa.concat_tables(parts, promote_options="permissive") if parts else None

    def publish(
        self,
        report: CommitReport,
        *,
        properties: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
    ) -> int | None:
        """Publish the staged rows and the bookmark in one commit; return the new snapshot's id.

        The same commit sets ``properties`` and drops the columns ``without``.

        Raises:
            CommitConflictError: Another writer was faster; nothing was published.
            CommitUnknownError: The catalog did not answer; look for the bookmark before anything else.
        """
        with self._told_as_ours(report.batch):
            published = self._commit({**(properties or {}), BOOKMARK: report.to_property()}, without)
        self.is_open, self._files = False, None
        return published

    def _commit(self, properties: Mapping[str, str], without: Sequence[str]) -> int | None:
        change = partial(self._change, properties=properties, without=without)
        return swap_metadata(self._session, self.table, self._planned_on, change)

    def _change(
        self, transaction: Any, before: Any, properties: Mapping[str, str], without: Sequence[str]
    ) -> None:
        if self.is_open:
            staged = before.ref(self.branch)
            if staged is None or staged.snapshotId() != self._head:
                raise CommitConflictError(table=self.table, attempts=1)
            transaction.manageSnapshots().fastForwardBranch("main", self.branch).commit()
        if self._files is not None:
            with _merged_manifests(transaction) if self._files.deletes else contextlib.nullcontext():
                add_files(self._session, transaction, self._files)
        update = transaction.updateProperties()
        for key, value in properties.items():
            update.set(key, value)
        update.commit()
        if without:
            schema = transaction.updateSchema()
            for name in without:
                schema.deleteColumn(name)
            schema.commit()
        # Other stages on the planned state, also those of dead runs, can no longer be published.
        for name in [str(name) for name in each(before.refs().keySet()) if is_stage_branch(str(name))]:
            transaction.manageSnapshots().removeBranch(name).commit()

    @contextlib.contextmanager
    def _told_as_ours(self, batch: int = 0) -> Iterator[None]:
        """Raise a lost race as ``CommitConflictError``, and a missing answer as ``CommitUnknownError``."""
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyspark.errors import PySparkException  # what PySpark makes of some of the JVM's exceptions

        try:
            yield
        except (Py4JError, PySparkException) as error:
            text = str(getattr(error, "java_exception", error))
            is_told = isinstance(error, (Py4JJavaError, PySparkException))  # else the JVM did not answer
            if not is_told or "CommitStateUnknownException" in text:
                raise CommitUnknownError(table=self.table, batch=batch) from error
            if any(sign in text for sign in _RACED):
                raise CommitConflictError(table=self.table, attempts=1) from error
            raise

    def drop(self) -> None:
        """Drop the stage; published rows are untouched."""
        if self.is_open:
            handle = load_table(self._session, self.table)
            if handle.refs().containsKey(self.branch):  # a run without its lease may have dropped it
                handle.manageSnapshots().removeBranch(self.branch).commit()
            self.is_open = False
        if self._files is not None and (found := self._catalog.find(self.table)) is not None:
            for path in self._files.paths:
                with contextlib.suppress(FileNotFoundError):
                    found.io.delete(path)
            self._files = None


def add_files(session: SparkSession, transaction: Any, files: WrittenFiles) -> None:
    """Add written files to a transaction, as one snapshot; a second one replaces small files by merged ones.

    Nothing is validated here: the metadata is swapped only on the very state that was planned on, see
    ``swap_metadata``.
    """
    deletes = bool(files.deletes or files.replaced)
    if not files.data and not deletes:
        return
    update = transaction.newRowDelta() if deletes else transaction.newFastAppend()
    parse = _parser(session, transaction)
    changes = (
        (update.addRows if deletes else update.appendFile, files.data),
        (update.addDeletes, files.deletes),
        (update.removeRows, files.replaced),
        (update.removeDeletes, files.replaced_deletes),
    )
    for change, described in changes:
        for text in described:
            change(parse(text))
    _commit_snapshot(session, update, files.marks)
    if files.merge is not None:
        _replace_small_files(session, transaction, files.merge, files.marks)


@contextlib.contextmanager
def _merged_manifests(transaction: Any) -> Iterator[None]:
    """Let the snapshots that the block adds to a table of few files have its manifests merged.

    By itself Iceberg merges a hundred. It asks a property of the table, which is as before afterwards.
    """
    before = transaction.startMetadata()
    head, declared = before.currentSnapshot(), before.properties().get(_MERGES)
    files = int(head.summary().get("total-data-files") or 0) if head is not None else 0
    if files <= _FEW_FILES:
        transaction.updateProperties().set(_MERGES, "2").commit()
    yield
    if files <= _FEW_FILES:
        update = transaction.updateProperties()
        (update.set(_MERGES, declared) if declared else update.remove(_MERGES)).commit()


def _replace_small_files(
    session: SparkSession, transaction: Any, merge: MergedFiles, marks: Mapping[str, str]
) -> None:
    """Replace files by merged ones, as a snapshot that changes no rows."""
    update, parse = transaction.newRewrite(), _parser(session, transaction)
    update.validateFromSnapshot(transaction.table().currentSnapshot().snapshotId())
    for text in (*merge.replaced, *merge.replaced_deletes):
        update.deleteFile(parse(text))
    for text in merge.data:
        update.addFile(parse(text))
    _commit_snapshot(session, update, marks)


def _parser(session: SparkSession, transaction: Any) -> Callable[[str], Any]:
    """What makes a file of its description as JSON."""
    specs = transaction.table().specs()
    read = java_class(session, "org.apache.iceberg.util.JsonUtil").mapper().readTree
    parse = java_class(session, "org.apache.iceberg.ContentFileParser").fromJson
    return lambda text: parse(read(text), specs)


def _commit_snapshot(session: SparkSession, update: Any, marks: Mapping[str, str]) -> None:
    for key, value in marks.items():
        update.set(key, value)
    # In the calling thread: Iceberg's pool is for many manifests.
    executors = "org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors"
    update.scanManifestsWith(java_class(session, executors).newDirectExecutorService())
    update.commit()


def refuse_other_state(table: TableName, metadata: Any, planned_on: str) -> None:
    """Raise unless metadata is that of the planned published state.

    Raises:
        CommitConflictError: Another commit was published since, or the table was made again.
    """
    head = metadata.currentSnapshot()
    snapshot = head.snapshotId() if head is not None else None
    if version_of(str(metadata.uuid()), snapshot, texts(metadata.properties())) != planned_on:
        raise CommitConflictError(table=table, attempts=1)


def swap_metadata(
    session: SparkSession, table: TableName, planned_on: str, change: Callable[[Any, Any], None]
) -> int | None:
    """Replace the metadata of exactly the planned state by changed metadata; return the snapshot of its rows.

    Iceberg's own retries would apply a change of properties on top of whatever was committed meanwhile.
    Here the catalog swaps one metadata for the other. If others changed the metadata (the branch of another
    run's stage, a column), the planned state is checked again, and the change is made again.

    Args:
        change: Makes the change; called with a transaction and the metadata before it.

    Raises:
        CommitConflictError: The table is no longer in the planned state, or others changed its metadata at
            every try; nothing was published.
    """
    from py4j.protocol import Py4JJavaError

    for _ in range(_TRIES):
        transaction = load_table(session, table).newTransaction()
        before = transaction.startMetadata()
        refuse_other_state(table, before, planned_on)
        change(transaction, before)
        after = transaction.currentMetadata()
        try:
            transaction.underlyingOps().commit(before, after)
        except Py4JJavaError as error:
            if "CommitFailedException" not in str(error.java_exception):
                raise
        else:
            _delete_unused(transaction, before, after)
            return _changed_by(after)
    raise CommitConflictError(table=table, attempts=_TRIES)


def _delete_unused(transaction: Any, before: Any, after: Any) -> None:
    """Delete the manifests that a transaction wrote and merged at once, as Iceberg's own commit does.

    Only the transaction knows them, and tells nobody. Where they cannot be deleted, maintenance does so.
    """
    from py4j.protocol import Py4JError

    with contextlib.suppress(Py4JError):
        field = transaction.getClass().getDeclaredField("deletedFiles")
        field.setAccessible(True)
        unused = {str(path) for path in each(field.get(transaction))}
        io, snapshot = transaction.underlyingOps().io(), after.currentSnapshot()
        while unused and snapshot is not None and before.snapshot(snapshot.snapshotId()) is None:
            unused -= {str(manifest.path()) for manifest in each(snapshot.allManifests(io))}
            unused.discard(str(snapshot.manifestListLocation()))
            parent = snapshot.parentId()
            snapshot = after.snapshot(parent) if parent is not None else None
        for path in unused:
            io.deleteFile(path)


def _changed_by(metadata: Any) -> int | None:
    """The id of the newest snapshot that changed rows; one that replaced files has those of its parent."""
    head = metadata.currentSnapshot()
    while (
        head is not None and head.operation() == "replace" and metadata.snapshot(head.parentId()) is not None
    ):
        head = metadata.snapshot(head.parentId())
    return head.snapshotId() if head is not None else None


def load_table(session: SparkSession, table: TableName) -> Any:
    """The JVM's own handle of a table, as the table is now."""
    path = f"{CATALOG}.{table.namespace}.{table.table}"  # both parts are checked identifiers
    return utilities_of(session).loadIcebergTable(session._jsparkSession, path)


def utilities_of(session: SparkSession) -> Any:
    """Iceberg's own utilities for Spark, ready to use in this thread.

    They find the catalog by the settings of the thread's active session. A worker thread has none, so it
    is set here.
    """
    java_class(session, "org.apache.spark.sql.SparkSession").setActiveSession(session._jsparkSession)
    return java_class(session, "org.apache.iceberg.spark.Spark3Util")


def _rows_of(snapshot: Any) -> int:
    summary = snapshot.summary()
    rows, deletes = (summary.get(f"total-{what}") or 0 for what in ("records", "position-deletes"))
    return int(rows) - int(deletes)
