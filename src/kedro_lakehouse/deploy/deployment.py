"""What is deployed: a project's places, and all that its job has to touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import urlsplit

from kedro_lakehouse.config.dynamodb import DynamoSourceConfig
from kedro_lakehouse.config.lifetimes import LandingLifetime
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.sources import KinesisSourceConfig
from kedro_lakehouse.deploy.platforms import formats_of, platform_of
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.names import OPS_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.config.discovery import PlaceConfig
    from kedro_lakehouse.config.lifetimes import PrefixLifetime
    from kedro_lakehouse.config.registries import RegistryConfig
    from kedro_lakehouse.deploy.platforms import Platform
    from kedro_lakehouse.project import Project

Jars = Literal["platform", "ours"]


@dataclass(frozen=True, order=True)
class Place:
    """A bucket, and a prefix in it without slashes around it."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, address: str) -> Self:
        """Read an address that begins with ``s3://``."""
        parts = urlsplit(address)
        return cls(parts.netloc, parts.path.strip("/"))


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One environment of a project, as a job on AWS needs it."""

    name: str
    package: str
    env: str
    lakehouse: Place
    landing: tuple[Place, ...]
    lifetimes: Mapping[Place, PrefixLifetime]
    """Of the places where files land, and of those in the lakehouse beside its tables."""
    namespaces: tuple[str, ...]
    platform: Platform
    formats: tuple[str, ...]
    secrets: tuple[str, ...] = ()
    table_settings: str | None = None
    scanned: tuple[tuple[str, str], ...] = ()
    """Region and name of the tables of DynamoDB that are pulled; an empty region is that of the job."""
    topics: tuple[str, ...] = ()
    jars: Jars = "platform"
    jar_files: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    streams: tuple[tuple[str, str], ...] = ()
    """Streams of Kinesis that are read: region (empty: the job's own) and name."""
    copies: tuple[Place, ...] = ()
    """Folders for raw copies of streams: the job writes them."""
    erased: tuple[Place, ...] = ()
    """Folders of landed files, and of copies, that an erasure of a person writes anew."""
    pulled: tuple[Place, ...] = ()
    """Folders of sources that are asked for their records: the job lands what they say."""
    pulls: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Minutes after which pulls are due again by `every`, and the namespaces of their tables."""
    asks_registry: bool = False
    """Whether Glue's schema registry is asked."""
    discovered: tuple[PlaceConfig, ...] = ()
    """Places of discovery: the job reads those in S3, and crawlers of Glue look over some."""
    every: float | None = None
    """How often the loop looks for news, in seconds; None where the job runs pipelines by a schedule."""

    @classmethod
    def of(cls, project: Project, *, package: str, **more: object) -> Self:
        """Collect what the job of a project's environment reads, writes, and gets by name.

        Raises:
            ConfigurationError: The lakehouse is not in S3, or files of a source land on this machine.
            UnsupportedError: AWS has nothing for the environment's line of Spark.
        """
        sources = project.declarations.sources
        landing = {
            _in_s3(source.path, "sources.yml", f"{name}.path"): getattr(source, "lifetime", LandingLifetime())
            for name, source in sources.items()
            if source.path.startswith("s3://") or (source.path and "://" not in source.path)
        }
        spaces = {table.namespace for table in project.declarations.tables}
        facts: dict[str, object] = {
            "name": package.replace("_", "-"),
            "package": package,
            "env": project.env,
            "lakehouse": _in_s3(project.lakehouse, "globals.yml", "lakehouse"),
            "landing": tuple(sorted(landing)),
            "lifetimes": landing | _beside_tables(project),
            "namespaces": (*sorted(spaces), OPS_NAMESPACE),
            "secrets": _secrets(project),
            "table_settings": project.table_settings,
            "scanned": _scanned(project),
            "topics": _topics(project),
            "streams": _streams(project),
            "copies": _copies(project),
            "erased": _erased(project),
            "pulled": _pulled(project),
            "pulls": pulls_of(project),
            "asks_registry": any(config.type == "glue" for config in _registries(project)),
            "discovered": project.discovery.places,
            "platform": platform_of(project.spark_conf),
            "formats": formats_of(project.spark_conf),
        }
        made: Self = cls(**(facts | more))  # type: ignore[arg-type]
        return made

    @property
    def landing_bucket(self) -> str:
        """The bucket in which files land; that of the first source where there are several."""
        return self.landing[0].bucket if self.landing else self.lakehouse.bucket

    @property
    def artifacts(self) -> str:
        """Where what is rendered for the job lies, below the lakehouse's bucket."""
        return f"artifacts/{self.name}"

    @property
    def place(self) -> str:
        """The address of the same; CloudFormation fills the bucket's name in."""
        return f"s3://${{LakehouseBucket}}/{self.artifacts}"

    @property
    def shipped_jars(self) -> str:
        """The addresses of the jars that are shipped, with commas."""
        return ",".join(f"{self.place}/jars/{jar}" for jar in self.jar_files)


def _beside_tables(project: Project) -> dict[Place, PrefixLifetime]:
    lakehouse, declared = Place.of(project.lakehouse), project.maintenance.lifetimes
    return {
        Place(lakehouse.bucket, f"{lakehouse.prefix}/{zone}".strip("/")): getattr(declared, zone)
        for zone in type(declared).model_fields
    }


def _in_s3(address: str, file: str, key: str) -> Place:
    if not address.startswith("s3://"):
        raise ConfigurationError(
            file=file,
            key=key,
            problem="the place is not in S3, where a job on AWS would find it.",
            remedy="Choose an environment that is: `kedro lakehouse deploy --env aws`.",
        )
    return Place.of(address)


def _copies(project: Project) -> tuple[Place, ...]:
    """The folders for raw copies of the project's streams."""
    raws = {n: raw for n, one in project.declarations.sources.items() if (raw := getattr(one, "raw", None))}
    return tuple(sorted({_in_s3(raw, "sources.yml", f"{name}.raw") for name, raw in raws.items()}))


def _pulled(project: Project) -> tuple[Place, ...]:
    """The folders into which the job itself lands files."""
    sources = project.declarations.sources.items()
    found = {n: one.path for n, one in sources if isinstance(one, PulledSourceConfig)}
    return tuple(sorted({_in_s3(path, "sources.yml", f"{name}.path") for name, path in found.items()}))


def _erased(project: Project) -> tuple[Place, ...]:
    """The folders with files of tables that declare a ``subject``."""
    declared = project.declarations
    sources = {one.source for one in declared.tables.values() if one.subject is not None and one.source}
    read = [declared.sources[name] for name in sources]
    places = (place for one in read for place in (one.path, getattr(one, "raw", None)) if place)
    return tuple(sorted(Place.of(place) for place in places if place.startswith("s3://")))


def pulls_of(project: Project) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Namespaces with tables whose source is asked so often, by the minutes between."""
    found: dict[int, set[str]] = {}
    for name, table in project.declarations.tables.items():
        source = project.declarations.sources.get(table.source or "")
        if isinstance(source, PulledSourceConfig) and source.every is not None:
            minutes = max(1, int(source.every.total_seconds() // 60))
            found.setdefault(minutes, set()).add(name.namespace)
    return tuple((minutes, tuple(sorted(spaces))) for minutes, spaces in sorted(found.items()))


def _secrets(project: Project) -> tuple[str, ...]:
    if project.secrets is None:
        return ()
    reached: list[object] = [*project.declarations.sources.values(), *_registries(project)]
    if (monitoring := project.monitoring) is not None:
        reached += [*monitoring.notifiers.values(), *filter(None, [monitoring.lineage])]
    names = {getattr(config, "credentials", None) for config in reached} - {None}
    return tuple(sorted(f"{project.secrets}{name}" for name in names))


def _registries(project: Project) -> list[RegistryConfig]:
    """The schema registries that sources name."""
    named = {getattr(source, "schema_registry", None) for source in project.declarations.sources.values()}
    return [project.registry_config(name) for name in sorted(filter(None, named))]


def _streams(project: Project) -> tuple[tuple[str, str], ...]:
    sources, found = project.declarations.sources, set()
    for table in project.declarations.tables.values():
        source = sources.get(table.source or "")
        if isinstance(source, KinesisSourceConfig):
            found.add((source.region or "", source.stream_of(table)))
    return tuple(sorted(found))


def _scanned(project: Project) -> tuple[tuple[str, str], ...]:
    sources, found = project.declarations.sources, set()
    for table in project.declarations.tables.values():
        source = sources.get(table.source or "")
        if isinstance(source, DynamoSourceConfig):
            found.add((source.region or "", table.entity))
    return tuple(sorted(found))


def _topics(project: Project) -> tuple[str, ...]:
    notifiers = project.monitoring.notifiers.values() if project.monitoring else ()
    return tuple(sorted({topic for config in notifiers if (topic := getattr(config, "topic", None))}))
