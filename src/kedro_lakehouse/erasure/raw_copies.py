"""Remove records of subjects from the raw copies of a stream."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from kedro_lakehouse.erasure.in_place import can_be_rewritten, files_below, rewrite
from kedro_lakehouse.erasure.landed import names_in_json
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.sources.raw_copy import RawCopy

if TYPE_CHECKING:
    from kedro_lakehouse.erasure.in_place import Writer
    from kedro_lakehouse.lake_table import LakeTable


def erase_copied(table: LakeTable, name: str, wanted: Wanted) -> list[str]:
    """Remove the records that name subjects from the raw copies of a table; return the changed files.

    Files on a local disk and in S3 are changed. The search that follows names all files that still hold a
    subject.

    Args:
        name: The column that names subjects.
    """
    raw = getattr(table.source_config, "raw", None)
    if raw is None:
        return []
    root = RawCopy(raw, str(table)).root.removeprefix("file://")
    if not can_be_rewritten(root):
        return []
    renamed = {new: old for old, new in table.config.rename.items()}
    name = renamed.get(name, name)
    make = partial(_without, name=name, wanted=Wanted.of(wanted.values, [*wanted.columns, name]))
    return [path for path in files_below(root) if path.endswith(".parquet") and rewrite(path, make)]


def _without(file: BinaryIO, name: str, wanted: Wanted) -> Writer | None:
    """What writes a file without the records that name a subject; None if there are none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pq.read_table(file)
    kept = [not _names(row, name, wanted) for row in rows.to_pylist()]
    if all(kept):
        return None
    return lambda out: pq.write_table(rows.filter(pa.array(kept, pa.bool_())), out, compression="zstd")


def _names(record: dict[str, Any], name: str, wanted: Wanted) -> bool:
    """Whether a record names a subject: in its value, in its key, or as a header."""
    says = names_in_json(name, wanted)

    def is_about(raw: bytes | None) -> bool:
        if raw is None:
            return False
        try:
            text = raw.decode()
        except UnicodeDecodeError:  # such as Avro
            return wanted.holds_bytes(raw)
        return says(text) if "{" in text else wanted.is_written(text)

    headers = (header["value"] for header in record["headers"] or ())
    return any(map(is_about, (record["value"], record["key"], *headers)))
