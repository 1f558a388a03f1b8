"""The running project: its declarations and places, from Kedro's context or the working folder."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from kedro.config import MissingConfigException, OmegaConfigLoader
from kedro.framework.startup import bootstrap_project
from kedro.utils import find_kedro_project
from omegaconf.resolvers import oc

from kedro_lakehouse.config.columns import ColumnIndexConfig
from kedro_lakehouse.config.files import ConfigurationFiles, all_of
from kedro_lakehouse.config.loading import (
    Declarations,
    Formats,
    collect_declarations,
    load_column_index,
    load_declarations,
)
from kedro_lakehouse.config.usable import usable
from kedro_lakehouse.config.validation import Mistakes, found_kind
from kedro_lakehouse.environment import SMALL_BATCH, Environment
from kedro_lakehouse.errors import ConfigurationError, LakehouseError, did_you_mean
from kedro_lakehouse.lake_table import LakeTable
from kedro_lakehouse.names import OWN_FORMAT, ROLES
from kedro_lakehouse.ops.patience import DEADLINE
from kedro_lakehouse.plugins import (
    NOTIFIERS,
    REGISTRIES,
    SOURCES,
    TABLE_FORMATS,
    ConfigModels,
    list_plugins,
    load_plugin,
)
from kedro_lakehouse.session.line import by_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kedro.framework.context import KedroContext

    from kedro_lakehouse.config.convert import ConvertConfig
    from kedro_lakehouse.config.discovery import DiscoveryConfig
    from kedro_lakehouse.config.grants import Grants
    from kedro_lakehouse.config.maintenance import MaintenanceConfig
    from kedro_lakehouse.config.monitoring import MonitoringConfig
    from kedro_lakehouse.config.service import ServiceConfig
    from kedro_lakehouse.config.sources import TableProblem
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.formats.base import TableFormat
    from kedro_lakehouse.names import TableName

_NO_FILES: Final = ConfigurationFiles(Path(), (), {})
_KEDRO_FILES: Final = {
    "globals": ("globals.yml",),
    "credentials": ("credentials*", "credentials*/**", "**/credentials*"),
    "parameters": ("parameters*", "parameters*/**", "**/parameters*"),
    "catalog": ("catalog*", "catalog*/**", "**/catalog*"),
}
_OWN: Final = (
    "sources",
    "tables",
    "expectations",
    "monitoring",
    "maintenance",
    "convert",
    "registries",
    "grants",
    "discovery",
    "service",
    "spark",
)
"""The project's own configuration files, beside Kedro's."""
TABLE_SETTINGS: Final = {"ssm": "Systems Manager", "secretsmanager": "Secrets Manager"}
"""Stores that may hold settings of tables."""
KINDS: Final = (*_KEDRO_FILES, *_OWN)
"""Every kind of configuration file."""


def project_path(path: str) -> str:
    """Resolve a path against the project's folder; an address, such as ``s3://...``, stays as it is."""
    if "://" in path:
        return path
    return str((find_kedro_project(Path.cwd()) or Path.cwd()) / Path(path).expanduser())


def from_project(place: str) -> str:
    """A path in the project's folder without that folder; any other place as it is."""
    here = f"{project_path('').rstrip('/')}/"
    return place.removeprefix(here).rstrip("/") or place


CONFIG_LOADER_ARGS: dict[str, Any] = {
    "base_env": "base",
    "default_run_env": "local",
    "merge_strategy": dict.fromkeys(("catalog", "parameters", "globals", *_OWN), "soft"),
    "custom_resolvers": {"project_path": project_path, "by_spark": by_spark, "oc.env": oc.env},
    "config_patterns": {name: [f"{name}*"] for name in _OWN},
}


