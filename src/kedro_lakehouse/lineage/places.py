"""The names of datasets: by their location, after OpenLineage's naming conventions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
_BARE: Final = ("s3", "gs", "kafka", "kinesis")
"""Schemes whose names, keys, topics and streams, begin without a slash."""


@dataclass(frozen=True, order=True)
class Place:
    """A dataset's identity: its datasource, and its name there."""

    namespace: str
    name: str


def place_of(uri: str) -> Place:
    """The place of a path or an address.

    Source:
        OpenLineage naming conventions: local files ``file``, buckets ``s3://<bucket>``.

    Example:
        >>> place_of("file:///lake/shop/item"), place_of("s3a://lake/shop/item")
        (Place(namespace='file', name='/lake/shop/item'), Place(namespace='s3://lake', name='shop/item'))
    """
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        path = unquote(parts.path) if parts.scheme else uri
        return Place(f"file://{parts.netloc}" if parts.netloc else "file", path)
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    name = parts.path.lstrip("/") if scheme in _BARE else parts.path
    return Place(f"{scheme}://{parts.netloc}", name)


def landing_place(project: Project, name: TableName) -> Place:
    """Where the records of a table land: the table's folder in that of its source, or its topic."""
    table = project.bind(name)
    return place_of(table.source_config.place_of(table.config))


def table_place(project: Project, stored: TableName) -> Place:
    """The location of a stored table; for one that is not there yet, where its catalog will put it."""
    if project.owner_of(stored).in_catalog:
        found = project.catalog.find(stored)
        if found is not None:
            return place_of(found.location())
    return place_of(f"{warehouse(project)}/{stored.namespace}/{stored.table}")


def stored_columns(project: Project, stored: TableName) -> list[tuple[str, str]] | None:
    """A stored table's columns with their types, as its format names them; None without such a table."""
    owner = project.owner_of(stored)
    if owner.in_catalog:
        found = project.catalog.find(stored)
        return [(f.name, str(f.field_type)) for f in found.schema().fields] if found else None
    state = owner.format.state(stored)
    return [(name, kind.simpleString()) for name, kind in state.columns.items()] if state else None


def warehouse(project: Project) -> str:
    """The folder or bucket of the catalog's tables: the namespace of their names."""
    return str(project.spark_conf.get("spark.sql.catalog.lake.warehouse", project.lakehouse)).rstrip("/")
