"""The running project: its declarations and places, captured from Kedro's context or found in the folder."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from kedro.config import MissingConfigException, OmegaConfigLoader
from kedro.framework.startup import bootstrap_project
from kedro.utils import find_kedro_project
from omegaconf.resolvers import oc

from kedro_lakehouse.aws import read_credentials
from kedro_lakehouse.config.columns import ColumnIndexConfig
from kedro_lakehouse.config.loading import (
    Declarations,
    load_column_index,
    load_declarations,
    refuse_unknown_formats,
)
from kedro_lakehouse.errors import ConfigurationError, UnsupportedError, did_you_mean
from kedro_lakehouse.logs.context import at_work_on
from kedro_lakehouse.logs.run import JVM_LINES
from kedro_lakehouse.names import ROLES
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.ops.patience import DEADLINE, Patience
from kedro_lakehouse.plugins import NOTIFIERS, SOURCES, TABLE_FORMATS, list_plugins, load_plugin
from kedro_lakehouse.redaction import keep_secret
from kedro_lakehouse.session.catalog import MetadataCatalog
from kedro_lakehouse.session.labels import JvmLabels, name_run
from kedro_lakehouse.session.line import by_spark, require_line, require_one_of
from kedro_lakehouse.session.spark import get_session, spark_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from kedro.framework.context import KedroContext
    from pyspark.sql import SparkSession

    from kedro_lakehouse.config.convert import ConvertConfig
    from kedro_lakehouse.config.maintenance import MaintenanceConfig
    from kedro_lakehouse.config.monitoring import MonitoringConfig
    from kedro_lakehouse.config.sources import SourceConfig
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.formats.base import TableFormat
    from kedro_lakehouse.logs.context import RunContext
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.decisions import Decisions
    from kedro_lakehouse.ops.judgements import Judgements
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.ops.store import OpsStore

_OWN: Final = ("sources", "tables", "expectations", "monitoring", "maintenance", "convert", "spark")
"""The project's own configuration files, beside Kedro's."""


def project_path(path: str) -> str:
    """An absolute path for one that is relative to the project's folder; addresses stay as they are."""
    if "://" in path:
        return path
    return str((find_kedro_project(Path.cwd()) or Path.cwd()) / Path(path).expanduser())


CONFIG_LOADER_ARGS: dict[str, Any] = {
    "base_env": "base",
    "default_run_env": "local",
    "merge_strategy": dict.fromkeys(("catalog", "parameters", "globals", *_OWN), "soft"),
    "custom_resolvers": {"project_path": project_path, "by_spark": by_spark, "oc.env": oc.env},
    "config_patterns": {name: [f"{name}*"] for name in _OWN},
}


