"""Read a Hudi table's metadata through Hudi's own classes: its schema and its commits. No Spark job."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T

from kedro_lakehouse.formats.hadoop_files import delete_folder, folders_in, is_there, move_folder
from kedro_lakehouse.ops.report import BOOKMARK
from kedro_lakehouse.session.jvm import each, java_class, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

PREFIX: Final = "kedro_lakehouse."
STATE: Final = PREFIX + "state"
"""Entry of each commit's metadata, beside the bookmark: the table's row count and properties."""
TOKEN: Final = PREFIX + "token"
"""Entry of each commit's metadata that identifies the commit, even if it repeats a bookmark."""
_MADE: Final = PREFIX + "made"
"""Entry of hoodie.properties in a new table: its uuid, identity columns and first properties."""
_MAKING: Final = ".making_"
TABLE_TYPE: Final = "hoodie.datasource.write.table.type"
_INSTANT: Final = "%Y%m%d%H%M%S"


@dataclass(frozen=True, kw_only=True)
class CompletedCommit:
    """A completed commit of the project's own: its instant (the time that names it), and its metadata."""

    instant: str
    completed: str
    carried: Mapping[str, str]

    @property
    def state(self) -> dict[str, Any]:
        """The table's row count and properties as of this commit."""
        return dict(json.loads(self.carried[STATE]))

    @property
    def bookmark(self) -> str | None:
        """The text of the bookmark; None if the commit carries none."""
        return self.carried.get(BOOKMARK)

    @property
    def completed_ms(self) -> int:
        """When readers first saw it, in milliseconds since the epoch."""
        moment = time_of(self.completed)
        return int(moment.timestamp()) * 1000 + moment.microsecond // 1000


@dataclass(frozen=True, kw_only=True)
class FileSlice:
    """One version of a file group: bytes of its base file (0 if it has none) and of its log files."""

    partition: str
    instant: str
    base: int
    logs: tuple[int, ...]


def instant_of(time: datetime) -> str:
    """Write a time as Hudi names commits, in UTC and to the millisecond."""
    utc = time.astimezone(UTC)
    return f"{utc:{_INSTANT}}{utc.microsecond // 1000:03}"


def time_of(instant: str) -> datetime:
    """Read the time, in UTC, by which Hudi names a commit."""
    moment = datetime.strptime(instant[:14], _INSTANT).replace(tzinfo=UTC)
    return moment.replace(microsecond=1000 * int(instant[14:17] or 0))