@dataclass(kw_only=True)
class Project(Environment):
    """The declarations of one environment of one project, and its tables bound to it."""

    declarations: Declarations
    column_index: ColumnIndexConfig = field(default_factory=ColumnIndexConfig)
    monitoring: MonitoringConfig | None = None
    table_settings: str | None = None
    """Where blocks of tables stand that are merged over tables.yml, such as ``ssm:/lake/tables``."""
    _maintenance: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _convert: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _grants: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _discovery: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _service: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    _written: Callable[[str], Mapping[str, Any]] = field(default=lambda _: {}, repr=False)
    _files: ConfigurationFiles = field(default=_NO_FILES, repr=False)

    @classmethod
    def load(
        cls, conf_source: str, env: str | None, *, base: str = "base", default: str = "local"
    ) -> Project:
        """Read the declarations of an environment.

        Raises:
            ConfigurationError: A declaration is wrong; the error names file, key and remedy.
        """
        files = configuration_files(conf_source, env, base=base, default=default)
        files.require_environment(env if env != default else None)
        with _explained(files):
            return cls._load(files, conf_source, env, base=base, default=default)

    @classmethod
    def _load(
        cls, files: ConfigurationFiles, conf_source: str, env: str | None, *, base: str, default: str
    ) -> Project:
        loader = _loader(conf_source, env, base=base, default=default)
        mistakes = Mistakes()
        project = cls._made(files, partial(_section, loader), env or default, mistakes, load_declarations)
        mistakes.refuse()
        return project

    @classmethod
    def checked(
        cls, conf_source: str, env: str | None, *, base: str = "base", default: str = "local"
    ) -> tuple[Project, list[ConfigurationError]]:
        """What of an environment's declarations can be used, and every mistake in all of its files.

        Raises:
            ConfigurationError: There is no such environment.
        """
        files = configuration_files(conf_source, env, base=base, default=default)
        files.require_environment(env if env != default else None)
        loader = _loader(conf_source, env, base=base, default=default)
        unread = files.all_mistakes(KINDS)
        mistakes = Mistakes()

        def section(kind: str) -> Mapping[str, Any]:
            return usable(files, kind) if unread else _section(loader, kind)

        made = partial(cls._made, files, section, env or default, mistakes)
        project = made(lambda *raw, **more: collect_declarations(mistakes, *raw, **more))
        for name in ("maintenance", "discovery", "service", "conversions", "grants"):
            with mistakes.collected():
                getattr(project, name)
        for one in mistakes.found:
            files.placed(one)
        # What is found in a line that cannot be read follows from that.
        places = {one.place for one in unread}
        return project, [*unread, *(one for one in mistakes.found if one.place not in places)]

    @classmethod
    def _made(
        cls,
        files: ConfigurationFiles,
        read: Callable[[str], Mapping[str, Any]],
        env: str,
        mistakes: Mistakes,
        load: Callable[..., Declarations],
    ) -> Project:
        """The project of what ``read`` gives for each kind of file; adds what is wrong to the mistakes."""
        section = cache(read)  # of many tables each reading takes a tenth of a second
        settings = section("globals")
        default_format = str(settings.get("table_format") or OWN_FORMAT)
        tables = section("tables")
        declarations, column_index, monitoring = Declarations({}, {}), ColumnIndexConfig(), None
        with mistakes.collected():
            tables = _with_table_settings(tables, settings.get("table_settings"))
        with mistakes.collected():
            declarations = load(
                section("sources"),
                tables,
                ConfigModels(SOURCES),
                section("expectations"),
                formats=Formats(list_plugins(TABLE_FORMATS), default_format, property_problem),
            )
        with mistakes.collected():
            column_index = load_column_index(section("parameters"))
        raw_tables = [str(name) for name in tables]
        with mistakes.collected():
            monitoring = _monitoring(section("monitoring"), raw_tables)
        deadline = DEADLINE
        with mistakes.collected():
            deadline = _seconds(settings.get("commit_deadline"))
        small = SMALL_BATCH
        with mistakes.collected():
            small = _events(settings.get("small_batch"))
        with mistakes.collected():
            _check_registries(section("registries"), declarations)
        mistakes.add("globals.yml", _wrong_paths(settings))
        lakehouse = str(settings.get("lakehouse") or project_path("data/lakehouse"))
        spark = {k: str(v) for k, v in section("spark").items() if v is not None}
        return cls(
            env=env,
            declarations=declarations,
            spark_conf=spark,
            lakehouse=lakehouse,
            cache=str(settings.get("cache") or project_path(".cache")),
            column_index=column_index,
            secrets=settings.get("secrets"),
            monitoring=monitoring,
            commit_deadline=deadline,
            small_batch=small,
            default_format=default_format,
            logs_folder=settings.get("logs"),
            table_settings=settings.get("table_settings"),
            _convert=lambda: section("convert"),
            _grants=lambda: section("grants"),
            _maintenance=lambda: section("maintenance"),
            _discovery=lambda: section("discovery"),
            _service=lambda: section("service"),
            _written=section,
            _files=files,
            _credentials=lambda: read("credentials"),
            _registries=lambda: section("registries"),
        )

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

    @cached_property
    def maintenance(self) -> MaintenanceConfig:
        """The thresholds of maintenance.yml.

        Raises:
            ConfigurationError: Something is wrong in the file.
        """
        from kedro_lakehouse.config.maintenance import load_maintenance

        known = [*self.declarations.tables, *self.conversions]
        with _explained(self._files):
            return load_maintenance(self._maintenance(), [str(name) for name in known])

    @cached_property
    def discovery(self) -> DiscoveryConfig:
        """The places of discovery.yml, and what a change does; without that file there are none.

        Raises:
            ConfigurationError: Something is wrong in the file.
        """
        from kedro_lakehouse.config.discovery import load_discovery

        with _explained(self._files):
            return load_discovery(self._discovery())

    @cached_property
    def service(self) -> ServiceConfig:
        """The metadata service and queries, as service.yml says; without that file, by their defaults.

        Raises:
            ConfigurationError: Something is wrong in the file.
        """
        from kedro_lakehouse.config.service import load_service

        with _explained(self._files):
            return load_service(self._service(), [str(name) for name in self.declarations.tables])

    def written(self, kind: str) -> Mapping[str, Any]:
        """What the files of a kind say, such as ``globals`` or ``catalog``: merged and unchecked."""
        with _explained(self._files):
            return self._written(kind)

    @cached_property
    def conversions(self) -> Mapping[TableName, ConvertConfig]:
        """The tables of convert.yml; without that file, none of its code is imported.

        Raises:
            ConfigurationError: Something is wrong in the file.
        """
        with _explained(self._files):
            raw = self._convert()
            if not raw:
                return {}
            from kedro_lakehouse.config.convert import load_conversions

            return load_conversions(raw, self.declarations.tables, partial(property_problem, OWN_FORMAT))

    @cached_property
    def grants(self) -> Grants:
        """The roles of grants.yml.

        Raises:
            ConfigurationError: Something is wrong in the file.
        """
        from kedro_lakehouse.config.grants import load_grants

        with _explained(self._files):
            return load_grants(self._grants(), self.declarations.tables)

    def placed(self, error: ConfigurationError) -> ConfigurationError:
        """The error with the file and line of its key, where these are found."""
        return self._files.placed(error)

    def find(self, file: str, key: str, *, below: int = 0) -> tuple[str, int]:
        """The path and the line of a key in the environment's files: see ``ConfigurationFiles.find``."""
        return self._files.find(file, key, below=below)

    @property
    def credential_names(self) -> list[str]:
        """The entries of credentials.yml that have keys below them."""
        return [str(name) for name, held in self._credentials().items() if isinstance(held, dict)]

    def registry_credentials(self) -> dict[str, str]:
        """The entry of credentials.yml that each registry of registries.yml names."""
        found: dict[str, str] = {}
        for name in map(str, self._registries()):
            with suppress(ConfigurationError):
                if entry := self.registry_config(name).credentials:
                    found[name] = entry
        return found

    def tables_in(self, format_name: str) -> list[TableName]:
        """The declared tables of a format."""
        return [name for name in self.declarations.tables if self.bind(name).format_name == format_name]

    def tables_of_source(self, source: str) -> list[TableName]:
        """The declared tables of a source."""
        return [name for name, table in self.declarations.tables.items() if table.source == source]

    @property
    def all_tables(self) -> list[TableName]:
        """The declared tables, and those of convert.yml."""
        return [*self.declarations.tables, *self.conversions]

    def bind(self, name: TableName) -> LakeTable:
        """A table of tables.yml or convert.yml, bound to this environment.

        Raises:
            ConfigurationError: No file declares it.
        """
        if name in self.conversions:
            return LakeTable(name=name, environment=self, conversion=self.conversions[name], bind=self.bind)
        declared = self.table(name)
        source = self.declarations.sources.get(declared.source) if declared.source else None
        return LakeTable(
            name=name, environment=self, declared=declared, declared_source=source, bind=self.bind
        )

    def owner_of(self, stored: TableName) -> LakeTable:
        """The declared or converted table that a stored one belongs to; undeclared itself where none does."""
        if stored in self.conversions:
            return self.bind(stored)
        owner = next((n for n in self.declarations.tables if stored in map(n.with_suffix, ROLES)), None)
        return self.bind(owner) if owner else LakeTable(name=stored, environment=self, bind=self.bind)

    def format_of(self, name: TableName) -> TableFormat:
        """The format of a table, stored or declared; that of the environment where no file declares it.

        Raises:
            UnknownPluginError: No installed distribution registers the format.
            UnsupportedError: The environment does not load it, or it cannot hold such a table.
        """
        return self.owner_of(name).format


