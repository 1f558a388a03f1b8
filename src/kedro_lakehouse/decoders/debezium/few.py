"""Few messages, decoded by this process: those of which it is known what ``DebeziumDecoder`` makes of them.

These are envelopes and flattened rows, with and without their schema: snapshots, creates, updates, deletes
and truncates, with simple values. What is anything else, or could not be accepted as it is, leaves all
messages to Spark.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import DELETE, OP, ORDER, TIME, TRUNCATE, UNSET, UPSERT
from kedro_lakehouse.changes.validate import KEY_MISMATCHED
from kedro_lakehouse.decoders.debezium.envelope import (
    CONTROL,
    OF_KIND,
    OTHER_FIELDS,
    SOURCE_FIELDS,
    TELLING,
    MessageKind,
    control_types,
    discovered,
    fields_of,
)
from kedro_lakehouse.decoders.debezium.order import POSITIONS, TIME_FIELDS
from kedro_lakehouse.decoders.debezium.plain_values import moment, text_of
from kedro_lakehouse.decoders.debezium.types import TEXT, UNDESCRIBED, Kind, cast
from kedro_lakehouse.decoders.few_rows import events_of, has_pattern, value_of
from kedro_lakehouse.decoders.lines import KEY, VALUE
from kedro_lakehouse.decoders.plain_json import NotPlainError, object_of
from kedro_lakehouse.decoders.records import BEFORE, FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kedro_lakehouse.changes.conversion import Conversion
    from kedro_lakehouse.decoders.debezium.envelope import DebeziumLayout
    from kedro_lakehouse.decoders.lines import LineShape
    from kedro_lakehouse.decoders.records import Columns

_DIGITS: Final = 38
_WRAPPED: Final = frozenset({"schema", "payload"})
_OF_ENVELOPES: Final = frozenset({"before", "after", "source", "op", *OTHER_FIELDS, *TIME_FIELDS})
"""Names that mean something else than a row's column to Spark, also in a flattened row."""
_LOG_FILE: Final = re.compile(r"(?:[^\n]*[^0-9\n])?([0-9]{1,18})")
_MICROS: Final = {"ts_us": (1, 1), "ts_ns": (1, 1000), "ts_ms": (1000, 1)}
_WIDER: Final = (
    (T.IntegerType, T.LongType),
    (T.FloatType, T.DoubleType),
    (T.IntegerType, T.DoubleType),
)
_AS_SENT: Final = replace(TEXT, here=text_of)
"""A value without a schema: Spark reads its text as it was sent."""
OPERATIONS: Final = {"c": UPSERT, "u": UPSERT, "r": UPSERT, "d": DELETE, "t": TRUNCATE}
SKIPPED: Final = MessageKind("skipped")


@dataclass(frozen=True, kw_only=True)
class Message:
    """A change, or a message that is none; ``key`` is the object in the message's key, if any.

    ``source`` has the position in the log and the commit's time, ``body`` the time of the message. A
    flattened row has only one image: ``after``.
    """

    kind: MessageKind = SKIPPED
    said: Any = None
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    key: Mapping[str, Any] = field(default_factory=dict)

    @property
    def op(self) -> str:
        """What the change is: ``upsert``, ``delete`` or ``truncate``.

        Raises:
            NotPlainError: The message names an operation that is none of ours.
        """
        if not isinstance(self.said, str) or self.said not in OPERATIONS:
            raise NotPlainError
        return OPERATIONS[self.said]

    @property
    def is_flat(self) -> bool:
        """Whether it is a flattened row."""
        return self.kind.form == "flat"


