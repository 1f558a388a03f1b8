"""What a pulled source implements: say what a pull would hold, and read it in chunks.

Landing, limits, retries, cancelling and secrets are the package's work, not the source's. A pull is planned,
landed under a name of its attempt, sealed by a manifest that names its files, and only then listed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, runtime_checkable

from kedro_lakehouse.config.pulls import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kedro_lakehouse.config.pulls import PullConfig
    from kedro_lakehouse.config.sources import SourceConfig
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName


__all__ = ["Mode"]
EntityKind = Literal["table", "view", "collection"]
"""What a crawl of a source may find."""
_OVERLAP: Final = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class PullCapabilities:
    """What a type of source can do."""

    modes: frozenset[Mode]
    lands: Literal["parquet", "json"]
    """The format of landed files: parquet from Arrow tables, or JSON lines from the records' own bytes."""
    one_state: bool = False
    """Whether all tables of the source can be read as they were at one moment."""
    resumes: bool = False
    """Whether ``read`` can go on after the state of an earlier chunk, also in another process."""
    crawls: bool = False
    """Whether the source tells all that it holds; then it is a `CrawledSource`, too."""


@dataclass(frozen=True, kw_only=True)
class EntityColumn:
    """A column or field of an entity; ``type`` is the source's own name of its type."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, kw_only=True)
class Entity:
    """What the source's own catalog says about a table, collection or resource."""

    columns: tuple[EntityColumn, ...] = ()
    keys: tuple[str, ...] = ()
    """Columns of the primary key; empty where there is none or the source knows none."""
    rows: int | None = None
    """The source's own estimate of how many rows there are."""


@dataclass(frozen=True, kw_only=True)
class CrawledEntity:
    """A table, view or collection that a source holds, whether it is declared or not."""

    name: str
    """As ``entity`` of tables.yml names it."""
    also: tuple[str, ...] = ()
    """Other names that ``entity`` may have for it, such as one with the schema that can be left out."""
    kind: EntityKind = "table"
    entity: Entity = field(default_factory=Entity)
    """What the source's catalog says about it."""
    id: str = ""
    """A text that stays the same when it is renamed, and that no other one has; empty without one."""
    documents: Callable[[], Iterable[bytes]] | None = None
    """Where no catalog knows the fields: gives documents in BSON, all or a sample; their fields are counted.
    It is called at most once, before the next entity is asked for."""


@dataclass(frozen=True, kw_only=True)
class Since:
    """What the sealed pulls before this one say."""

    mode: Mode = "full"
    """What the pull is to hold."""
    number: int
    """The number of the last sealed pull; 0 if there is none."""
    to: str | None
    """The highest end of a window that was sealed; None before the first, and where windows have no ends."""
    identity: Mapping[str, str] = field(default_factory=dict)
    """The identity of the source as the last sealed pull found it."""
    position: str | None = None
    """The position of the source at the last sealed pull: LSN, GTID, SCN, or none."""
    shared: Mapping[str, Any] | None = None
    """The ``facts`` of a pull of another table, whose state this one is to have too; see ``one_state``."""


@dataclass(frozen=True, kw_only=True)
class Pull:
    """What one pull is to hold: the rows of the half-open window ``[from_, to)``, by the source's own clock.

    All values go into the manifest as JSON; none may be a secret.
    """

    from_: str | None
    """Begin of the window, which it includes; None: from the first row on."""
    to: str | None
    """End of the window, which it excludes; for ``full`` and ``snapshot`` the time of the state read.
    Times are ISO 8601 in UTC."""
    identity: Mapping[str, str] = field(default_factory=dict)
    """Server, database and table as the source names them; a pull from others than the last is refused."""
    position: str | None = None
    """LSN, GTID or SCN of the state that is read, where the source has one."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else ``read`` needs, such as an exported snapshot's name; it is not written down."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some rows of a pull, and the state after them."""

    rows: pa.Table | Sequence[bytes]
    """An Arrow table; or records in JSON, each a line without its end, as the source wrote them."""
    state: Mapping[str, Any] | None = None
    """From where ``read`` can go on after these rows, as JSON; None where it cannot."""


@runtime_checkable
class PulledSource(Protocol):
    """A source that is asked for its records; register it in the group ``kedro_lakehouse.sources``.

    One object is one table of the source, in one run. Errors of the source are raised as those of
    ``pulls.errors``: transient ones are tried again, terminal ones are not.
    """

    config_model: ClassVar[type[SourceConfig]]
    capabilities: ClassVar[PullCapabilities]

    def __init__(
        self, config: Any, name: TableName, table: TableConfig, credentials: Mapping[str, Any]
    ) -> None:
        """Store the declarations and the secrets; nothing is contacted yet."""

    def describe(self) -> Entity:
        """What the source's catalog says about the table's entity."""

    def plan(self, since: Since) -> Pull | None:
        """What the next pull is to hold; None if the source can tell cheaply that nothing is new."""

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """Read the rows of a pull in chunks.

        Where parquet lands, there is at least one chunk: of a table without rows an empty one.

        Args:
            pull: What ``plan`` returned, in this process or in one that was killed.
            state: The state of the last chunk that has landed; None: from the beginning.
        """

    def close(self) -> None:
        """Give back connections; also after an error, and from another thread to end a read."""


@runtime_checkable
class CrawledSource(PulledSource, Protocol):
    """A pulled source that tells all that it holds: `kedro lakehouse crawl` asks for it."""

    @classmethod
    def crawl(
        cls, config: Any, credentials: Mapping[str, Any], *, whole: bool
    ) -> Generator[CrawledEntity, None, None]:
        """What the source holds, each entity once; nothing is contacted before the first is asked for.

        Connections are given back when the generator is closed, or is at its end.

        Args:
            config: The source's declaration; none of its tables need be declared.
            credentials: The secrets.
            whole: Whether all of each entity is looked at, where a sample would do.
        """


def window_begin(since: Since, config: PullConfig) -> str | None:
    """The begin of an incremental window: the end of the last one, less the declared overlap (10 minutes).

    With ``late: open_transactions`` windows do not overlap.
    """
    if since.to is None or config.late == "open_transactions":
        return since.to
    overlap = config.late.overlap if config.late is not None else _OVERLAP
    return (datetime.fromisoformat(since.to) - overlap).isoformat()