def new_run_id() -> str:
    """A run's name: sortable by time, unique across machines, fit for a branch name."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}_{uuid.uuid4().hex[:8]}"


@dataclass
class Project:
    """One environment of one project, and one run of it.

    ``reports`` collects what each commit of this run did, for the summary at its end; ``quarantined``
    holds checked events between the saving of a batch's quarantine and that of its changes; ``ingesting``
    which batch a table's landing has given out, under which lease; ``engine`` computes rows (None: Spark);
    ``commit_deadline`` is how many seconds a commit that loses races is planned again;
    ``source_columns`` are those that a table's landed files had, for its lineage; ``run`` is what
    log lines, jobs and commits name, while a run is on, and ``log_folder`` where its log is written.
    ``secrets`` begins the names of those secrets in AWS that hold what credentials.yml does not.
    """

    env: str
    declarations: Declarations
    spark_conf: dict[str, str]
    lakehouse: str
    cache: str = ""
    column_index: ColumnIndexConfig = field(default_factory=ColumnIndexConfig)
    run_id: str = field(default_factory=new_run_id)
    reports: list[CommitReport] = field(default_factory=list)
    quarantined: dict[TableName, Any] = field(default_factory=dict)
    source_columns: dict[TableName, tuple[str, ...]] = field(default_factory=dict)
    monitoring: MonitoringConfig | None = None
    run: RunContext | None = None
    logs_folder: str | None = None
    log_folder: Path | None = None
    secrets: str | None = None
    default_format: str = "iceberg"
    commit_deadline: float = DEADLINE
    engine: Any = None
    ingesting: dict[TableName, Any] = field(default_factory=dict)
    _formats: dict[str, TableFormat] = field(default_factory=dict, repr=False)
    _credentials: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _maintenance: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _convert: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _labels: JvmLabels = field(default_factory=JvmLabels, repr=False)

    @classmethod
    def load(
        cls, conf_source: str, env: str | None, *, base: str = "base", default: str = "local"
    ) -> Project:
        """Read the declarations of an environment.

        Raises:
            ConfigurationError: A declaration is wrong; the error names file, key and remedy.
        """
        args = CONFIG_LOADER_ARGS | {"base_env": base, "default_run_env": default}
        loader = OmegaConfigLoader(conf_source=conf_source, env=env, **args)
        models: dict[str, type[SourceConfig]] = {
            name: cast("Any", load_plugin(SOURCES, name)).config_model for name in list_plugins(SOURCES)
        }
        settings = _section(loader, "globals")
        default_format = str(settings.get("table_format") or "iceberg")
        declarations = load_declarations(
            _section(loader, "sources"), _section(loader, "tables"), models, _section(loader, "expectations"),
            table_format=default_format,
        )  # fmt: skip
        refuse_unknown_formats(declarations, default_format, list_plugins(TABLE_FORMATS))
        lakehouse = str(settings.get("lakehouse") or project_path("data/lakehouse"))
        spark = {k: str(v) for k, v in _section(loader, "spark").items() if v is not None}
        return cls(
            env=env or default, declarations=declarations, spark_conf=spark, lakehouse=lakehouse,
            cache=str(settings.get("cache") or project_path(".cache")),
            column_index=load_column_index(_section(loader, "parameters")), secrets=settings.get("secrets"),
            monitoring=_monitoring(_section(loader, "monitoring"), declarations),
            commit_deadline=float(settings.get("commit_deadline") or DEADLINE),
            default_format=default_format, logs_folder=settings.get("logs"),
            _convert=lambda: _section(loader, "convert"),
            _maintenance=lambda: _section(loader, "maintenance"),
            _credentials=lambda: _section(loader, "credentials"),
        )  # fmt: skip

    @classmethod
    def of_context(cls, context: KedroContext) -> Project:
        """Read the declarations of the environment that Kedro runs in."""
        loader = context.config_loader
        base = getattr(loader, "base_env", None) or "base"
        default = getattr(loader, "default_run_env", None) or "local"
        return cls.load(str(loader.conf_source), context.env, base=base, default=default)

    def table(self, name: TableName) -> TableConfig:
        """The declaration of a table.

        Raises:
            ConfigurationError: tables.yml does not declare it.
        """
        declared = self.declarations.tables
        if name not in declared:
            raise ConfigurationError(
                file="tables.yml", key=str(name),
                problem=f"the table is not declared.{did_you_mean(str(name), map(str, declared))}",
                remedy="Declare it, or use a declared one: `kedro lakehouse tables` lists them.",
            )  # fmt: skip
        return declared[name]

    @cached_property
    def maintenance(self) -> MaintenanceConfig:
        """The thresholds of maintenance.yml.

        Raises:
            ConfigurationError: Something is wrong in the file.
        """
        from kedro_lakehouse.config.maintenance import load_maintenance

        known = [*self.declarations.tables, *self.conversions]
        return load_maintenance(self._maintenance(), [str(name) for name in known])

    @cached_property
    def conversions(self) -> Mapping[TableName, ConvertConfig]:
        """The tables of convert.yml; where there is none, nothing of it is imported.

        Raises:
            ConfigurationError: Something is wrong in the file.
        """
        raw = self._convert()
        if not raw:
            return {}
        from kedro_lakehouse.config.convert import load_conversions

        return load_conversions(raw, self.declarations.tables)

    @property
    def all_tables(self) -> list[TableName]:
        """The declared tables, and those of convert.yml."""
        return [*self.declarations.tables, *self.conversions]

    def source(self, name: TableName) -> SourceConfig:
        """The declaration of a table's source; a derived table has none."""
        return self.declarations.sources[str(self.table(name).source)]

    def credentials(self, name: str) -> Mapping[str, Any]:
        """An entry of credentials.yml, else of the secrets in AWS, read now; it is printed nowhere.

        Raises:
            ConfigurationError: There is no such entry, or it is not a mapping of keys.
            AwsRefusedError: The environment's secrets have no such one, or it may not be read.
        """
        held = self._credentials()
        found = held.get(name)
        if found is None and self.secrets is not None:
            return read_credentials(self.secrets + name)
        if not isinstance(found, dict):
            raise ConfigurationError(
                file="credentials.yml", key=name,
                problem=f"there is no such entry with keys below it.{did_you_mean(name, map(str, held))}",
                remedy="Write it into conf/local/credentials.yml.",
            )  # fmt: skip
        return keep_secret(found)

    @property
    def env_option(self) -> str:
        """What a command needs, after a blank, to find this environment again; often nothing."""
        usual = self.env == "local" and "KEDRO_ENV" not in os.environ
        return "" if usual else f" --env={self.env}"

    @cached_property
    def catalog(self) -> MetadataCatalog:
        """Metadata of the lake's tables, without a JVM."""
        return MetadataCatalog(self.spark_conf)

    @cached_property
    def ops(self) -> OpsStore:
        """The project's own tables."""
        from kedro_lakehouse.ops.store import OpsStore  # it brings Arrow: a quarter of a second

        return OpsStore(self.catalog)

    @cached_property
    def decisions(self) -> Decisions:
        """What people decided about events."""
        from kedro_lakehouse.ops.decisions import Decisions

        return Decisions(self.ops)

    @cached_property
    def judgements(self) -> Judgements:
        """What was judged of tables."""
        from kedro_lakehouse.ops.judgements import Judgements

        return Judgements(self.ops, self.run_id)

    @property
    def session(self) -> SparkSession:
        """The Spark session, started at first use; it knows what this thread is at work on."""
        if self.run is not None:
            name_run(self.run.fields())
        session = get_session(self.spark_conf)
        if self.run is not None:
            log = str(self.log_folder / f"{self.run_id}{JVM_LINES}") if self.log_folder else ""
            self._labels.put(session, self.run.fields(), at_work_on(), log)
        return session

    def unlabel(self) -> None:
        """Let later jobs and lines of the JVM not speak of this run any more."""
        if spark_runs():
            self._labels.clear(get_session(self.spark_conf))

    @property
    def correlation_id(self) -> str:
        """The scheduler's name of this run, where it is part of one; else its own."""
        return self.run.correlation_id if self.run else self.run_id

    def format_of(self, name: TableName) -> TableFormat:
        """The format of a declared table, of all that is stored of it.

        Raises:
            UnknownPluginError: No installed distribution registers the format.
            UnsupportedError: The environment does not load it.
        """
        if name in self.conversions:
            return self.format("iceberg")
        declared = self.declarations.tables.get(name)
        found = self.format(self.format_name(name))
        if declared is not None and declared.write == "merge" and not found.capabilities.merge:
            raise UnsupportedError(
                what=f"{name}: the table format {found.name} holds no tables with keys.",
                remedy="Declare `write: append` or `write: replace`, or another `format`.",
            )
        return found

    def format_name(self, name: TableName) -> str:
        """The name of a declared table's format; nothing is loaded."""
        declared = self.declarations.tables.get(name)
        return (declared and declared.format) or self.default_format

    def declared_of(self, stored: TableName) -> TableName:
        """The declared table that a stored one belongs to; itself where there is none."""
        tables = self.declarations.tables
        return next((n for n in tables if stored in map(n.with_suffix, ROLES)), stored)

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
                raise UnsupportedError(
                    what=f"The environment {self.env} does not load the table format {name}: {lacking}.",
                    remedy="Choose another environment (`kedro run --env=NAME`), or another format.",
                )
            require_one_of(made.capabilities.spark, name)
            self._formats[name] = made(
                FormatContext(
                    session=lambda: self.session, catalog=self.catalog, lakehouse=self.lakehouse,
                    run_id=self.run_id, correlation_id=self.correlation_id, spark_conf=self.spark_conf,
                )
            )  # fmt: skip
        return self._formats[name]

    @property
    def leases(self) -> str:
        """The place of the leases that keep two runs from working on one table."""
        return f"{self.lakehouse}/leases"

    def lease(self, table: TableName, stage: str) -> AbstractContextManager[Lease]:
        """Hold the lease of one stage of a table while the block runs."""
        return lease(self.leases, table, stage)

    def patience(self, table: TableName) -> Patience:
        """How long a commit of the table that loses races is planned again."""
        return Patience(table, self.commit_deadline)

    @property
    def logs(self) -> str:
        """The place of the runs' logs: the global ``logs``, else beside the tables."""
        return self.logs_folder or f"{self.lakehouse}/logs"