@dataclass(frozen=True, kw_only=True)
class MessageReader:
    """Reads messages of one table; a schema block that comes again is parsed once."""

    layout: DebeziumLayout
    _schemas: dict[str, str] = field(default_factory=dict)
    """Texts of schema blocks, by the beginning of the messages that they are in."""

    def messages(self, lines: pa.Table) -> Iterator[Message]:
        """The messages of lines.

        Raises:
            NotPlainError: Spark must read one of them.
        """
        for text, key in zip(lines[VALUE].to_pylist(), lines[KEY].to_pylist(), strict=True):
            yield self._message(text, key)

    def _message(self, text: str | None, key: str | None) -> Message:
        if text is None:
            return Message()
        schema, wrapped, body = self._unwrapped(text)
        is_flat = body.get("__op") is not None or body.get("__deleted") is not None
        found = _flattened(body) if is_flat else _envelope(body)
        if self._is_of_another_table(found.source) or (found.said == "m" and not is_flat):
            return Message()
        connector = text_of(found.source.get("connector") or "")
        if "|" in connector or not (connector or is_flat):
            raise NotPlainError
        digest = hashlib.sha256(schema.encode()).hexdigest() if schema is not None else ""
        kind = MessageKind("flat" if is_flat else "envelope", connector or None, wrapped, digest, schema)
        return replace(found, kind=kind, key=_key_of(key))

    def _unwrapped(self, text: str) -> tuple[str | None, bool, dict[str, Any]]:
        """The schema block, whether the message is below ``payload``, and the message."""
        for beginning, schema in self._schemas.items():
            if text.startswith(beginning) and text.endswith("}"):
                return schema, True, object_of(text[len(beginning) : -1], digits=_DIGITS)
        found = object_of(text, digits=_DIGITS)
        if not found.keys() & _WRAPPED:
            return None, False, found
        if found.keys() != _WRAPPED or not isinstance(found["payload"], dict):
            raise NotPlainError
        if found["schema"] is None:
            return None, True, found["payload"]
        # The kind of a message names its schema by the digest of the text that Spark reads, which is compact.
        block = json.dumps(json.loads(text)["schema"], ensure_ascii=False, separators=(",", ":"))
        beginning = f'{{"schema":{block},"payload":'
        if not block.startswith("{") or not text.startswith(beginning):
            raise NotPlainError
        self._schemas[beginning] = block
        return block, True, found["payload"]

    def _is_of_another_table(self, source: Mapping[str, Any]) -> bool:
        parts = list(reversed(self.layout.entity or ()))
        if parts and source.get("table") != parts[0]:
            return True
        return len(parts) > 1 and parts[1] not in (source.get("schema"), source.get("db"))


