"""The names of Iceberg's table properties, and the values of those on which commits depend."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.config.sources import TableProblem
from kedro_lakehouse.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

_CUSTOM: Final = "custom."
"""Names that begin so are the user's own: no format reads them."""

# Iceberg 1.11: the constants of its class org.apache.iceberg.TableProperties.
_COLUMN_PREFIXES: Final = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.stats-enabled.column.",
)
_KNOWN: Final = frozenset(
    {
        "commit.manifest-merge.enabled", "commit.manifest.min-count-to-merge",
        "commit.manifest.target-size-bytes", "commit.retry.max-wait-ms", "commit.retry.min-wait-ms",
        "commit.retry.num-retries", "commit.retry.total-timeout-ms", "commit.status-check.max-wait-ms",
        "commit.status-check.min-wait-ms", "commit.status-check.num-retries",
        "commit.status-check.total-timeout-ms", "compatibility.snapshot-id-inheritance.enabled",
        "encryption.data-key-length", "encryption.key-id", "engine.hive.enabled",
        "engine.hive.lock-enabled", "format-version", "gc.enabled", "history.expire.max-ref-age-ms",
        "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep",
        "identifier-fields.rely", "read.data-planning-mode", "read.delete-planning-mode",
        "read.orc.vectorization.batch-size", "read.orc.vectorization.enabled",
        "read.parquet.vectorization.batch-size", "read.parquet.vectorization.enabled",
        "read.split.adaptive-size.enabled", "read.split.metadata-target-size", "read.split.open-file-cost",
        "read.split.planning-lookback", "read.split.target-size", "schema.name-mapping.default",
        "write.avro.compression-codec", "write.avro.compression-level", "write.data.path",
        "write.delete.avro.compression-codec", "write.delete.avro.compression-level",
        "write.delete.distribution-mode", "write.delete.format.default", "write.delete.granularity",
        "write.delete.isolation-level", "write.delete.mode", "write.delete.orc.block-size-bytes",
        "write.delete.orc.compression-codec", "write.delete.orc.compression-strategy",
        "write.delete.orc.stripe-size-bytes", "write.delete.orc.vectorized.batch-size",
        "write.delete.parquet.compression-codec", "write.delete.parquet.compression-level",
        "write.delete.parquet.dict-size-bytes", "write.delete.parquet.page-row-limit",
        "write.delete.parquet.page-size-bytes", "write.delete.parquet.page-version",
        "write.delete.parquet.row-group-check-max-record-count",
        "write.delete.parquet.row-group-check-min-record-count",
        "write.delete.parquet.row-group-size-bytes", "write.delete.target-file-size-bytes",
        "write.distribution-mode", "write.folder-storage.path", "write.format.default",
        "write.location-provider.impl", "write.manifest-lists.enabled", "write.manifest.compression-codec",
        "write.manifest.compression-level", "write.merge.distribution-mode", "write.merge.isolation-level",
        "write.merge.mode", "write.metadata.compression-codec",
        "write.metadata.delete-after-commit.enabled", "write.metadata.metrics.default",
        "write.metadata.metrics.max-inferred-column-defaults", "write.metadata.path",
        "write.metadata.previous-versions-max", "write.object-storage.enabled",
        "write.object-storage.partitioned-paths", "write.object-storage.path", "write.orc.block-size-bytes",
        "write.orc.bloom.filter.columns", "write.orc.bloom.filter.fpp", "write.orc.compression-codec",
        "write.orc.compression-strategy", "write.orc.stripe-size-bytes", "write.orc.vectorized.batch-size",
        "write.parquet.bloom-filter-max-bytes", "write.parquet.compression-codec",
        "write.parquet.compression-level", "write.parquet.dict-size-bytes", "write.parquet.page-row-limit",
        "write.parquet.page-size-bytes", "write.parquet.page-version",
        "write.parquet.row-group-check-max-record-count", "write.parquet.row-group-check-min-record-count",
        "write.parquet.row-group-size-bytes", "write.parquet.shred-variants",
        "write.parquet.variant-inference-buffer-size", "write.spark.accept-any-schema",
        "write.spark.advisory-partition-size-bytes", "write.spark.auto-schema-evolution.enabled",
        "write.spark.fanout.enabled", "write.summary.partition-limit", "write.target-file-size-bytes",
        "write.update.distribution-mode", "write.update.isolation-level", "write.update.mode",
        "write.upsert.enabled", "write.wap.enabled",
    }
)  # fmt: skip
_MODES: Final = ("copy-on-write", "merge-on-read")
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "format-version": ("2", "3"),  # version 1 has no deletes of single rows
    "write.delete.mode": _MODES,
    "write.merge.mode": _MODES,
    "write.update.mode": _MODES,
    "write.delete.granularity": ("file", "partition"),
    "write.distribution-mode": ("none", "hash", "range"),
    "write.format.default": ("parquet",),
}


def property_problem(name: str, value: str) -> TableProblem | None:
    """What is wrong with a table property; None where nothing is.

    Example:
        >>> property_problem("write_target_data_file_size_bytes", "1").problem
        "Iceberg has no such table property. Did you mean 'write.target-file-size-bytes'?"
    """
    if name in _VALUES:
        allowed = _VALUES[name]
        if value in allowed:
            return None
        problem = f"'{value}' is not allowed.{did_you_mean(value, allowed)}"
        return TableProblem(f"properties.{name}", problem=problem, remedy=f"Use {' or '.join(allowed)}.")
    if name in _KNOWN or name.startswith(_CUSTOM) or _has_column(name):
        return None
    if name in _COLUMN_PREFIXES or f"{name}." in _COLUMN_PREFIXES:
        wanted = f"{name.rstrip('.')}.<column>"
        return TableProblem(f"properties.{name}", problem="the column is missing.", remedy=f"Write {wanted}.")
    return TableProblem(
        f"properties.{name}",
        problem=f"Iceberg has no such table property.{_near(name)}",
        remedy=f"Correct the name; names of your own begin with '{_CUSTOM}'.",
    )


def _near(name: str) -> str:
    """The known name whose words are nearest, however they are joined and ordered."""
    words = _words(name)
    spelled = {_words(known): known for known in _KNOWN}
    found = difflib.get_close_matches(words, sorted(spelled), n=1, cutoff=0.6)
    return f" Did you mean '{spelled[found[0]]}'?" if found else ""


def _words(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _has_column(name: str) -> bool:
    return any(name.startswith(prefix) and name != prefix for prefix in _COLUMN_PREFIXES)
