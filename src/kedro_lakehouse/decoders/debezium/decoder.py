"""Decode Debezium messages into change events."""

from __future__ import annotations

import base64
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import OP, ORDER, TIME, TRUNCATE, UNSET, UPSERT, column
from kedro_lakehouse.changes.validate import KEY_MISMATCHED, convert
from kedro_lakehouse.decoders.debezium.envelope import (
    CONTROL,
    MESSAGE,
    OF_KIND,
    DebeziumLayout,
    MessageKind,
    control_types,
    discovered,
    fields_of,
    flat,
    image_of,
    key_text,
    payloads,
    with_numbers,
)
from kedro_lakehouse.decoders.debezium.few import OPERATIONS, FewMessages, shapes_of
from kedro_lakehouse.decoders.debezium.order import (
    POSITION_FIELDS,
    POSITIONS,
    TIME_FIELDS,
    connector_of,
    order_of,
    time_of,
)
from kedro_lakehouse.decoders.debezium.types import TEXT, UNDESCRIBED, Kind, cast
from kedro_lakehouse.decoders.lines import (
    CARRIED_BY_LINES,
    KEY,
    TEXTS,
    VALUE,
    LineShape,
    all_numbers,
    exact,
    original,
    parsed,
    plain,
    text_struct,
)
from kedro_lakehouse.decoders.records import (
    BEFORE,
    CARRIED,
    FAILED,
    FILE,
    MALFORMED_RECORD,
    Columns,
    Load,
    RecordGroup,
    computed_once,
)
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_OLD, _KEYED, _AT, _SOURCE_TIME, _MESSAGE_TIME = "__old", "__key", "__at", "__source_time", "__message_time"
_STANDS: Final = "__debezium_unavailable_value"
_STANDS_64: Final = base64.b64encode(_STANDS.encode()).decode()
UNAVAILABLE: Final = (
    _STANDS,
    _STANDS_64,
    f'["{_STANDS}"]',
    f'["{_STANDS_64}"]',
    f'{{"{_STANDS}":"{_STANDS}"}}',
    str(list(_STANDS.encode())).replace(" ", ""),
)
"""Debezium's placeholder for a value that PostgreSQL did not log again: as text, bytes, arrays and hstore."""


@dataclass(frozen=True)
class _Facts:
    """What decoding a group needs: its columns' kinds, its connector, and whether a schema describes it."""

    kinds: Mapping[str, Kind]
    connector: str | None
    described: bool