def file_schemas(*, partial: bool = False) -> dict[str, dict[str, Any]]:
    """The JSON Schema of each YAML file, with the keys of every plug-in that is installed.

    Args:
        partial: For the files of an environment, which hold only what differs there.
    """
    from kedro_lakehouse.config.json_schema import json_schemas

    models = [ConfigModels(group) for group in (SOURCES, NOTIFIERS, REGISTRIES)]
    return json_schemas(*models, partial=partial)


def property_problem(format_name: str, name: str, value: str) -> TableProblem | None:
    """What a format says is wrong with a table property; None where it has no rule, or is not known."""
    made = load_plugin(TABLE_FORMATS, format_name) if format_name in list_plugins(TABLE_FORMATS) else None
    rule = getattr(made, "property_problem", None)  # plug-ins that were written before it lack it
    return rule(name, value) if rule else None


def _monitoring(raw: Mapping[str, Any], tables: Sequence[str]) -> MonitoringConfig | None:
    """The checked monitoring.yml; without that file, none of its code is imported."""
    if not raw:
        return None
    from kedro_lakehouse.config.monitoring import load_monitoring

    models = ConfigModels(NOTIFIERS) if raw.get("notifiers") else {}
    return load_monitoring(raw, tables, models)


def _check_registries(raw: Mapping[str, Any], declarations: Declarations) -> None:
    """Refuse a mistake in registries.yml, and a source that names a registry which is not there."""
    wanted = {getattr(source, "schema_registry", None) for source in declarations.sources.values()}
    names = sorted({*map(str, raw), *(name for name in wanted if name)})
    if names:
        from kedro_lakehouse.config.registries import registry_config

        models = ConfigModels(REGISTRIES)
        for name in names:
            registry_config(raw, name, models)


