"""Readers of files, one for each kind: what of a file holds a wanted value.

A reader reads the file itself and not the table that it belongs to: rows that a delete file hides are still
in it, and so is what a page keeps after its last row was deleted.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections import Counter
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from kedro_lakehouse.file_search.wanted import Wanted

_CHUNK: Final = 8 * 2**20
_SNIFFED: Final = 8192
_ROWS: Final = 65_536
_FEW: Final = 64
"""Up to so many forms of values Arrow says which texts may hold one."""
_BOUNDS: Final = ("lower_bounds", "upper_bounds")
_PATHS: Final = ("file_path", "manifest_path")
_TAR_MAGIC_AT: Final = 257
OPAQUE: Final = "opaque"
"""Kind of a file whose blocks may be compressed as no reader here knows: its bytes alone are searched."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A place within a file that holds a wanted value, and how often."""

    place: str
    count: int


def kind_of(head: bytes) -> str:
    """The kind of a file, by its first bytes; names and endings may lie."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
        return "tar"
    return "bytes" if b"\0" in head else "text"


def hits_in(file: BinaryIO, wanted: Wanted) -> tuple[str, list[Hit]]:
    """The kind of a file, and the places in it that hold a wanted value; the file must allow to seek."""
    head = file.read(_SNIFFED)
    file.seek(0)
    kind = kind_of(head)
    found: Counter[str] = Counter()
    for place, count in _READERS.get(kind, _text if kind == "text" else _bytes)(file, wanted):
        found[place] += count
    return kind, [Hit(place=place, count=count) for place, count in found.items()]


def searched_as_bytes(file: BinaryIO, wanted: Wanted) -> list[Hit]:
    """The hits in the bytes of a file that its reader could not read."""
    return [Hit(place=place, count=count) for place, count in _bytes(file, wanted)]


def _chunks(file: BinaryIO, overlap: int) -> Iterator[tuple[bytes, int]]:
    """The bytes of a file in chunks that overlap, and from where on each is new."""
    before = b""
    while chunk := file.read(_CHUNK):
        yield before + chunk, len(before)
        before = (before + chunk)[-overlap:] if overlap else b""


def _text(file: BinaryIO, wanted: Wanted) -> Iterator[tuple[str, int]]:
    yield from _scanned(file, wanted, wanted.in_text, "text")


def _bytes(file: BinaryIO, wanted: Wanted) -> Iterator[tuple[str, int]]:
    yield from _scanned(file, wanted, wanted.in_bytes, "bytes")


def _scanned(
    file: BinaryIO, wanted: Wanted, look: Callable[[bytes], Iterator[int]], place: str
) -> Iterator[tuple[str, int]]:
    # A value is looked at with what is before and behind it, so the end of a chunk is looked at again.
    overlap = wanted.longest + 400
    count, offset, seen = 0, 0, -1
    for chunk, new_from in _chunks(file, overlap):
        offset -= new_from
        for at in look(chunk):
            if offset + at > seen:
                count, seen = count + 1, offset + at
        offset += len(chunk)
    if count:
        yield place, count


def _unpacked(opened: Callable[[BinaryIO], Any], file: BinaryIO, wanted: Wanted) -> Iterator[tuple[str, int]]:
    with opened(file) as inner:
        yield from _inner(inner, wanted, "")


def _inner(inner: BinaryIO, wanted: Wanted, name: str) -> Iterator[tuple[str, int]]:
    """What a file within another file holds; one that cannot seek is read as a whole."""
    head = inner.read(_SNIFFED)
    kind = kind_of(head)
    rest = _Joined(head, inner)
    if kind not in ("text", "bytes"):
        rest = io.BytesIO(head + inner.read())  # type: ignore[assignment]
    prefix = f"{name}: " if name else ""
    reader = _READERS.get(kind, _text if kind == "text" else _bytes)
    for place, count in reader(cast("BinaryIO", rest), wanted):
        yield prefix + place, count


class _Joined:
    """The bytes that were read already, and those that follow."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        return head or self._rest.read(size)


