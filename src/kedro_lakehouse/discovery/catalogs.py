"""The tables that a catalog names: Glue's own, or those of Iceberg in any catalog that pyiceberg opens."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.aws import client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.table import Table

_METADATA: Final = "metadata_location"


@dataclass(frozen=True)
class CatalogTable:
    """A table as a catalog names it: opened, or with the address of its metadata or of its files."""

    database: str
    name: str
    location: str = ""
    metadata: str = ""
    opened: Table | None = None


def iceberg_tables(
    properties: Mapping[str, str], databases: Sequence[str], exclude: Sequence[str]
) -> Iterator[CatalogTable]:
    """The tables of a catalog of Iceberg; views are none."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("discovery", **properties)
    for namespace in catalog.list_namespaces():
        database = ".".join(namespace)
        if databases and database not in databases:
            continue
        for identifier in catalog.list_tables(namespace):
            name = identifier[-1]
            if not _is_excluded(f"{database}.{name}", exclude):
                yield CatalogTable(database, name, opened=catalog.load_table(identifier))


def glue_tables(
    properties: Mapping[str, str], databases: Sequence[str], exclude: Sequence[str]
) -> Iterator[CatalogTable]:
    """The tables of the Glue Data Catalog, of every format; views have no place and are left out."""
    glue = client("glue", region=properties.get("glue.region"), endpoint_url=properties.get("glue.endpoint"))
    account = {"CatalogId": properties["glue.id"]} if "glue.id" in properties else {}
    names = [
        d["Name"]
        for page in glue.get_paginator("get_databases").paginate(**account)
        for d in page["DatabaseList"]
    ]
    for database in names:
        if databases and database not in databases:
            continue
        pages = glue.get_paginator("get_tables").paginate(DatabaseName=database, **account)
        for table in (table for page in pages for table in page["TableList"]):
            found = _of_glue(database, table)
            if found is not None and not _is_excluded(f"{database}.{found.name}", exclude):
                yield found


def _of_glue(database: str, table: Mapping[str, Any]) -> CatalogTable | None:
    parameters, storage = table.get("Parameters") or {}, table.get("StorageDescriptor") or {}
    if str(parameters.get("table_type", "")).upper() == "ICEBERG" and _METADATA in parameters:
        return CatalogTable(database, table["Name"], metadata=parameters[_METADATA])
    location = str(storage.get("Location") or parameters.get("path") or "")
    for scheme in ("s3a://", "s3n://"):
        location = location.replace(scheme, "s3://", 1) if location.startswith(scheme) else location
    return CatalogTable(database, table["Name"], location=location.rstrip("/")) if location else None


def _is_excluded(name: str, exclude: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in exclude)