class DebeziumDecoder:
    """Decodes Debezium messages in JSON.

    Source:
        Debezium documentation: connectors for PostgreSQL, MySQL, SQL Server and Oracle, data change events;
        new record state extraction.
    """

    def discover(self, lines: DataFrame, layout: DebeziumLayout) -> list[LineShape]:
        """Find the kinds of messages in each place, with their schema blocks or the names that occur."""
        read = payloads(lines, layout, column(VALUE), None)
        m, is_flat = column(MESSAGE), column(OF_KIND).startswith("flat")
        bare = is_flat & F.col("__top")["schema"].isNull()
        row = F.when(F.col("__top")["payload"].isNull(), column(VALUE)).otherwise(
            F.get_json_object(column(VALUE), "$.payload")
        )
        names = {
            "row_names": F.map_keys(m["after"]),
            "old_names": F.map_keys(m["before"]),
            "flat_names": F.when(bare, F.map_keys(parsed(row, TEXTS))),
            "key_names": F.map_keys(parsed(key_text(), TEXTS)),
        }
        found = read.groupBy(FILE, OF_KIND).agg(
            F.first(F.col("__top")["schema"]).alias("schema"),
            *[F.collect_set(F.array_sort(v)).alias(n) for n, v in names.items()],
        )
        return [discovered(r.asDict(), r[FILE]) for r in found.collect()]

    def discover_few(self, lines: pa.Table, layout: DebeziumLayout) -> list[LineShape]:
        """Find the kinds of few messages without Spark, as ``ReadsFewLines`` says."""
        return shapes_of(lines, layout)

    def decode_few(
        self,
        lines: pa.Table,
        shapes: Sequence[LineShape],
        layout: DebeziumLayout,
        columns: Columns,
        keys: tuple[str, ...],
    ) -> pa.Table:
        """Decode few messages without Spark, as ``DecodesFew`` says."""
        return FewMessages.of(shapes, layout, columns, keys, UNAVAILABLE).events(lines)

    def unwrap(
        self, lines: DataFrame, shapes: Sequence[LineShape], layout: DebeziumLayout, *, load: Load = "changes"
    ) -> list[RecordGroup]:
        """One group for each kind of message.

        Raises:
            ConfigurationError: The messages have no common order, and the table declares none.
        """
        del load
        kinds: dict[MessageKind, list[LineShape]] = {}
        for shape in shapes:
            if isinstance(shape.kind, MessageKind) and shape.kind.form != "skipped":
                kinds.setdefault(shape.kind, []).append(shape)
        connector = _connector(kinds, layout)
        return [_group(lines, kind, members, layout, connector) for kind, members in kinds.items()]

    def decode(
        self, group: RecordGroup, layout: DebeziumLayout, columns: Columns, keys: tuple[str, ...]
    ) -> DataFrame:
        """Decode messages into events, as ``ChangeDecoder`` says."""
        facts = _as_wanted(group.facts, columns)
        available = {n: k.type for n, k in facts.kinds.items()}
        sources = {columns.name_of(s): s for s in group.columns if columns.name_of(s) in keys}
        typed = _typed(group, facts, sources.values())
        extra = {OP: column(OP), UNSET: _renamed(UNSET, columns), TIME: column(TIME)}
        if not layout.ordered:
            extra[ORDER] = order_of(_known(facts, columns, layout), _AT)
        now = {k: _of_held(columns.conversion(s, available[s])) for k, s in sources.items()}
        old = {
            k: F.coalesce(_moved(c, _OLD).value(), c.value()).cast(columns.types[k]) for k, c in now.items()
        }
        kind = T.StructType([T.StructField(k, columns.types[k]) for k in keys])
        image = F.struct(*[old[k].alias(k) for k in keys]) if len(old) == len(keys) else F.lit(None)
        differs, mismatch = F.lit(False), F.lit(False)
        for key, conversion in now.items():
            differs |= ~old[key].eqNullSafe(conversion.value())
            told_key = _moved(conversion, _KEYED).value()
            mismatch |= told_key.isNotNull() & ~told_key.eqNullSafe(conversion.value())
        upsert = column(OP).eqNullSafe(UPSERT)
        extra[BEFORE] = F.when(upsert & differs, image).cast(kind)
        extra[KEY_MISMATCHED] = mismatch & ~column(OP).eqNullSafe(TRUNCATE)
        facts_of = typed.select("*", *[v.alias(f"__e{n}") for n, v in extra.items()])
        kept = [*[f"__e{n}" for n in extra], "__unread", *[c for c in CARRIED if c != FILE]]
        told = {n: k for n, k in group.columns.items() if n not in available}  # beside the message
        wanted = [*map(_of_held, columns.conversions(available)), *columns.conversions(told)]
        converted = convert(facts_of, wanted, keep=kept)
        unread = F.array_union(column(FAILED), _renamed("__unread", columns))
        named = [column(f"__e{n}").alias(n) for n in extra]
        rest = [c for c in converted.columns if not c.startswith("__e") and c not in (FAILED, "__unread")]
        return converted.select(*map(column, rest), *named, unread.alias(FAILED))


def _as_wanted(facts: _Facts, columns: Columns) -> _Facts:
    """Without a schema, read columns by the table's types where a plain cast would misread the text.

    For example, Debezium writes a date as a number of days since 1970.
    """
    if facts.described:
        return facts
    wanted = {n: columns.types.get(columns.name_of(n), T.NullType()) for n in facts.kinds}
    kinds = {n: UNDESCRIBED.get(type(wanted[n]), k) for n, k in facts.kinds.items()}
    return dataclasses.replace(facts, kinds=kinds)