def _zstd(file: BinaryIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(file, "zstd")


def _tar(file: BinaryIO, wanted: Wanted) -> Iterator[tuple[str, int]]:
    with tarfile.open(fileobj=file, mode="r:") as bundle:
        for member in bundle:
            if (inner := bundle.extractfile(member)) is not None:
                yield from _inner(cast("BinaryIO", inner), wanted, member.name)


def _zip(file: BinaryIO, wanted: Wanted) -> Iterator[tuple[str, int]]:
    with zipfile.ZipFile(file) as bundle:
        for member in bundle.infolist():
            with bundle.open(member) as inner:
                yield from _inner(cast("BinaryIO", inner), wanted, member.filename)


def _parquet(file: BinaryIO, wanted: Wanted) -> Iterator[tuple[str, int]]:
    """Rows of every row group, deleted or not, and the texts of the footer."""
    import pyarrow.parquet as pq

    opened = pq.ParquetFile(file)
    for key, value in (opened.metadata.metadata or {}).items():
        if wanted.holds(value.decode(errors="replace")):
            yield f"footer, {key.decode(errors='replace')}", 1
    schema = opened.schema_arrow
    for number in range(opened.num_row_groups):
        held = [f.name for f in schema if _may_hold(opened.metadata.row_group(number), f, wanted)]
        if not held:
            continue
        for batch in opened.iter_batches(_ROWS, row_groups=[number], columns=held):
            for name, values in zip(batch.schema.names, batch.columns, strict=True):
                yield from _in_values(values, (name,), wanted)


def _may_hold(group: Any, field: pa.Field, wanted: Wanted) -> bool:
    """Whether a row group may hold a value in a column; statistics prove for a number that it does not."""
    import pyarrow as pa

    kind = field.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return False
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or _is_text(kind):
        return True
    if not wanted.counts_for(field.name):
        return False
    values = wanted.of_type(kind)
    if not values or not pa.types.is_integer(kind):
        return bool(values)
    columns = [group.column(i) for i in range(group.num_columns)]
    facts = next((c.statistics for c in columns if c.path_in_schema == field.name), None)
    if facts is None or not facts.has_min_max:
        return True
    return any(facts.min <= value <= facts.max for value in values)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return any(
        of(kind)
        for of in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_string_view,
        )
    )


def _in_values(values: pa.Array, path: tuple[str, ...], wanted: Wanted) -> Iterator[tuple[str, int]]:
    """The hits in an array, and in all arrays within it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_dictionary(kind):
        yield from _in_values(values.dictionary, path, wanted)
    elif pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _in_values(values.field(i), (*path, kind.field(i).name), wanted)
    elif pa.types.is_map(kind):
        yield from _in_values(values.keys, (*path, "key"), wanted)
        yield from _in_values(values.items, (*path, "value"), wanted)
    elif pa.types.is_nested(kind):
        yield from _in_values(values.flatten(), path, wanted)
    elif _is_text(kind):
        if count := _texts_with(values, wanted):
            yield f"column {'.'.join(path)}", count
    elif any(map(wanted.counts_for, path)) and (sought := wanted.of_type(kind)):
        count = pc.sum(pc.is_in(values, pa.array(sought, kind))).as_py()
        if count:
            yield f"column {'.'.join(path)}", count


def _texts_with(values: pa.Array, wanted: Wanted) -> int:
    """How many texts, or bytes, hold a value; what is repeated is looked at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    elif pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    is_bytes = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    holds: Callable[[Any], bool] = wanted.holds_bytes if is_bytes else wanted.holds
    if not wanted.forms:
        return 0
    counted = values.drop_null().value_counts()
    if len(wanted.forms) <= _FEW:
        likely = (pc.match_substring(counted.field("values"), form) for form in wanted.forms)
        counted = counted.filter(reduce(pc.or_, likely))
    return sum(one["counts"] for one in counted.to_pylist() if holds(one["values"]))


def _orc(file: BinaryIO, wanted: Wanted) -> Iterator[tuple[str, int]]:
    from pyarrow import orc

    opened = orc.ORCFile(file)
    for number in range(opened.nstripes):
        batch = opened.read_stripe(number)
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            yield from _in_values(values, (name,), wanted)


