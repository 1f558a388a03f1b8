"""Classify Debezium messages: envelope or flattened row, with or without its schema, or no event."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import column
from kedro_lakehouse.decoders.debezium.order import POSITION_FIELDS, TIME_FIELDS
from kedro_lakehouse.decoders.debezium.types import TEXT, Kind, kind_of
from kedro_lakehouse.decoders.lines import (
    KEY,
    TEXTS,
    VALUE,
    LineShape,
    all_numbers,
    names_of,
    parsed,
    plain,
    text_struct,
)
from kedro_lakehouse.decoders.records import computed_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

Form = Literal["envelope", "flat", "malformed", "skipped"]
MESSAGE: Final = "__message"
OF_KIND: Final = "__kind"
_NUMBERS: Final = "__numbers"
SOURCE_FIELDS: Final = tuple(
    dict.fromkeys(("connector", "db", "schema", "table", *POSITION_FIELDS, *TIME_FIELDS))
)
# ExtractNewRecordState adds the declared fields: __lsn for add.fields=lsn, __source_lsn for source.lsn.
_FLAT_FIELDS: Final = (
    "__op",
    "__deleted",
    *[f"{prefix}{f}" for f in SOURCE_FIELDS for prefix in ("__source_", "__")],
)
OTHER_FIELDS: Final = ("ddl", "databaseName", "tableChanges")
# Where a flattened row does not name its connector, a field of its log position identifies it.
TELLING: Final = {"lsn": "postgresql", "change_lsn": "sqlserver", "commit_lsn": "sqlserver", "scn": "oracle"}
_HEARTBEAT: Final = frozenset(TIME_FIELDS)
_TRANSACTION: Final = frozenset({"status", "id"})


@dataclass(frozen=True, kw_only=True)
class DebeziumLayout:
    """What the decoder must know of the table.

    ``ordered``: the table's ``order_by`` orders its events, not the log. ``entity`` is set where records
    of several tables come together: (table,), (schema, table) or (database, table).
    """

    table: str
    ordered: bool = False
    entity: tuple[str, ...] | None = None


@dataclass(frozen=True)
class MessageKind:
    """What messages of one kind share; ``schema`` is the text of their schema block."""

    form: Form
    connector: str | None = None
    wrapped: bool = False
    digest: str = ""
    schema: str | None = None

    def label(self) -> str:
        """The text that identifies this kind in the column ``__kind`` of messages."""
        return "|".join((self.form, self.connector or "", str(self.wrapped).lower(), self.digest))


def payloads(
    lines: DataFrame, layout: DebeziumLayout, text: Column, names: Iterable[str] | None
) -> DataFrame:
    """Add the parsed message and the label of its kind.

    Args:
        text: The value to parse.
        names: The row's columns, read as text; None where they are not known yet: then rows are maps.
    """
    message = parsed(text, _top(names))
    parts = F.struct(*[F.col("__top")[f].alias(f) for f in _body(names).fieldNames()])
    body = F.coalesce(F.col("__top")["payload"], parts)
    read = computed_once(lines, {"__top": message})
    read = computed_once(read, {MESSAGE: F.when(F.col("__top").isNotNull(), body)})
    return computed_once(read, {OF_KIND: _label(layout)})


def _body(names: Iterable[str] | None) -> T.StructType:
    row: T.DataType = TEXTS if names is None else text_struct(names)
    texts = ["op", *TIME_FIELDS, *OTHER_FIELDS, *_FLAT_FIELDS]
    fields = [
        T.StructField("before", row),
        T.StructField("after", row),
        T.StructField("source", text_struct(SOURCE_FIELDS)),
        *text_struct(texts).fields,
    ]
    taken = {f.name for f in fields}
    if names is not None:
        fields += [f for f in text_struct(names).fields if f.name not in taken]
    return T.StructType(fields)


def _top(names: Iterable[str] | None) -> T.StructType:
    body = _body(names)
    rest = [f for f in body.fields if f.name not in ("schema", "payload")]
    return T.StructType([T.StructField("schema", T.StringType()), T.StructField("payload", body), *rest])


def flat(field: str) -> Column:
    """A field of the source block, as a flattened row names it."""
    return F.coalesce(column(MESSAGE)[f"__source_{field}"], column(MESSAGE)[f"__{field}"])


def _label(layout: DebeziumLayout) -> Column:
    """Classify a message: the text that ``MessageKind.label`` gives for its kind."""
    m, top = column(MESSAGE), F.col("__top")
    source = m["source"]
    is_flat = F.coalesce(m["__op"], m["__deleted"]).isNotNull()
    is_envelope = F.coalesce(m["op"], m["before"].cast("string"), m["after"].cast("string")).isNotNull()
    ddl = F.coalesce(*[m[f] for f in OTHER_FIELDS]).isNotNull()
    guessed = [F.when(flat(f).isNotNull(), F.lit(c)) for f, c in TELLING.items()]
    guessed.append(F.when(flat("file").isNotNull() & flat("pos").isNotNull(), F.lit("mysql")))
    connector = F.coalesce(source["connector"], flat("connector"), *guessed, F.lit(""))
    other_table = F.lit(False)
    parts = list(reversed(layout.entity or ()))
    if parts:
        other_table |= ~F.coalesce(source["table"], flat("table")).eqNullSafe(F.lit(parts[0]))
    if len(parts) > 1:
        above = F.array(source["schema"], source["db"], flat("schema"), flat("db"))
        other_table |= ~F.coalesce(F.array_contains(F.array_compact(above), parts[1]), F.lit(False))
    keys = F.map_keys(parsed(column(VALUE), TEXTS))
    inner = F.map_keys(parsed(F.get_json_object(column(VALUE), "$.payload"), TEXTS))
    known = F.coalesce(inner, keys)
    beat = F.size(F.array_except(known, F.array(*map(F.lit, sorted(_HEARTBEAT))))) == 0
    transaction = F.size(F.array_except(F.array(*map(F.lit, sorted(_TRANSACTION))), known)) == 0
    tombstone = top["payload"].isNull() & F.array_contains(keys, "payload")
    form = (
        F.when(column(VALUE).isNull(), "skipped")
        .when(top.isNull(), "malformed")
        .when(is_flat, "flat")
        .when(is_envelope, F.when(other_table | (m["op"] == "m"), "skipped").otherwise("envelope"))
        .when(ddl | tombstone | beat | transaction, "skipped")
        .when(source.isNotNull(), "envelope")
        .otherwise("flat")
    )
    form = F.when((form == "flat") & other_table, "skipped").otherwise(form)
    bare = form.isin("malformed", "skipped")
    wrapped = top["payload"].isNotNull().cast("string")
    digest = F.coalesce(F.sha2(top["schema"], 256), F.lit(""))
    return F.when(bare, F.concat(form, F.lit("||false|"))).otherwise(
        F.concat_ws("|", form, connector, wrapped, digest)
    )


def discovered(row: Mapping[str, Any], place: str) -> LineShape:
    """Turn one result row of ``DebeziumDecoder.discover`` into a shape."""
    form, connector, wrapped, digest = str(row[OF_KIND]).split("|")
    kind = MessageKind(form, connector or None, wrapped == "true", digest, row["schema"])  # type: ignore[arg-type]
    if form in ("malformed", "skipped"):
        return LineShape(place=place, columns=(), has_rows=form == "malformed", kind=kind)
    fields = fields_of(kind)
    if fields is None:
        names = names_of([*row["row_names"], *row["old_names"], *row["flat_names"], *row["key_names"]])
        fields = dict.fromkeys(names, TEXT)
    columns = {n: k.type for n, k in fields.items()} | dict(control_types(kind))
    return LineShape(
        place=place, columns=tuple(columns.items()), self_describing=kind.schema is not None, kind=kind
    )


def fields_of(kind: MessageKind) -> dict[str, Kind] | None:
    """The row's columns as the schema block declares them; None without a schema block."""
    if kind.schema is None:
        return None
    fields = json.loads(kind.schema).get("fields") or []
    if kind.form == "envelope":
        rows = [f for f in fields if f.get("field") in ("after", "before")]
        fields = [f for row in sorted(rows, key=lambda f: str(f["field"])) for f in row.get("fields") or []]
    found: dict[str, Kind] = {}
    for field in fields:
        found.setdefault(str(field["field"]), kind_of(field))
    return found