def _connector(kinds: Mapping[MessageKind, Any], layout: DebeziumLayout) -> str | None:
    """The one connector that orders the messages; None where there are none, or the table orders them."""
    if layout.ordered:
        return None
    read = {k.connector for k in kinds if k.form != "malformed"}
    unknown = sorted(str(c) for c in read if c not in POSITIONS)
    orders = {POSITIONS[c] for c in read if c is not None and c in POSITIONS}
    if unknown or len(orders) > 1:
        what = f"messages of {' and '.join(sorted(map(str, read)))} have no common position in a log"
        raise _no_order(layout, what.replace("None", "an unnamed connector"))
    return next((c for c in sorted(map(str, read))), None)


def _known(facts: _Facts, columns: Columns, layout: DebeziumLayout) -> str:
    connector = facts.connector or connector_of(columns)
    if connector is None:
        raise _no_order(layout, "no message states its position in a log")
    return connector


def _no_order(layout: DebeziumLayout, what: str) -> ConfigurationError:
    return ConfigurationError(
        file="tables.yml",
        key=f"{layout.table}.order_by",
        problem=f"{what}, so nothing orders the events.",
        remedy="List the columns that order the events of a key.",
    )


def _group(
    lines: DataFrame,
    kind: MessageKind,
    members: Sequence[LineShape],
    layout: DebeziumLayout,
    connector: str | None,
) -> RecordGroup:
    """Parse the messages of one kind into a group of records: a column of text for each column of the row.

    A delete has the values of its before image or, where that lacks them, of the message's key; an upsert
    has those of its after image; a truncate has none. Beside them each record has:

    - ``_op``, and for an envelope the ``CONTROL`` columns;
    - ``__old`` and ``__key``: the row's columns as the before image and the message's key have them;
    - ``__at``, ``__source_time``, ``__message_time``: the log position and the times;
    - position, file, raw record, and whether it is malformed.
    """
    declared = fields_of(kind)
    shaped = {n: t for s in members for n, t in s.columns}
    kinds = declared or dict.fromkeys([n for n in shaped if n not in control_types(kind)], TEXT)
    names = list(kinds)
    # Without a schema a number may have any number of digits; with one it fits the type of its column.
    text = column(VALUE) if kind.schema is not None else exact(column(VALUE))
    read = payloads(lines, layout, text, names or ["__none"]).where(column(OF_KIND) == kind.label())
    m, whole = column(MESSAGE), kind.form == "envelope"
    marked = [n for n, k in kinds.items() if k.marked]
    if marked:
        read = with_numbers(read, marked, whole=whole)
    key = key_text((all_numbers if marked else exact)(column(KEY)))
    op = m["op"] if whole else F.coalesce(m["__op"], _rewritten(m["__deleted"]))
    if not whole:
        op = F.when(m["__deleted"] == "true", F.lit("d")).otherwise(op)
    meaning = F.lit(None).cast("string")
    for letter, word in OPERATIONS.items():
        meaning = F.when(op == letter, F.lit(word)).otherwise(meaning)
    # ``whole`` is an envelope, else a flattened row. ``gone`` is a delete, ``emptied`` a truncate.
    gone, emptied = op == "d", op == "t"
    of_key = {n: column(_KEYED)[n] if n in marked else plain(column(_KEYED)[n]) for n in names}

    def seen(name: str, image: str) -> Column:
        return image_of(name, image, whole=whole, marked=name in marked)

    kept = ~F.coalesce(emptied, F.lit(False))
    values = {
        n: F.when(gone, F.coalesce(seen(n, "before"), of_key[n])).when(kept, seen(n, "after")) for n in names
    }
    control = dict(zip(CONTROL, (m["op"], m["source"]["ts_ms"], m["ts_ms"]), strict=True)) if whole else {}

    def texts(prefix: str, fields: Sequence[str]) -> Column:
        at = m["source"] if whole else None
        return F.struct(*[(at[f] if at is not None else flat(f)).alias(f) for f in fields]).alias(prefix)

    nothing = F.lit(None).cast("string")
    old = [(seen(n, "before") if whole else nothing).alias(n) for n in names] or [nothing.alias("__none")]
    told_key = [of_key[n].alias(n) for n in names] or [nothing.alias("__none")]
    records = read.withColumn(_KEYED, parsed(key, text_struct(names or ["__none"]))).select(
        *[v.alias(_held(n)) for n, v in values.items()],
        *[v.alias(n) for n, v in control.items()],
        meaning.alias(OP),
        F.struct(*old).alias(_OLD),
        F.struct(*told_key).alias(_KEYED),
        texts(_AT, POSITION_FIELDS),
        texts(_SOURCE_TIME, TIME_FIELDS),
        F.struct(*[m[f].alias(f) for f in TIME_FIELDS]).alias(_MESSAGE_TIME),
        *[column(c) for c in CARRIED_BY_LINES],
        *original(lines),
        F.lit(kind.form == "malformed").alias(MALFORMED_RECORD),
    )
    own = {c: cast(t) for c, t in control_types(kind).items()}
    every = kinds | own
    return RecordGroup(
        records=records,
        load="changes",
        columns={n: k.type for n, k in every.items()},
        files=[s.place for s in members],
        facts=_Facts(every, connector, described=kind.schema is not None),
    )


