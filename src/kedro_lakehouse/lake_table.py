"""One table, bound to its environment: the argument of every function about one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.errors import ConfigurationError, UnsupportedError
from kedro_lakehouse.names import OWN_FORMAT
from kedro_lakehouse.ops.report import CommitReport, now
from kedro_lakehouse.ops.store import ERASURES
from kedro_lakehouse.plugins import SOURCES, load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.changes.subjects import ErasedSubjects
    from kedro_lakehouse.config.convert import ConvertConfig
    from kedro_lakehouse.config.pulled import PulledSourceConfig
    from kedro_lakehouse.config.sources import SourceConfig, StreamSourceConfig
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.environment import Environment
    from kedro_lakehouse.formats.base import TableFormat, TableState
    from kedro_lakehouse.names import Role, TableName
    from kedro_lakehouse.ops.decisions import Decisions
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.patience import Patience
    from kedro_lakehouse.ops.store import OpsStore
    from kedro_lakehouse.pulls.protocol import PulledSource
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.ledger import Ledger
    from kedro_lakehouse.sources.schemas import TopicSchemas


_LEAST_KEY: Final = 16


def erasure_key(environment: Environment) -> bytes:
    """The key by which erased subjects are hashed and evidence is signed: ``erasure.key`` of the credentials.

    Raises:
        ConfigurationError: There is none, or it is too short to keep a secret.
    """
    key = str(environment.credentials("erasure").get("key") or "")
    if len(key) < _LEAST_KEY:
        raise ConfigurationError(
            file="credentials.yml",
            key="erasure.key",
            problem=f"the key has fewer than {_LEAST_KEY} characters.",
            remedy="Write a long random text, and keep it: without it later events are not recognised.",
        )
    return key.encode()


@dataclass(frozen=True, kw_only=True, eq=False)
class LakeTable:
    """A table of tables.yml (``config``) or of convert.yml (``conversion``), in one environment and run.

    It is made by ``Project.bind``. Nothing is opened until it is asked for.
    """

    name: TableName
    environment: Environment
    bind: Callable[[TableName], LakeTable]
    """Binds another table of the project."""
    declared: TableConfig | None = None
    declared_source: SourceConfig | None = None
    conversion: ConvertConfig | None = None

    def __str__(self) -> str:
        return str(self.name)

    @property
    def config(self) -> TableConfig:
        """The declaration in tables.yml."""
        assert self.declared is not None, self.name  # noqa: S101 - a table of convert.yml has none
        return self.declared

    @property
    def source_config(self) -> SourceConfig:
        """The declaration of the table's source; a derived table has none."""
        assert self.declared_source is not None, self.name  # noqa: S101 - the caller looked
        return self.declared_source

    @cached_property
    def contract(self) -> TableContract:
        """What the declaration promises about events."""
        return TableContract.of(self.name, self.config)

    @property
    def format_name(self) -> str:
        """The name of the table's format; the format is not loaded."""
        if self.conversion is not None:
            return OWN_FORMAT
        return (self.declared and self.declared.format) or self.environment.default_format

    @property
    def in_catalog(self) -> bool:
        """Whether its stored tables are in catalog ``lake``, where they can be read without a JVM."""
        return self.environment.capabilities(self.format_name).in_catalog

    @cached_property
    def format(self) -> TableFormat:
        """The format of all stored tables that belong to the table.

        Raises:
            UnknownPluginError: No installed distribution registers the format.
            UnsupportedError: The environment does not load the format, or it cannot store tables with keys.
        """
        found = self.environment.format(self.format_name)
        if self.declared is not None and self.declared.write == "merge" and not found.capabilities.merge:
            raise UnsupportedError(
                what=f"{self.name}: the table format {found.name} holds no tables with keys.",
                remedy="Declare `write: append` or `write: replace`, or another `format`.",
            )
        return found

    @property
    def targets(self) -> tuple[Kind, ...]:
        """The targets that the declaration asks for: current, history or both."""
        kept: tuple[tuple[Kind, bool], ...] = (
            ("current", self.config.current),
            ("history", self.config.history is not None),
        )
        return tuple(kind for kind, wanted in kept if wanted)

    def stored(self, role: Role) -> TableName:
        """The name of a stored table that belongs to this table."""
        return self.name.with_suffix(role)

    @property
    def changes(self) -> TableName:
        """The name of the change log."""
        return self.stored("changes")

    @property
    def quarantine(self) -> TableName:
        """The name of the quarantine."""
        return self.stored("quarantine")

    def state(self, role: Role) -> TableState | None:
        """The published state of a stored table; None if it does not exist."""
        return self.format.state(self.stored(role))

    def read(self, role: Role) -> DataFrame:
        """The published rows of a stored table, as a lazy frame."""
        return self.format.read(self.stored(role))

    def open_source(self) -> FileSource:
        """The table's source of files, from its plug-in; nothing is listed yet.

        Of a source that is asked for its records, these are the files of its sealed pulls.
        """
        config = self.source_config
        if self.is_pulled:
            from kedro_lakehouse.sources.pulled import pulled_files

            pulled = pulled_files(cast("PulledSourceConfig", config), self.name, self.config)
            return cast("FileSource", pulled)
        made: Any = load_plugin(SOURCES, config.type)
        source = cast("FileSource", made(config, self.name, self.config))
        if (named := getattr(config, "credentials", None)) is not None:
            source.credentials = lambda: self.environment.credentials(named)  # type: ignore[attr-defined]
        if (registry := getattr(config, "schema_registry", None)) is not None:
            source.open_schemas = lambda: self._schemas(registry)  # type: ignore[attr-defined]
        return source

    @property
    def is_pulled(self) -> bool:
        """Whether the table's source is asked for its records."""
        from kedro_lakehouse.config.pulled import PulledSourceConfig

        return isinstance(self.declared_source, PulledSourceConfig)

    def open_pulled(self) -> PulledSource:
        """What is asked for the table's records, from its plug-in; nothing is contacted yet.

        Raises:
            ConfigurationError: The type of source has no such mode, or the credentials are not there.
        """
        config = cast("PulledSourceConfig", self.source_config)
        made: Any = load_plugin(SOURCES, config.type)
        if (mode := config.mode_of(self.config)) not in made.capabilities.modes:
            raise ConfigurationError(
                file="tables.yml",
                key=f"{self.name}.pull.mode",
                problem=f"a source of type '{config.type}' has no mode '{mode}'.",
                remedy=f"Use one of: {', '.join(sorted(made.capabilities.modes))}.",
            )
        secrets = self.environment.credentials(config.credentials) if config.credentials else {}
        return cast("PulledSource", made(config, self.name, self.config, secrets))

    def _schemas(self, registry: str) -> TopicSchemas:
        """The schemas that the table's records name in a registry; nothing is asked or read yet."""
        from kedro_lakehouse.sources.schemas import TopicSchemas

        source = cast("StreamSourceConfig", self.source_config)
        return TopicSchemas(
            table=str(self),
            topic=source.stream_of(self.config),
            name=registry,
            mode=source.compatibility,
            registry=self.environment.registry(registry),
            kept=self.environment.schemas,
            run_id=self.run_id,
        )

    def erased_subjects(self) -> ErasedSubjects | None:
        """The erased subjects whose events are refused; None if there are none. Read anew at each call.

        Raises:
            ConfigurationError: There are some, and the credentials have no key.
        """
        subject = self.config.subject
        # Whoever was erased may ask again.
        if subject is None or self.config.after_erasure == "accept" or self.config.erasure_requests:
            return None
        rows = self.ops.read(ERASURES, of_table=str(self), columns=("table", "subject"))
        hashes = frozenset(row["subject"] for row in rows if row["subject"])
        if not hashes:
            return None
        from kedro_lakehouse.changes.subjects import ErasedSubjects

        return ErasedSubjects(column=subject.column, hashes=hashes, key=erasure_key(self.environment))

    def open_ledger(self) -> Ledger:
        """The ledger of the table's batches, as it will be read at first use."""
        from kedro_lakehouse.config.sources import StreamSourceConfig
        from kedro_lakehouse.sources.ledger import Ledger

        is_stream = isinstance(self.declared_source, StreamSourceConfig)
        return Ledger(self.ops, self.name, self.run_id, remembers=is_stream)

    def lease(self, step: str) -> AbstractContextManager[Lease]:
        """Hold the lease of one step of the table while the block runs."""
        return self.environment.lease(self.name, step)

    def patience(self) -> Patience:
        """How long, and with which pauses, a commit of the table is planned again after lost races."""
        return self.environment.patience(self.name)

    def report(self, **facts: Any) -> CommitReport:
        """The report of a commit that this run makes now; ``facts`` say to which stage, and what it does."""
        return CommitReport(
            table=str(self),
            run_id=self.run_id,
            correlation_id=self.correlation_id,
            committed_at=now(),
            **facts,
        )

    @property
    def session(self) -> SparkSession:
        """The Spark session, started at first use."""
        return self.environment.session

    @property
    def ops(self) -> OpsStore:
        """The project's own tables."""
        return self.environment.ops

    @property
    def decisions(self) -> Decisions:
        """The decisions that people made about events."""
        return self.environment.decisions

    @property
    def run_id(self) -> str:
        """The run's own name."""
        return self.environment.run_id

    @property
    def correlation_id(self) -> str:
        """The scheduler's name for the run, if it belongs to a scheduler's run; else its own name."""
        return self.environment.correlation_id