CONTROL: Final = ("__op", "__source_ts_ms", "__ts_ms")
"""Columns added to envelopes, named as in flattened rows: for use in ``order_by`` and ``columns``."""


def control_types(kind: MessageKind) -> dict[str, T.DataType]:
    """The types of the ``CONTROL`` columns of an envelope; a flattened row has its own columns."""
    if kind.form != "envelope":
        return {}
    number: T.DataType = T.StringType() if kind.schema is None else T.LongType()
    return {"__op": T.StringType(), "__source_ts_ms": number, "__ts_ms": number}


def key_text(text: Column | None = None) -> Column:
    """The object in a message's key (or in ``text``), unwrapped where the key has a schema of its own."""
    key = column(KEY) if text is None else text
    return F.coalesce(F.get_json_object(key, "$.payload"), key)


def with_numbers(read: DataFrame, names: Sequence[str], *, whole: bool) -> DataFrame:
    """Add before and after images of some columns with all numbers marked (``all_numbers``).

    Only messages with a schema have such columns, so the images are below ``payload``.
    """
    row = text_struct(names)
    images = [T.StructField("before", row), T.StructField("after", row)]
    top = T.StructType([T.StructField("payload", T.StructType(images) if whole else row)])
    return computed_once(read, {_NUMBERS: parsed(all_numbers(column(VALUE)), top)["payload"]})


def image_of(name: str, image: str, *, whole: bool, marked: bool) -> Column:
    """A column's text before or after the change; a flattened row has only one image."""
    row = column(_NUMBERS) if marked else column(MESSAGE)
    value = row[image][name] if whole else row[name]
    return value if marked else plain(value)