def _rewritten(deleted: Column) -> Column:
    """The operation of a flattened row that only says whether it was deleted."""
    return F.when(deleted == "true", F.lit("d")).when(deleted == "false", F.lit("u"))


def _typed(group: RecordGroup, facts: _Facts, key_sources: Any) -> DataFrame:
    """Read texts as the types that the schema declares.

    Adds ``_unset``, the names of columns that an upsert did not send, and ``__unread``, the names of columns
    whose text cannot be read as their type.
    """
    records, kinds = group.records, facts.kinds
    upsert = column(OP).eqNullSafe(UPSERT)
    absent = {n: upsert & column(_held(n)).isin(*UNAVAILABLE) for n in kinds if n not in CONTROL}
    marked = computed_once(
        records,
        {UNSET: _those(absent)}
        | {_held(n): F.when(~F.coalesce(a, F.lit(False)), column(_held(n))) for n, a in absent.items()},
    )
    values = {_held(n): F.expr(k.read(quote(_held(n)))) for n, k in kinds.items()} | {
        f"{part}_{_held(s)}": F.expr(kinds[s].read(f"{quote(part)}.{quote(s)}"))
        for s in key_sources
        for part in (_OLD, _KEYED)
    }
    sent = {f"__sent_{n}": column(_held(n)).isNotNull() for n, k in kinds.items() if k is not TEXT}
    read = computed_once(marked, values | sent | {TIME: time_of((_SOURCE_TIME, _MESSAGE_TIME))})
    keys = set(key_sources)
    unread = {
        n: column(f"__sent_{n}") & column(_held(n)).isNull() & (upsert | F.lit(n in keys))
        for n, k in kinds.items()
        if k is not TEXT
    }
    return read.withColumn("__unread", _those(unread, empty=True)).drop(*sent)


def _those(conditions: Mapping[str, Column], *, empty: bool = False) -> Column:
    """The names of the columns for which a condition holds; null where there are none, unless ``empty``."""
    nothing = F.array().cast("array<string>")
    if not conditions:
        return nothing if empty else F.lit(None).cast("array<string>")
    found = F.filter(F.array(*[F.when(c, F.lit(n)) for n, c in conditions.items()]), lambda n: n.isNotNull())
    return found if empty else F.when(F.size(found) > 0, found)


def _renamed(names: str, columns: Columns) -> Column:
    """Replace names of source columns by the table's, sorted; names that the table lacks are left out."""

    def table_name(name: Column) -> Column:
        renamed = name
        for old, new in columns.rename.items():
            renamed = F.when(name == old, F.lit(new)).otherwise(renamed)
        return renamed

    known = F.array(*[F.lit(t) for t in columns.types]).cast("array<string>")
    mapped = F.filter(F.transform(column(names), table_name), lambda n: F.array_contains(known, n))
    ordered = F.array_sort(mapped)
    return ordered if names != UNSET else F.when(F.size(ordered) > 0, ordered)


def _held(name: str) -> str:
    """A source column's name in this module's frames: prefixed where an event has a column of that name."""
    return f"__of_{name}" if name in (OP, ORDER, TIME, UNSET, *CARRIED) else name


def _of_held(conversion: Any) -> Any:
    return dataclasses.replace(conversion, source=_held(conversion.source))


def _moved(conversion: Any, part: str) -> Any:
    """The same conversion of a key column, applied to another image of the key (``__old`` or ``__key``)."""
    return dataclasses.replace(conversion, source=f"{part}_{conversion.source}")
