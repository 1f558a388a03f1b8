"""The environment of a run: its places, catalog, session, formats and leases, and what the run collects."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from kedro_lakehouse.aws import read_credentials
from kedro_lakehouse.errors import ConfigurationError, UnsupportedError, did_you_mean, listed
from kedro_lakehouse.logs.context import at_work_on
from kedro_lakehouse.logs.place import JVM_LINES
from kedro_lakehouse.names import OWN_FORMAT
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.ops.patience import DEADLINE, Patience
from kedro_lakehouse.plugins import REGISTRIES, TABLE_FORMATS, ConfigModels, load_plugin
from kedro_lakehouse.redaction import keep_secret
from kedro_lakehouse.session.catalog import MetadataCatalog
from kedro_lakehouse.session.labels import JvmLabels, name_run
from kedro_lakehouse.session.line import require_line, require_one_of
from kedro_lakehouse.session.spark import FOR_ROWS_OF_THE_DRIVER, get_session, spark_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kedro_lakehouse.config.registries import RegistryConfig
    from kedro_lakehouse.errors import LakehouseError
    from kedro_lakehouse.formats.base import Capabilities, TableFormat
    from kedro_lakehouse.logs.context import RunContext
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.notifiers.base import AlertState
    from kedro_lakehouse.ops.decisions import Decisions
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.ops.schemas import KeptSchemas
    from kedro_lakehouse.ops.store import OpsStore
    from kedro_lakehouse.ops.validations import Validations
    from kedro_lakehouse.schema_registries.base import SchemaRegistry
    from kedro_lakehouse.session.spark import Load


SMALL_BATCH: Final = 10_000
"""Well below the number from which Spark is the faster way: measured by ``bench/small_batch.py``."""


def new_run_id() -> str:
    """A run's name: sortable by time, unique across machines, fit for a branch name."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}_{uuid.uuid4().hex[:8]}"


