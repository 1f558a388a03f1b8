"""Documents become rows where they lie, on Spark's workers; few are looked at without Spark."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import MISFIT
from kedro_lakehouse.changes.events import POSITION, RAW, column
from kedro_lakehouse.decoders.bson.documents import document_of, extended_json
from kedro_lakehouse.decoders.bson.kinds import Kinds, kinds_of
from kedro_lakehouse.decoders.bson.values import MisfitError, reader_of, value_at
from kedro_lakehouse.decoders.changes import ChangesDecoder
from kedro_lakehouse.decoders.records import FILE, MALFORMED_RECORD

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.documents import Path
    from kedro_lakehouse.decoders.bson.types import Field

ID: Final = "_id"
DOCUMENT: Final = "document"
_TEXTS: Final = T.ArrayType(T.StringType())
_MOST_AT_ONCE: Final = 2_000
"""So many documents are decoded at a time: their Python objects take ten times their bytes."""


@dataclass(frozen=True)
class _Rows:
    """Decodes batches of documents on a worker: one object is sent there with each task."""

    fields: tuple[Field, ...]
    carried: tuple[T.StructField, ...]

    @property
    def schema(self) -> T.StructType:
        """The columns by their places, as names with dots are no columns to Spark; then what is carried."""
        kinds = [T.StructField(f"c{place}", field.type) for place, field in enumerate(self.fields)]
        facts = [("misfit", _TEXTS), ("text", T.StringType()), ("broken", T.BooleanType())]
        return T.StructType([*kinds, *self.carried, *[T.StructField(name, kind) for name, kind in facts]])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self.schema)
        readers = [(field.name, field.path, reader_of(field)) for field in self.fields]
        for batch in batches:
            for start in range(0, batch.num_rows, _MOST_AT_ONCE):
                part = batch.slice(start, _MOST_AT_ONCE)
                yield _decoded(part, readers, schema)


def _decoded(batch: pa.RecordBatch, readers: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns: list[list[Any]] = [[] for _ in readers]
    misfits: list[list[str]] = []
    texts: list[str | None] = []
    broken: list[bool] = []
    for raw in batch.column(0).to_pylist():
        document = document_of(raw)
        lost = []
        for values, (name, path, read) in zip(columns, readers, strict=True):
            try:
                values.append(read(value_at(document or {}, path)))
            except MisfitError:
                values.append(None)
                lost.append(name)
        misfits.append(lost)
        broken.append(document is None)
        # What is set aside keeps its text; of what fits, Spark makes one only where it is asked for.
        texts.append(_text_of(raw, document) if lost or document is None else None)
    kinds = [field.type for field in schema]
    made = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=False)]
    facts = [
        pa.array(values, kind) for values, kind in zip((misfits, texts, broken), kinds[-3:], strict=True)
    ]
    carried = batch.columns[1:]
    return pa.RecordBatch.from_arrays([*made, *carried, *facts], schema=schema)


def _text_of(raw: bytes | None, document: dict[str, Any] | None) -> str | None:
    """What is kept of a document that is set aside: canonical JSON, or the bytes of what is no document."""
    if document is not None:
        return extended_json(document)
    return f"base64:{base64.b64encode(raw).decode()}" if raw is not None else None


class BsonDecoder(ChangesDecoder):
    """Types documents of raw BSON; then each is a row, as one of change-only files is."""

    def discover(self, documents: DataFrame, maps: Collection[Path]) -> Kinds:
        """Find the kinds of all values, by one Spark job, whose result grows with the paths alone."""

        def found(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            kinds = Kinds()
            for batch in batches:
                kinds.merge(kinds_of(batch.column(0).to_pylist(), maps))
            plain = json.dumps(kinds.to_plain())
            yield pa.RecordBatch.from_pydict({"kinds": [plain]}, schema=pa.schema([("kinds", pa.string())]))

        merged = Kinds()
        for row in documents.select(DOCUMENT).mapInArrow(found, "kinds string").collect():
            merged.merge(Kinds.from_plain(json.loads(row["kinds"])))
        return merged

    def unwrap(self, documents: DataFrame, fields: Sequence[Field], beside: Sequence[str] = ()) -> DataFrame:
        """Decode documents into rows.

        Schema:
            documents: ``document`` (raw BSON), ``_position``, ``__file``, and the columns ``beside``.
            returns: the fields, the columns ``beside``, ``_position``, ``_raw``, ``__file``, ``__malformed``,
                and ``__misfit``: the names of columns whose value is not of their type.

        Returns:
            A lazy frame: calling this function starts no Spark job.
        """
        position = column(POSITION)
        places = {name: f"b{place}" for place, name in enumerate(beside)}
        given = documents.select(
            column(DOCUMENT),
            position["file"].alias("file"),
            position["row"].alias("row"),
            column(FILE).alias("name"),
            *[column(name).alias(place) for name, place in places.items()],
        )
        rows = _Rows(tuple(fields), tuple(given.schema.fields[1:]))
        decoded = given.mapInArrow(rows, rows.schema)
        values = [column(f"c{place}").alias(field.name) for place, field in enumerate(fields)]
        values += [column(place).alias(name) for name, place in places.items()]
        text = F.to_json(F.struct(*values), {"ignoreNullFields": "false"})
        return decoded.select(
            *values,
            F.struct(column("file"), column("row")).alias(POSITION),
            F.coalesce(column("text"), text).alias(RAW),
            column("name").alias(FILE),
            column("broken").alias(MALFORMED_RECORD),
            column("misfit").alias(MISFIT),
        )