def _monitoring(raw: Mapping[str, Any], declarations: Declarations) -> MonitoringConfig | None:
    """The checked monitoring.yml; where there is none, nothing of it is imported."""
    if not raw:
        return None
    from kedro_lakehouse.config.monitoring import load_monitoring

    models: dict[str, Any] = {}
    if raw.get("notifiers"):
        models = {n: cast("Any", load_plugin(NOTIFIERS, n)).config_model for n in list_plugins(NOTIFIERS)}
    return load_monitoring(raw, [str(table) for table in declarations.tables], models)


def _section(loader: OmegaConfigLoader, name: str) -> dict[str, Any]:
    try:
        return dict(loader[name])
    except MissingConfigException:
        return {}


class _Active:
    """The one project of this process: the last one that Kedro built a context for."""

    project: Project | None = None


def activate(project: Project) -> Project:
    """Make a project the one that datasets look their declarations up in."""
    _Active.project = project
    return project


def active_project() -> Project:
    """The project of Kedro's context; without one (registry list, viz) that of KEDRO_ENV, else the default.

    Raises:
        ConfigurationError: The working folder is not inside a Kedro project.
    """
    return _Active.project or found_project()


def find_root() -> Path:
    """The folder of the Kedro project around the working folder.

    Raises:
        ConfigurationError: The working folder is not inside a Kedro project.
    """
    if (root := find_kedro_project(Path.cwd())) is None:
        raise ConfigurationError(
            file="pyproject.toml", key="tool.kedro", problem=f"no Kedro project around {Path.cwd().name}.",
            remedy="Change into the project's folder.",
        )  # fmt: skip
    return Path(root)


def found_project() -> Project:
    """Read the project around the working folder, for the environment of KEDRO_ENV or the default one."""
    root = find_root()
    bootstrap_project(root)
    return Project.load(str(root / "conf"), os.environ.get("KEDRO_ENV"))