def _part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object in a message; empty where it has none."""
    found = body.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise NotPlainError
    return found


def _envelope(body: Mapping[str, Any]) -> Message:
    """A message of both images, without its kind; not a heartbeat, a statement, or what is unknown."""
    source, said = _part(body, "source"), body.get("op")
    if said is None or not source or any(name.startswith("__") for name in body):
        raise NotPlainError
    return Message(
        said=said, before=_part(body, "before"), after=_part(body, "after"), source=source, body=body
    )


def _flattened(body: Mapping[str, Any]) -> Message:
    """A row that has the fields of the source block among its own, without its kind."""
    if not body.keys().isdisjoint(_OF_ENVELOPES):
        raise NotPlainError
    source: dict[str, Any] = {}
    for name in SOURCE_FIELDS:
        told = body.get(f"__source_{name}")
        source[name] = body.get(f"__{name}") if told is None else told
    if source["connector"] is None:
        guessed = [connector for name, connector in TELLING.items() if source[name] is not None]
        if source["file"] is not None and source["pos"] is not None:
            guessed.append("mysql")
        source["connector"] = next(iter(guessed), None)
    return Message(said=_flat_operation(body), after=body, source=source)


def _flat_operation(body: Mapping[str, Any]) -> Any:
    """The operation of a flattened row, which may only say whether it was deleted."""
    deleted = body.get("__deleted")
    if deleted == "true":
        return "d"
    said = body.get("__op")
    return {"false": "u"}.get(str(deleted)) if said is None else said


def _key_of(text: str | None) -> Mapping[str, Any]:
    if text is None or "{" not in text:
        return {}
    found = object_of(text, digits=_DIGITS)
    if "payload" not in found:
        return found
    if found.keys() != _WRAPPED or not isinstance(found["payload"], dict):
        raise NotPlainError
    payload: dict[str, Any] = found["payload"]
    return payload


def shapes_of(lines: pa.Table, layout: DebeziumLayout) -> list[LineShape]:
    """The kinds of messages in each place, as ``DebeziumDecoder.discover`` finds them.

    Raises:
        NotPlainError: Spark must look.
    """
    reader, found = MessageReader(layout=layout), dict[tuple[str, MessageKind], set[str]]()
    for place, message in zip(lines[FILE].to_pylist(), reader.messages(lines), strict=True):
        names = found.setdefault((place, message.kind), set())
        if message.kind.schema is None:
            names.update(message.before, message.after, message.key)
    none: dict[str, Any] = {"old_names": [], "flat_names": [], "key_names": []}
    return [
        discovered({OF_KIND: kind.label(), "schema": kind.schema, "row_names": [names], **none}, place)
        for (place, kind), names in found.items()
    ]


@dataclass(frozen=True, kw_only=True)
class FewMessages:
    """Decodes messages of one table into events.

    ``wanted`` are, for each kind of message, the columns that the table has, and how their values are read.
    ``unavailable`` are Debezium's placeholders for values that the database did not log again.
    """

    wanted: Mapping[MessageKind, Sequence[tuple[Conversion, Kind]]]
    layout: DebeziumLayout
    columns: Columns
    keys: tuple[str, ...]
    unavailable: Sequence[str]

    @classmethod
    def of(
        cls,
        shapes: Sequence[LineShape],
        layout: DebeziumLayout,
        columns: Columns,
        keys: tuple[str, ...],
        unavailable: Sequence[str],
    ) -> FewMessages:
        """Make it for messages of these shapes.

        Raises:
            NotPlainError: Two columns of the source are one in the table.
        """
        named: dict[MessageKind, dict[str, Any]] = {}
        for shape in shapes:
            if isinstance(shape.kind, MessageKind) and shape.kind.form != "skipped":
                named.setdefault(shape.kind, {}).update(dict(shape.columns))
        wanted = {}
        for kind, names in named.items():
            kinds = _kinds_of(kind, names, columns)
            conversions = columns.conversions({name: one.type for name, one in kinds.items()})
            if len({c.name for c in conversions}) < len(conversions):
                raise NotPlainError
            wanted[kind] = [(c, kinds[c.source]) for c in conversions]
        return cls(wanted=wanted, layout=layout, columns=columns, keys=keys, unavailable=unavailable)

    def events(self, lines: pa.Table) -> pa.Table:
        """The events of lines, as ``DebeziumDecoder.decode`` gives them.

        Raises:
            NotPlainError: Spark must decode them.
        """
        from pyspark.sql.pandas.types import to_arrow_type

        if not self.layout.ordered and len({kind.connector for kind in self.wanted}) != 1:
            raise NotPlainError
        messages = list(MessageReader(layout=self.layout).messages(lines))
        changes = [message for message in messages if message.kind != SKIPPED]
        if not changes:
            raise NotPlainError
        rows = [self._event(message) for message in changes]
        # Columns without a value are added later: Spark Connect takes no struct of a geometry's fields.
        held = {name for row in rows for name, value in row.items() if value is not None}
        types = {name: kind for name, kind in self.columns.types.items() if name in held}
        types |= {
            OP: T.StringType(), TIME: T.TimestampType(), UNSET: T.ArrayType(T.StringType()),
            KEY_MISMATCHED: T.BooleanType(),
        }  # fmt: skip
        if self.keys:
            types[BEFORE] = T.StructType([T.StructField(k, self.columns.types[k]) for k in self.keys])
        if not self.layout.ordered:
            connector = str(next(iter(self.wanted)).connector)
            types[ORDER] = T.StructType([T.StructField(n, k) for n, k, _ in POSITIONS[connector]])
        values = {n: pa.array([row.get(n) for row in rows], to_arrow_type(t)) for n, t in types.items()}
        kept = pa.array([message.kind != SKIPPED for message in messages], pa.bool_())
        return events_of(lines.filter(kept), values)

    def _event(self, message: Message) -> dict[str, Any]:
        op, wanted = message.op, self.wanted[message.kind]
        texts, unset = _texts(message, op), set[str]()
        if op == UPSERT:
            unset = {n for n, text in texts.items() if n not in CONTROL and self._is_absent(text)}
        event = {
            c.name: _converted(None if c.source in unset else texts.get(c.source), kind, c)
            for c, kind in wanted
        }
        if op == TRUNCATE:
            event |= dict.fromkeys(self.keys)
        elif any(event.get(k) is None for k in self.keys) or self._misses(message, event):
            raise NotPlainError  # it goes to quarantine
        event |= {
            OP: op,
            TIME: _time(message),
            UNSET: sorted(c.name for c, _ in wanted if c.source in unset) or None,
            BEFORE: self._key_before(message, event) if op == UPSERT else None,
            KEY_MISMATCHED: False,
        }
        return event if self.layout.ordered else event | {ORDER: _order(message)}

    def _is_absent(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.unavailable

    def _keys_in(self, message: Message, image: Mapping[str, Any]) -> dict[str, Any]:
        """The key's columns as another part of the message has them."""
        return {
            c.name: _converted(image.get(c.source), kind, c)
            for c, kind in self.wanted[message.kind]
            if c.name in self.keys
        }

    def _key_before(self, message: Message, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """The row's former key, if the change gave it another one."""
        old = self._keys_in(message, message.before)
        full = {k: event.get(k) if old.get(k) is None else old[k] for k in self.keys}
        if old.keys() != set(self.keys):
            raise NotPlainError
        return full if any(full[k] != event.get(k) for k in self.keys) else None

    def _misses(self, message: Message, event: Mapping[str, Any]) -> bool:
        """Whether the message's key is another one than that of its row."""
        stated = self._keys_in(message, message.key)
        return any(value is not None and value != event.get(key) for key, value in stated.items())


def _kinds_of(kind: MessageKind, names: Mapping[str, Any], columns: Columns) -> Mapping[str, Kind]:
    """The columns of a kind of message, as ``DebeziumDecoder`` reads them."""
    own = {name: cast(of) for name, of in control_types(kind).items()}
    declared = fields_of(kind)
    if declared is not None:
        return declared | own
    # A column that the table does not have is not read.
    wanted = {name: columns.types.get(columns.name_of(name), T.NullType()) for name in names}
    return {name: UNDESCRIBED.get(type(of), own.get(name, _AS_SENT)) for name, of in wanted.items()}


def _texts(message: Message, op: str) -> dict[str, Any]:
    """The values of the row that the change is about, and of the columns that we add."""
    found: dict[str, Any] = {}
    if op == UPSERT:
        found |= message.after
    elif op == DELETE:
        image = message.after if message.is_flat else message.before
        found |= message.key
        found |= {name: value for name, value in image.items() if value is not None}
    if message.is_flat:
        return found
    if any(name in CONTROL for name in found):
        raise NotPlainError
    own = (message.said, message.source.get("ts_ms"), message.body.get("ts_ms"))
    return found | dict(zip(CONTROL, own, strict=True))


def _converted(value: Any, kind: Kind, conversion: Conversion) -> Any:
    """A value in the type of the table's column."""
    if value is None:
        return None
    if kind.here is None or (isinstance(kind.type, T.StringType) and has_pattern(conversion)):
        raise NotPlainError
    read = kind.here(value)
    if isinstance(kind.type, T.StringType):
        return value_of(read, conversion.kind)
    return read if conversion.same_type else _widened(read, kind.type, conversion.kind)


def _widened(value: Any, have: T.DataType, want: T.DataType) -> Any:
    """A value in another type that holds all values of its own."""
    if isinstance(want, T.DecimalType) and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return value_of(format(Decimal(value), "f"), want)
    if any(isinstance(have, one) and isinstance(want, other) for one, other in _WIDER):
        return value
    raise NotPlainError


def _time(message: Message) -> dt.datetime | None:
    """The commit's time, or that of the message, if either is told; see ``order.time_of``."""
    for part in (message.source, message.body):
        for name in TIME_FIELDS:
            if part.get(name) is None:
                continue
            number: int = value_of(text_of(part[name]), T.LongType())
            times, over = _MICROS[name]
            if number < 0:
                raise NotPlainError
            if micros := number * times // over:
                return moment(microseconds=micros).replace(tzinfo=dt.UTC)
    return None


def _order(message: Message) -> dict[str, Any]:
    """The position in the log; see ``order.order_of``."""
    found: dict[str, Any] = {}
    for name, kind, _ in POSITIONS.get(str(message.kind.connector), ()):
        text = text_of(message.source.get(name))
        if name == "file":
            log_file = _LOG_FILE.fullmatch(text)
            text = log_file[1] if log_file else ""
        elif name == "rs_id":
            text = text.strip(" ")
        found[name] = value_of(text, kind)
    if not found:
        raise NotPlainError
    return found