class HudiTimeline:
    """The metadata of one table's folder, as it was when it was first read."""

    def __init__(self, session: SparkSession, path: str) -> None:
        """Store where the table is."""
        self._session, self._path = session, path
        jvm_session: Any = session._jsparkSession
        self._hadoop = jvm_session.sessionState().newHadoopConf()

    def _class(self, name: str) -> Any:
        return java_class(self._session, name)

    @cached_property
    def _storage(self) -> Any:
        return self._class("org.apache.hudi.hadoop.fs.HadoopFSUtils").getStorageConf(self._hadoop)

    @cached_property
    def _client(self) -> Any:
        builder = self._class("org.apache.hudi.common.table.HoodieTableMetaClient").builder()
        return builder.setConf(self._storage).setBasePath(self._path).build()

    def exists(self, below: str = ".hoodie/hoodie.properties") -> bool:
        """Whether the table exists; or whether a file or folder ``below`` its folder does."""
        return is_there(self._session, f"{self._path}/{below}")

    def make(self, schema: T.StructType, made: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        """Create an empty table; ``settings`` are Hudi's table settings, ``made`` is stored beside them.

        Hudi writes its properties in steps, so the table is created in another folder and moved into place
        as a whole.

        Raises:
            FileExistsError: Somebody else created the table meanwhile.
        """
        beside = f"{self._path}/{_MAKING}{uuid.uuid4().hex}"
        self._write_properties(beside, schema, made, settings)
        if self.exists(".hoodie") and not self.exists():  # left by a killed move, file by file
            delete_folder(self._session, f"{self._path}/.hoodie")
        move_folder(self._session, f"{beside}/.hoodie", f"{self._path}/.hoodie")
        for left in folders_in(self._session, self._path, _MAKING):
            delete_folder(self._session, left)

    def _write_properties(
        self, path: str, schema: T.StructType, made: Mapping[str, Any], settings: Mapping[str, str]
    ) -> None:
        scala = self._class("org.apache.spark.sql.types.DataType").fromJson(schema.json())
        name = settings["hoodie.table.name"]
        converter = self._class("org.apache.hudi.HoodieSchemaConversionUtils")
        stored = converter.convertStructTypeToHoodieSchema(scala, name, f"hoodie.{name}").toString()
        known = self._class("java.util.Properties")()
        for key, value in {**settings, "hoodie.table.create.schema": stored}.items():
            known.setProperty(key, value)
        builder = self._class("org.apache.hudi.common.table.HoodieTableMetaClient").newTableBuilder()
        client = builder.fromProperties(known).initTable(self._storage, path)
        own = self._class("java.util.Properties")()
        own.setProperty(_MADE, json.dumps(made))
        self._class("org.apache.hudi.common.table.HoodieTableConfig").update(
            client.getStorage(), client.getMetaPath(), own
        )

    def made(self) -> dict[str, Any]:
        """The facts that were stored when the table was created."""
        return dict(json.loads(self._client.getTableConfig().getProps().getProperty(_MADE) or "{}"))

    def setting(self, name: str) -> str | None:
        """One of the table's own settings, in hoodie.properties."""
        found = self._client.getTableConfig().getProps().getProperty(name)
        return None if found is None else str(found)

    def schema(self) -> T.StructType:
        """The table's columns, without those of Hudi itself."""
        resolver = self._class("org.apache.hudi.common.table.TableSchemaResolver")(self._client)
        stored = resolver.getTableSchema(False)  # noqa: FBT003 - Hudi's own signature
        converter = self._class("org.apache.hudi.HoodieSchemaConversionUtils")
        scala = converter.convertHoodieSchemaToStructType(stored)
        return T.StructType.fromJson(json.loads(scala.json()))

    @cached_property
    def state(self) -> dict[str, Any]:
        """The table's row count and properties: those of its newest commit, else those at its creation."""
        return self.newest.state if self.newest else {"rows": 0, "properties": self.made()["properties"]}

    @cached_property
    def newest(self) -> CompletedCommit | None:
        """The newest commit of the project's own; Hudi's table services commit too, without our entries."""
        return next(self.commits(), None)

    @property
    def state_version(self) -> str:
        """Identifies the state that our last commit published, also against states of an earlier table."""
        return state_version(self.uuid, self.newest.instant if self.newest else None)

    @property
    def uuid(self) -> str:
        """The table's unique id: a table created later in its place has another one."""
        return str(self.made()["uuid"])

    def commits(self) -> Iterator[CompletedCommit]:
        """The project's own commits, newest first; archived ones are read only after all others."""
        yield from self._commits(self._client.getActiveTimeline())
        archived = self._client.getArchivedTimeline()
        archived.loadCompletedInstantDetailsInMemory()
        yield from self._commits(archived)

    def seen_at(self, time: datetime) -> CompletedCommit | None:
        """The newest of our commits that readers saw at a time; None if the timeline holds none so old."""
        wanted = instant_of(time)
        commits = self._commits(self._client.getActiveTimeline())
        return next((c for c in commits if c.completed <= wanted), None)

    def holds(self, instant: str) -> bool:
        """Whether the table can still be read as of a commit: not archived, and its files not cleaned."""
        timeline = self._client.getActiveTimeline()
        if not timeline.getCommitsTimeline().filterCompletedInstants().containsInstant(instant):
            return False
        cleans = timeline.getCleanerTimeline().filterCompletedInstants()
        if cleans.empty():
            return True
        kept = cleans.readCleanMetadata(cleans.lastInstant().get()).getEarliestCommitToRetain()
        return not kept or instant >= str(kept)

    @property
    def latest(self) -> str | None:
        """The instant of the newest commit by anybody, also by a table service; None if there is none."""
        return next((str(one.requestedTime()) for one in _completed(self._client.getActiveTimeline())), None)

    def completed(self) -> list[str]:
        """The instants of all commits in the active timeline, newest first, also those of table services."""
        return [str(instant.requestedTime()) for instant in _completed(self._client.getActiveTimeline())]

    def file_groups(self) -> list[list[FileSlice]]:
        """For each file group that readers see: its versions, newest first."""
        groups = [g for name in self._partitions for g in each(self._files.getAllFileGroups(name))]
        found = [[_slice(one) for one in each(group.getAllFileSlices())] for group in groups]
        return [group for group in found if group]

    def replaced_before(self, instant: str) -> int:
        """Number of file groups that were replaced as a whole before an instant and still exist."""
        found = (self._files.getReplacedFileGroupsBefore(instant, name).count() for name in self._partitions)
        return sum(map(int, found))

    @cached_property
    def _partitions(self) -> list[str]:
        utilities = self._class("org.apache.hudi.common.fs.FSUtils")
        found = utilities.getAllPartitionPaths(self._engine, self._client, False)  # noqa: FBT003
        return [str(name) for name in each(found)]

    @cached_property
    def _engine(self) -> Any:
        return self._class("org.apache.hudi.common.engine.HoodieLocalEngineContext")(self._storage)

    @cached_property
    def _files(self) -> Any:
        views = self._class("org.apache.hudi.common.table.view.HoodieTableFileSystemView")
        return views.fileListingBasedFileSystemView(
            self._engine, self._client, self._client.getCommitsAndCompactionTimeline()
        )

    def _commits(self, timeline: Any) -> Iterator[CompletedCommit]:
        """The project's own commits in a timeline, newest first."""
        for instant in _completed(timeline):
            metadata = timeline.readCommitMetadata(instant)
            carried = texts(metadata.getExtraMetadata())
            if STATE in carried:
                begun, completed = instant.requestedTime(), instant.getCompletionTime()
                yield CompletedCommit(instant=begun, completed=completed, carried=carried)


def state_version(uuid: str, instant: str | None) -> str:
    """A text that identifies one published state: the table, and its commit or 0 if it has none yet."""
    return f"{uuid}:{instant or 0}"


def _completed(timeline: Any) -> Iterator[Any]:
    """The completed commits of a timeline, newest first."""
    commits = timeline.getCommitsTimeline().filterCompletedInstants()
    return each(commits.getReverseOrderedInstants())


def _slice(found: Any) -> FileSlice:
    base = found.getBaseFile()
    return FileSlice(
        partition=str(found.getPartitionPath()),
        instant=str(found.getBaseInstantTime()),
        base=int(base.get().getFileSize()) if base.isPresent() else 0,
        logs=tuple(int(log.getFileSize()) for log in each(found.getLogFiles())),
    )
