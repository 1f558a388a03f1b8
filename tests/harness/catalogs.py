"""Catalogs in temporary folders, for tests that need no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.session.catalog import MetadataCatalog

if TYPE_CHECKING:
    from pathlib import Path


def embedded_conf(folder: Path) -> dict[str, str]:
    """The Spark settings of an embedded catalog in a folder."""
    prefix = "spark.sql.catalog.lake."
    return {
        f"{prefix}type": "jdbc", f"{prefix}uri": f"jdbc:sqlite:file:{folder}/catalog.db",
        f"{prefix}warehouse": str(folder / "warehouse"),
    }  # fmt: skip


def embedded_catalog(folder: Path, namespace: str) -> MetadataCatalog:
    """An embedded catalog with an empty namespace."""
    made = MetadataCatalog(embedded_conf(folder))
    made.ensure_namespace(namespace)
    return made
