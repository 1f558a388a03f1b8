"""Catalogs in temporary folders, for tests that need no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.session.catalog import MetadataCatalog

if TYPE_CHECKING:
    from pathlib import Path


def embedded_catalog(folder: Path, namespace: str) -> MetadataCatalog:
    """An embedded catalog with an empty namespace."""
    prefix = "spark.sql.catalog.lake."
    made = MetadataCatalog(
        {
            f"{prefix}type": "jdbc", f"{prefix}uri": f"jdbc:sqlite:file:{folder}/catalog.db",
            f"{prefix}warehouse": str(folder / "warehouse"),
        }
    )  # fmt: skip
    made.ensure_namespace(namespace)
    return made