@dataclass(kw_only=True)
class Environment:
    """One environment, and one run in it.

    - ``reports``: what each commit of this run did, for the summary at its end.
    - ``alerts``: what this run found that the notifiers are to be told of, beside failures and the like.
    - ``quarantined``: the checked events of a batch, between the saving of its quarantine and of its changes.
    - ``ingesting``: the batch of each table that was yielded last, and its lease.
    - ``pulled``: the sources whose tables this run has pulled together, each with what went wrong.
    - ``engine``: what computes rows; None means Spark.
    - ``commit_deadline``: for how many seconds a commit that loses races is planned again.
    - ``small_batch``: up to so many events are applied without a Spark plan, where that is possible.
    - ``source_columns``: the columns of each table's landed files, for its lineage.
    - ``find_load``: finds out how many bytes have landed, for Spark's start.
    - ``run``: what log lines, jobs and commits name while a run is on.
    - ``log_folder``: where the run's log is written.
    - ``secrets``: the prefix of the names of AWS secrets, which are read for what credentials.yml lacks.
    """

    env: str
    spark_conf: dict[str, str]
    lakehouse: str
    cache: str = ""
    run_id: str = field(default_factory=new_run_id)
    reports: list[CommitReport] = field(default_factory=list)
    alerts: list[AlertState] = field(default_factory=list)
    quarantined: dict[TableName, Any] = field(default_factory=dict)
    source_columns: dict[TableName, tuple[str, ...]] = field(default_factory=dict)
    run: RunContext | None = None
    find_load: Callable[[], Load] | None = None
    logs_folder: str | None = None
    log_folder: Path | None = None
    secrets: str | None = None
    default_format: str = OWN_FORMAT
    commit_deadline: float = DEADLINE
    small_batch: int = SMALL_BATCH
    engine: Any = None
    ingesting: dict[TableName, Any] = field(default_factory=dict)
    pulled: dict[str, LakehouseError | None] = field(default_factory=dict)
    _formats: dict[str, TableFormat] = field(default_factory=dict, repr=False)
    _credentials: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _registries: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _labels: JvmLabels = field(default_factory=JvmLabels, repr=False)

    def credentials(self, name: str) -> Mapping[str, Any]:
        """An entry of credentials.yml, or else of the secrets in AWS, read now; it is printed nowhere.

        Raises:
            ConfigurationError: There is no such entry, or it is not a mapping of keys.
            AwsRefusedError: The environment's secrets have no such entry, or it may not be read.
        """
        held = self._credentials()
        found = held.get(name)
        if found is None and self.secrets is not None:
            return read_credentials(self.secrets + name)
        if not isinstance(found, dict):
            raise ConfigurationError(
                file="credentials.yml",
                key=name,
                problem=f"there is no such entry with keys below it.{did_you_mean(name, map(str, held))}",
                remedy="Write it into conf/local/credentials.yml.",
            )
        return keep_secret(found)

    def registry_config(self, name: str) -> RegistryConfig:
        """The declaration of a schema registry in registries.yml.

        Raises:
            ConfigurationError: There is none of that name, or something is wrong in it.
        """
        from kedro_lakehouse.config.registries import registry_config

        return registry_config(self._registries(), name, ConfigModels(REGISTRIES))

    def registry(self, name: str) -> SchemaRegistry:
        """A schema registry of registries.yml; it is not asked yet.

        Raises:
            ConfigurationError: There is none of that name, or something is wrong in its declaration.
        """
        config = self.registry_config(name)
        kind = cast("Any", load_plugin(REGISTRIES, config.type))
        secrets = self.credentials(config.credentials) if config.credentials else {}
        return cast("SchemaRegistry", kind(config, secrets))

    @property
    def env_option(self) -> str:
        """The option, after a blank, with which a command finds this environment again; often empty."""
        usual = self.env == "local" and "KEDRO_ENV" not in os.environ
        return "" if usual else f" --env={self.env}"

    @cached_property
    def catalog(self) -> MetadataCatalog:
        """Metadata of the lake's tables, without a JVM."""
        return MetadataCatalog(self.spark_conf)

    @cached_property
    def ops(self) -> OpsStore:
        """The project's own tables."""
        from kedro_lakehouse.ops.store import OpsStore  # it imports Arrow, which takes a quarter of a second

        return OpsStore(self.catalog)

    @cached_property
    def decisions(self) -> Decisions:
        """The decisions that people made about events."""
        from kedro_lakehouse.ops.decisions import Decisions

        return Decisions(self.ops)

    @cached_property
    def schemas(self) -> KeptSchemas:
        """The schemas of registries that records named."""
        from kedro_lakehouse.ops.schemas import KeptSchemas

        return KeptSchemas(self.ops)

    @cached_property
    def validations(self) -> Validations:
        """The recorded validations of tables."""
        from kedro_lakehouse.ops.validations import Validations

        return Validations(self.ops, self.run_id)

    @property
    def session(self) -> SparkSession:
        """The Spark session, started at first use and labelled with what this thread is working on."""
        if self.run is not None:
            name_run(self.run.fields())
        session = get_session(self.spark_conf, self.find_load)
        if self.run is not None:
            log = str(self.log_folder / f"{self.run_id}{JVM_LINES}") if self.log_folder else ""
            self._labels.put(session, self.run.fields(), at_work_on(), log)
        return session

    @property
    def session_for_few_rows(self) -> SparkSession:
        """A session of the same Spark and the same meaning, that plans for rows which the driver has."""
        _ = self.session  # starts Spark as the run needs it
        return get_session({**self.spark_conf, **FOR_ROWS_OF_THE_DRIVER})

    def unlabel(self) -> None:
        """Remove the labels of this run from later jobs and log lines of the JVM."""
        if spark_runs():
            self._labels.clear(get_session(self.spark_conf))

    @property
    def correlation_id(self) -> str:
        """The scheduler's name for this run, if it belongs to a scheduler's run; else its own name."""
        return self.run.correlation_id if self.run else self.run_id

    def capabilities(self, format_name: str) -> Capabilities:
        """What a table format can do; the format is not created, and this line of Spark need not support it.

        Raises:
            UnknownPluginError: No installed distribution registers it.
        """
        return cast("type[TableFormat]", load_plugin(TABLE_FORMATS, format_name)).capabilities

    def format(self, name: str) -> TableFormat:
        """A table format by its name.

        Raises:
            UnknownPluginError: No installed distribution registers it.
            UnsupportedError: The environment does not load it, or it does not run on this line of Spark.
            SparkLineError: The environment is for another line of Spark.
        """
        if name not in self._formats:
            from kedro_lakehouse.formats.base import FormatContext

            require_line(self.spark_conf)
            made = cast("type[TableFormat]", load_plugin(TABLE_FORMATS, name))
            if lacking := made.lacking(self.spark_conf):
                raise self._not_loaded(name, lacking)
            require_one_of(made.capabilities.spark, name)
            self._formats[name] = made(
                FormatContext(
                    session=lambda: self.session,
                    catalog=self.catalog,
                    lakehouse=self.lakehouse,
                    run_id=self.run_id,
                    correlation_id=self.correlation_id,
                    spark_conf=self.spark_conf,
                )
            )
        return self._formats[name]

    def tables_in(self, format_name: str) -> Sequence[TableName]:
        """The declared tables of a format; an environment without declarations has none."""
        del format_name
        return ()

    def tables_of_source(self, source: str) -> Sequence[TableName]:
        """The declared tables of a source; an environment without declarations has none."""
        del source
        return ()

    def _not_loaded(self, name: str, lacking: str) -> UnsupportedError:
        """The error that names the tables of a format that is not loaded, and what to write where."""
        tables = self.tables_in(name)
        what = f"The environment {self.env} does not load the table format {name}: {lacking}."
        if tables:
            what += f" Declared with it: {listed(tables)}."
        if "pip install" in lacking:
            return UnsupportedError(what=what, remedy="Install it, or declare another `format`.")
        remedy = f"Choose an environment that loads {name} (`kedro run --env=NAME`), or another format."
        if settings := self.capabilities(name).settings_file:
            remedy = (
                f"Copy the lines of kedro-lakehouse's {settings} into conf/{self.env}/spark.yml: that "
                f"loads {name} beside {OWN_FORMAT}. Then `kedro run`; or make every table {name}: "
                f"`kedro run --env={name}`."
            )
        return UnsupportedError(what=what, remedy=remedy)

    @property
    def leases(self) -> str:
        """The place of the leases that keep two runs from working on one table."""
        return f"{self.lakehouse}/leases"

    def lease(self, table: TableName, stage: str) -> AbstractContextManager[Lease]:
        """Hold the lease of one stage of a table while the block runs."""
        return lease(self.leases, table, stage)

    def patience(self, table: TableName) -> Patience:
        """How long, and with which pauses, a commit of the table is planned again after lost races."""
        return Patience(table, self.commit_deadline)

    @property
    def logs(self) -> str:
        """The place of the runs' logs: the global ``logs``, or else a folder beside the tables."""
        return self.logs_folder or f"{self.lakehouse}/logs"
