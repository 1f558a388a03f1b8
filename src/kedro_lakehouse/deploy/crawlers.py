"""Crawlers of AWS Glue over places of discovery.yml, which read data as Lake Formation lets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from kedro_lakehouse.deploy.access import sub
from kedro_lakehouse.deploy.template import part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.config.discovery import CrawlerConfig, PlaceConfig

_FILES: Final = ("csv", "json", "parquet")
_DEPTH: Final = 10
"""So many folders below its path a crawler looks for tables of Iceberg and Hudi."""
_GLUE: Final = "arn:${AWS::Partition}:glue:${AWS::Region}:${AWS::AccountId}:"


def crawler_resources(places: Sequence[PlaceConfig]) -> dict[str, Any]:
    """The role of all crawlers, their databases, the places registered with Lake Formation, and the crawlers.

    The role has no right on S3: Lake Formation hands out credentials for the registered places. A place that
    another account has registered is not registered here.
    """
    crawled = [(place, place.crawler) for place in places if place.crawler is not None]
    if not crawled:
        return {}
    databases = sorted({crawler.database for _, crawler in crawled})
    names = [f"database/{name}" for name in databases] + [f"table/{name}/*" for name in databases]
    tables = [sub(f"{_GLUE}{name}") for name in ("catalog", *names)]
    resources: dict[str, Any] = dict(part("crawler_role.yml", tables=tables)["Role"])
    for number, name in enumerate(databases, 1):
        label = f"CrawledDatabase{number}"
        made = part("crawler_database.yml", database=name, database_ref={"Ref": label})
        resources |= {label: made["Database"], f"{label}Permissions": made["DatabasePermissions"]}
    for number, (place, crawler) in enumerate(crawled, 1):
        database = f"CrawledDatabase{databases.index(crawler.database) + 1}"
        resources |= _of_place(number, place, crawler, database)
    return resources


def _of_place(number: int, place: PlaceConfig, crawler: CrawlerConfig, database: str) -> dict[str, Any]:
    """The place, unless another account has registered it, and its crawlers."""
    path, label = str(place.path).rstrip("/"), f"CrawledPlace{number}"
    found: dict[str, Any] = {}
    if crawler.account is None:
        arn = sub(f"arn:${{AWS::Partition}}:s3:::{path.removeprefix('s3://')}")
        registered = part("crawler_place.yml", place=arn, place_ref={"Ref": label})
        found |= {label: registered["Place"], f"{label}Permissions": registered["PlacePermissions"]}
    awaited = [name for name in (f"{label}Permissions",) if name in found] + [f"{database}Permissions"]
    for kind, targets in _targets(place, crawler, path).items():
        made = part(
            "crawler.yml",
            name=sub(f"${{Name}}-{crawler.database}-{number}-{kind}"),
            database_ref={"Ref": database},
            prefix=place.prefix_of("parquet" if kind == "files" else kind),
            targets=targets,
            account=crawler.account or {"Ref": "AWS::AccountId"},
            schedule={"ScheduleExpression": crawler.schedule}
            if crawler.schedule
            else {"Ref": "AWS::NoValue"},
        )
        found[f"Crawler{number}{kind.capitalize()}"] = made["Crawler"] | {"DependsOn": awaited}
    return found


def _targets(
    place: PlaceConfig, crawler: CrawlerConfig, path: str
) -> Mapping[Literal["files", "delta", "iceberg", "hudi"], Mapping[str, Any]]:
    """What each of a place's crawlers looks at: one for files, and one for each table format."""
    found: dict[Literal["files", "delta", "iceberg", "hudi"], Mapping[str, Any]] = {}
    if any(kind in place.formats for kind in _FILES):
        found["files"] = {"S3Targets": [{"Path": path, "Exclusions": list(place.exclude)}]}
    if "delta" in place.formats:
        tables = [f"{path}/{table}/" for table in crawler.delta_tables] or [f"{path}/"]
        # Native: other engines read the table's own log, and no manifest is written beside it.
        native = {"DeltaTables": tables, "CreateNativeDeltaTable": True, "WriteManifest": False}
        found["delta"] = {"DeltaTargets": [native]}
    below = {"Paths": [path], "MaximumTraversalDepth": _DEPTH, "Exclusions": list(place.exclude)}
    if "iceberg" in place.formats:
        found["iceberg"] = {"IcebergTargets": [below]}
    if "hudi" in place.formats:
        found["hudi"] = {"HudiTargets": [below]}
    return found
