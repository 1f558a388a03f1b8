"""Declarations of discovery.yml: the places that pipeline ``discovery`` looks over."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from kedro_lakehouse.config.base import Declaration, Name, Names, RelativePath, refuse
from kedro_lakehouse.config.loading import entries
from kedro_lakehouse.config.validation import validated

DISCOVERY_FILE: Final = "discovery.yml"

DatasetKind = Literal["csv", "json", "parquet", "iceberg", "delta", "hudi"]
KINDS: Final[tuple[DatasetKind, ...]] = get_args(DatasetKind)
_FILES: Final[tuple[DatasetKind, ...]] = ("csv", "json", "parquet")
_PREFIX: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*_?")


def _prefix(text: str) -> str:
    if text and not _PREFIX.fullmatch(text):
        raise refuse("a prefix is the beginning of a table's name", "Write for example delta_.")
    return text


Prefix = Annotated[str, AfterValidator(_prefix)]


class CrawlerConfig(Declaration):
    """A crawler of AWS Glue over a place, which `kedro lakehouse deploy` renders."""

    database: Name
    """Glue database that gets the tables."""
    delta_tables: tuple[RelativePath, ...] = ()
    """Folders below the place that are tables of Delta: Glue finds none by itself. Default: the place is one.
    """
    account: Annotated[str, Field(pattern=r"^\d{12}\z")] | None = None
    """Account that has registered the data with Lake Formation; default: the crawler's own."""
    schedule: Annotated[str, Field(pattern=r"^cron\(.+\)\z")] | None = None
    """When it runs, such as `cron(0 5 * * ? *)` in UTC; default: when somebody starts it."""


class PlaceConfig(Declaration):
    """One place: a folder or bucket with all that lies below it, or a catalog."""

    path: Name | None = None
    """A folder, or an address such as s3://bucket/folder."""
    catalog: Mapping[Name, Any] = {}
    """A catalog, in pyiceberg's properties, such as {type: glue} or {type: rest, uri: ...}. Of Glue all
    tables are looked at, of another one those of Iceberg.
    """
    databases: Names = ()
    """Databases (namespaces) of the catalog; default: all."""
    credentials: Name | None = None
    """Entry of credentials.yml with further properties of the catalog, such as `token`."""
    namespace: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*\z")] = "found"
    """Namespace of the proposed tables; those of a catalog keep their database's name."""
    table_prefix: Prefix | Mapping[DatasetKind, Prefix] = ""
    """What the names of tables begin with: one text for all, or by kind as {delta: delta_}."""
    formats: tuple[DatasetKind, ...] = Field(KINDS, min_length=1)
    """The kinds that are looked for; default: all."""
    exclude: Names = ()
    """Patterns of paths below `path`, or of names in a catalog, that are left out, such as `archive/*`."""
    register_: bool = Field(default=False, alias="register")
    """Whether Iceberg tables are registered in the lake's own catalog, so that `sql` finds them."""
    sample_rows: int = Field(100_000, ge=1)
    """So many rows of a dataset are read for keys and personal columns."""
    crawler: CrawlerConfig | None = None
    """A crawler of AWS Glue over this place; needs a path in S3."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (not self.catalog):
            raise refuse("exactly one of 'path' and 'catalog' is needed", "Give one of them.", key="path")
        if self.path is not None and (self.databases or self.credentials):
            key = "databases" if self.databases else "credentials"
            raise refuse("a folder has no such key, only a catalog has", "Remove it.", key=key)
        if self.crawler is not None and not (self.path or "").startswith("s3://"):
            raise refuse("a crawler of Glue reads S3 alone", "Give a path in S3.", key="crawler")
        if self.crawler is not None and len({self.prefix_of(kind) for kind in _FILES}) > 1:
            problem = "a crawler gives the tables of all kinds of files one prefix"
            raise refuse(problem, "Give csv, json and parquet the same.", key="table_prefix")
        return self

    def prefix_of(self, kind: DatasetKind) -> str:
        """What the names of tables of a kind begin with."""
        given = self.table_prefix
        return given if isinstance(given, str) else given.get(kind, "")


class DiscoveryConfig(Declaration):
    """All of discovery.yml."""

    places: tuple[PlaceConfig, ...] = ()
    """What is looked over, in this order."""
    on_change: Literal["report", "fail", "notify"] = "report"
    """What a change does, beside being recorded and reported: nothing more; it fails the run; or it is sent
    to the notifiers of monitoring.yml.
    """


def load_discovery(raw: Mapping[str, Any]) -> DiscoveryConfig:
    """Return the checked content of a merged discovery.yml; an empty one has no places.

    Raises:
        ConfigurationError: Something is wrong in the file; the first such key is named.
    """
    return validated(DiscoveryConfig, entries({"": raw}, DISCOVERY_FILE)[""], DISCOVERY_FILE, "")