def _wrong_paths(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The globals that are places, and no text."""
    for name in ("lakehouse", "landing", "cache", "logs"):
        value = settings.get(name)
        if value is not None and not isinstance(value, str):
            yield name, f"expected a path; found {found_kind(value)}.", "Write it as text, in quotes."


def _seconds(value: object) -> float:
    """The global ``commit_deadline``."""
    try:
        return float(cast("float", value or DEADLINE))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            file="globals.yml",
            key="commit_deadline",
            problem="expected a number of seconds.",
            remedy=f"Write for example {DEADLINE:g}.",
        ) from error


def _events(value: object) -> int:
    """The global ``small_batch``."""
    found = SMALL_BATCH if value is None else value
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise ConfigurationError(
            file="globals.yml",
            key="small_batch",
            problem=f"expected a number of events; found {found_kind(value)}.",
            remedy=f"Write for example {SMALL_BATCH}, or 0 to let Spark plan every batch.",
        )
    return found


def configuration_files(
    conf_source: str, env: str | None, *, base: str = "base", default: str = "local"
) -> ConfigurationFiles:
    """The files that an environment reads: the project's own kinds, and Kedro's."""
    patterns = _KEDRO_FILES | {name: (f"{name}*",) for name in _OWN}
    environments = tuple(dict.fromkeys((env or default, base)))
    return ConfigurationFiles(Path(conf_source), environments, patterns)


@contextmanager
def _explained(files: ConfigurationFiles) -> Iterator[None]:
    """Give mistakes their files and lines, and those of YAML their names; other errors pass as they are."""
    try:
        yield
    except ConfigurationError as error:
        raise files.placed(error) from error.__cause__
    except LakehouseError:
        raise
    except Exception as error:
        if mistakes := files.mistakes(KINDS):
            raise all_of(mistakes) from error
        raise


def _with_table_settings(tables: Mapping[str, Any], declared: object) -> Mapping[str, Any]:
    """The tables, with what the global ``table_settings`` names over them.

    Raises:
        AwsRefusedError: The parameters or secrets may not be read.
        ConfigurationError: The global names no store, or what it names is no block of a table.
    """
    if declared is None:
        return tables
    service, colon, below = str(declared).partition(":")
    if not colon or service not in TABLE_SETTINGS or not below.strip("/"):
        raise ConfigurationError(
            file="globals.yml",
            key="table_settings",
            problem="it names no place of settings.",
            remedy="Write for example ssm:/lake/tables or secretsmanager:lake/tables.",
        )
    from kedro_lakehouse.aws import read_parameters_below, read_secrets_below
    from kedro_lakehouse.config.table_settings import merged_over

    read = read_parameters_below if service == "ssm" else read_secrets_below
    return merged_over(tables, read(below), store=TABLE_SETTINGS[service], below=f"{below.rstrip('/')}/")


def _loader(conf_source: str, env: str | None, *, base: str, default: str) -> OmegaConfigLoader:
    args = CONFIG_LOADER_ARGS | {"base_env": base, "default_run_env": default}
    return OmegaConfigLoader(conf_source=conf_source, env=env, **args)


def _section(loader: OmegaConfigLoader, name: str) -> dict[str, Any]:
    try:
        return dict(loader[name])
    except MissingConfigException:
        return {}


class _Active:
    """The one project of this process: the last one that Kedro built a context for."""

    project: Project | None = None


def activate(project: Project) -> Project:
    """Make a project the one in which datasets look up their declarations."""
    _Active.project = project
    return project


def active_project() -> Project:
    """The project of Kedro's context; without a context (registry list, viz), the one of ``found_project``.

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
            file="pyproject.toml",
            key="tool.kedro",
            problem=f"no Kedro project around {Path.cwd().name}.",
            remedy="Change into the project's folder.",
        )
    return Path(root)


def found_project() -> Project:
    """Read the project around the working folder, for the environment of KEDRO_ENV or the default one."""
    root = find_root()
    bootstrap_project(root)
    return Project.load(str(root / "conf"), os.environ.get("KEDRO_ENV"))
