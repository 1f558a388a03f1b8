"""The running project: its declarations and places, captured from Kedro's context or found in the folder."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kedro.config import MissingConfigException, OmegaConfigLoader
from kedro.framework.startup import bootstrap_project
from kedro.utils import find_kedro_project

from kedro_lakehouse.config.loading import Declarations, load_declarations
from kedro_lakehouse.errors import ConfigurationError, did_you_mean
from kedro_lakehouse.ops.decisions import Decisions
from kedro_lakehouse.ops.judgements import Judgements
from kedro_lakehouse.ops.store import OpsStore
from kedro_lakehouse.plugins import SOURCES, list_plugins, load_plugin
from kedro_lakehouse.session.catalog import MetadataCatalog
from kedro_lakehouse.session.spark import get_session

if TYPE_CHECKING:
    from kedro.framework.context import KedroContext
    from pyspark.sql import SparkSession

    from kedro_lakehouse.config.sources import SourceConfig
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.formats.iceberg import IcebergFormat
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.report import CommitReport

_PATTERNS = {
    "sources": ["sources*"], "tables": ["tables*"], "expectations": ["expectations*"], "spark": ["spark*"],
}  # fmt: skip


def project_path(path: str) -> str:
    """An absolute path for one that is relative to the project's folder; addresses stay as they are."""
    if "://" in path:
        return path
    return str((find_kedro_project(Path.cwd()) or Path.cwd()) / Path(path).expanduser())


CONFIG_LOADER_ARGS: dict[str, Any] = {
    "base_env": "base",
    "default_run_env": "local",
    "merge_strategy": dict.fromkeys(
        ("catalog", "parameters", "sources", "tables", "expectations", "spark", "globals"), "soft"
    ),
    "custom_resolvers": {"project_path": project_path},
    "config_patterns": _PATTERNS,
}


def new_run_id() -> str:
    """A run's name: sortable by time, unique across machines, fit for a branch name."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}_{uuid.uuid4().hex[:8]}"


@dataclass
class Project:
    """One environment of one project, and one run of it.

    ``reports`` collects what each commit of this run did, for the summary at its end; ``quarantined``
    holds checked events between the saving of a batch's quarantine and that of its changes.
    """

    env: str
    declarations: Declarations
    spark_conf: dict[str, str]
    lakehouse: str
    run_id: str = field(default_factory=new_run_id)
    reports: list[CommitReport] = field(default_factory=list)
    quarantined: dict[TableName, Any] = field(default_factory=dict)

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
        declarations = load_declarations(
            _section(loader, "sources"), _section(loader, "tables"), models, _section(loader, "expectations")
        )
        settings = _section(loader, "globals")
        lakehouse = str(settings.get("lakehouse") or project_path("data/lakehouse"))
        spark = {k: str(v) for k, v in _section(loader, "spark").items() if v is not None}
        return cls(env=env or default, declarations=declarations, spark_conf=spark, lakehouse=lakehouse)

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
                file="tables.yml",
                key=str(name),
                problem=f"the table is not declared.{did_you_mean(str(name), map(str, declared))}",
                remedy="Declare it, or use a declared one: `kedro lakehouse tables` lists them.",
            )
        return declared[name]

    def source(self, name: TableName) -> SourceConfig:
        """The declaration of a table's source; a derived table has none."""
        return self.declarations.sources[str(self.table(name).source)]

    @cached_property
    def catalog(self) -> MetadataCatalog:
        """Metadata of the lake's tables, without a JVM."""
        return MetadataCatalog(self.spark_conf)

    @cached_property
    def ops(self) -> OpsStore:
        """The project's own tables."""
        return OpsStore(self.catalog)

    @cached_property
    def decisions(self) -> Decisions:
        """What people decided about events."""
        return Decisions(self.ops)

    @cached_property
    def judgements(self) -> Judgements:
        """What was judged of tables."""
        return Judgements(self.ops, self.run_id)

    @property
    def session(self) -> SparkSession:
        """The Spark session, started at first use."""
        return get_session(self.spark_conf)

    @cached_property
    def iceberg(self) -> IcebergFormat:
        """The table format of this environment."""
        from kedro_lakehouse.formats.iceberg import IcebergFormat  # it brings Spark's types: half a second

        return IcebergFormat(session=lambda: self.session, catalog=self.catalog, run_id=self.run_id)

    @property
    def leases(self) -> Path:
        """The folder of the leases that keep two runs from working on one table."""
        return Path(self.lakehouse) / "leases"


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


def found_project() -> Project:
    """Read the project around the working folder, for the environment of KEDRO_ENV or the default one."""
    root = find_kedro_project(Path.cwd())
    if root is None:
        raise ConfigurationError(
            file="pyproject.toml",
            key="tool.kedro",
            problem=f"no Kedro project around {Path.cwd().name}.",
            remedy="Change into the project's folder.",
        )
    bootstrap_project(root)
    return Project.load(str(root / "conf"), os.environ.get("KEDRO_ENV"))