def _avro(file: BinaryIO, wanted: Wanted) -> Iterator[tuple[str, int]]:
    """Records, of deleted entries too; bounds in Iceberg's manifests are read by the schema beside them."""
    import fastavro

    reader = fastavro.reader(file)
    facts = cast("Mapping[str, Any]", reader.metadata)
    for key, value in facts.items():
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        if key not in ("avro.schema", "schema") and wanted.holds(text):
            yield f"header, {key}", 1
    kinds = _kinds_of(facts.get("schema"))
    for record in reader:
        yield from _in_record(record, (), wanted, kinds)


def _kinds_of(schema: Any) -> Mapping[int, tuple[str, Any]]:
    """The name and type of each simple column of the schema in a manifest, by its number."""
    if schema is None:
        return {}
    from pyiceberg.schema import Schema, index_by_id

    try:
        fields = index_by_id(Schema.model_validate_json(schema))
    except ValueError:  # another Avro file with a key of that name
        return {}
    return {n: (f.name, f.field_type) for n, f in fields.items() if f.field_type.is_primitive}


def _in_record(
    value: Any, path: tuple[str, ...], wanted: Wanted, kinds: Mapping[int, tuple[str, Any]]
) -> Iterator[tuple[str, int]]:
    last = path[-1] if path else ""
    if isinstance(value, dict) and set(value) == {"key", "value"} and last in _BOUNDS:
        yield from _in_bound(value, last, wanted, kinds)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _in_record(inner, (*path, str(name)), wanted, kinds)
    elif isinstance(value, list):
        for inner in value:
            yield from _in_record(inner, path, wanted, kinds)
    elif _is_hit(value, path, wanted):
        yield ".".join(path), 1


def _is_hit(value: Any, path: tuple[str, ...], wanted: Wanted) -> bool:
    """Whether a simple value of a record is, or holds, a wanted one."""
    last = path[-1] if path else ""
    if isinstance(value, str):
        return wanted.in_path(value) if last in _PATHS else wanted.holds(value)
    if isinstance(value, bytes):
        return _is_encoded(value, wanted) if last.endswith("_bound") else wanted.holds_bytes(value)
    return any(map(wanted.counts_for, path)) and wanted.equals(value)


def _in_bound(
    bound: Mapping[str, Any], which: str, wanted: Wanted, kinds: Mapping[int, tuple[str, Any]]
) -> Iterator[tuple[str, int]]:
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import BinaryType, FixedType, StringType

    name, kind = kinds.get(bound["key"], ("", None))
    if kind is None:  # a column of delete files, or one that the schema has no longer
        if wanted.holds_bytes(bound["value"]) or (not wanted.columns and _is_encoded(bound["value"], wanted)):
            yield f"{which} of column {bound['key']}", 1
        return
    is_text = isinstance(kind, StringType | BinaryType | FixedType)
    value = from_bytes(kind, bound["value"]) if not is_text else bound["value"].decode(errors="replace")
    if (is_text or wanted.counts_for(name)) and wanted.is_bound(value, of_text=is_text):
        yield f"{which} of {name}", 1


def _is_encoded(data: bytes, wanted: Wanted) -> bool:
    """Whether bytes are a value as Iceberg writes single values, of a type that is not known here."""
    if data in wanted.forms:
        return True
    numbers = [int.from_bytes(data, "little", signed=True)] if len(data) in (4, 8) else []
    return any(wanted.equals(number) for number in numbers)


def _sqlite(file: BinaryIO, wanted: Wanted) -> Iterator[tuple[str, int]]:
    """Every page, of deleted rows and free ones too."""
    yield from _scanned(file, wanted, wanted.in_bytes, "pages")


_READERS: Final[Mapping[str, Callable[[BinaryIO, Wanted], Iterator[tuple[str, int]]]]] = {
    "parquet": _parquet,
    "avro": _avro,
    "orc": _orc,
    "sqlite": _sqlite,
    "gzip": partial(_unpacked, lambda file: gzip.GzipFile(fileobj=file)),
    "bzip2": partial(_unpacked, bz2.BZ2File),
    "xz": partial(_unpacked, lzma.LZMAFile),
    "zstd": partial(_unpacked, _zstd),
    "tar": _tar,
    "zip": _zip,
    OPAQUE: _bytes,
}
_MAGIC: Final = {
    b"PAR1": "parquet",
    b"Obj\x01": "avro",
    b"ORC": "orc",
    b"SQLite format 3\0": "sqlite",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"#HUDI#": OPAQUE,
    b"PFA1": OPAQUE,
}
