"""Types of Debezium and Kafka Connect: the Spark type of each, and how its JSON text is read.

A reader builds SQL over the text of a value. It is SQL because readers are used inside the lambdas of arrays
and maps as well, and because ``try_cast`` exists in the SQL of every supported Spark version. Beside it
stands the reader of few messages (``plain_values``), which must give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import types as T

from kedro_lakehouse.decoders.debezium import plain_values
from kedro_lakehouse.decoders.plain_json import MARK
from kedro_lakehouse.names import quote

Reader = Callable[[str], str]
_LARGEST: Final = 38
_EPOCH_DATE: Final = "date'1970-01-01'"
_MAX_MILLIS: Final = 9_223_372_036_854_775
_ZERO: Final = "cast(0 as decimal(38,0))"
_ONE: Final = "cast(1 as decimal(38,0))"
_CHUNK: Final = "cast(4294967296 as decimal(38,0))"
_DIGITS: Final = 18
_LIMBS: Final = 5
_LIMB: Final = "cast(1000000000000000000 as decimal(38,0))"


@dataclass(frozen=True)
class Kind:
    """A column's Spark type, and the SQL that reads it from the text of a JSON value.

    ``marked``: the reader needs text in which every number is marked (``lines.all_numbers``). ``here`` reads
    a value without Spark; None where only Spark does.
    """

    type: T.DataType
    read: Reader
    marked: bool = False
    here: plain_values.PlainReader | None = None


TEXT: Final = Kind(T.StringType(), lambda x: x, here=plain_values.string)


def cast(kind: T.DataType) -> Kind:
    """A simple type: the text is cast."""
    return Kind(kind, lambda x: f"try_cast({x} as {kind.simpleString()})", here=plain_values.simple(kind))


def _long(x: str) -> str:
    return f"try_cast({x} as bigint)"


def _millis(x: str) -> str:
    n = _long(x)
    return f"if({n} between -{_MAX_MILLIS} and {_MAX_MILLIS}, timestamp_millis({n}), null)"


def _zoneless(instant: Reader, units: int) -> Kind:
    """A local time as the number of units since 1970, of which a second has so many."""
    here = plain_values.local_time(units)
    return Kind(T.TimestampNTZType(), lambda x: f"cast({instant(x)} as timestamp_ntz)", here=here)


def _time_of_day(unit: int) -> Kind:
    """Text as 18:00:22.5: Spark has no time of day. MySQL's times may be negative, and longer than a day."""

    def read(x: str) -> str:
        n, digits = f"abs({_long(x)})", len(str(unit)) - 1
        whole = f"{n} div {unit}"
        clock = f"format_string('%02d:%02d:%02d', {whole} div 3600, {whole} div 60 % 60, {whole} % 60)"
        part = f"regexp_replace(format_string('%0{digits}d', {n} % {unit}), '0+$', '')"
        sign = f"if({_long(x)} < 0, '-', '')"
        fraction = f"if({n} % {unit} = 0, '', concat('.', {part}))"
        return f"if({_long(x)} is null, null, concat({sign}, {clock}, {fraction}))"

    return Kind(T.StringType(), read, here=plain_values.time_of_day(unit))


_BINARY: Final = Kind(T.BinaryType(), lambda x: f"try_to_binary({x}, 'base64')", here=plain_values.binary)
_DATE: Final = Kind(
    T.DateType(), lambda x: f"date_add({_EPOCH_DATE}, try_cast({x} as int))", here=plain_values.date
)
_NTZ_TEXT: Final = Kind(
    T.TimestampNTZType(),
    lambda x: f"try_cast(regexp_replace({x}, 'Z$', '') as timestamp_ntz)",
    here=plain_values.iso(T.TimestampNTZType()),
)

_DAYS: Final = Kind(
    T.DateType(),
    lambda x: f"if({x} rlike '^-?[0-9]+$', {_DATE.read(x)}, try_cast({x} as date))",
    here=plain_values.date_of_any,
)

PLAIN: Final[Mapping[str, Kind]] = {
    "int8": cast(T.IntegerType()),
    "int16": cast(T.IntegerType()),
    "int32": cast(T.IntegerType()),
    "int64": cast(T.LongType()),
    "float": cast(T.FloatType()),
    "float32": cast(T.FloatType()),
    "double": cast(T.DoubleType()),
    "float64": cast(T.DoubleType()),
    "boolean": cast(T.BooleanType()),
    "string": TEXT,
    "bytes": _BINARY,
}
"""Kafka Connect's own types, by their names in a JSON schema."""

SEMANTIC: Final[Mapping[str, Kind]] = {
    "io.debezium.time.Date": _DATE,
    "io.debezium.time.Time": _time_of_day(1_000),
    "io.debezium.time.MicroTime": _time_of_day(1_000_000),
    "io.debezium.time.NanoTime": _time_of_day(1_000_000_000),
    "io.debezium.time.Timestamp": _zoneless(_millis, 1_000),
    "io.debezium.time.MicroTimestamp": _zoneless(lambda x: f"timestamp_micros({_long(x)})", 1_000_000),
    "io.debezium.time.NanoTimestamp": _zoneless(
        lambda x: f"timestamp_micros(cast(floor({_long(x)} / 1000bd) as bigint))", 1_000_000_000
    ),
    "io.debezium.time.ZonedTimestamp": cast(T.TimestampType()),
    "io.debezium.time.IsoDate": Kind(
        T.DateType(),
        lambda x: f"try_cast(regexp_replace({x}, 'Z$', '') as date)",
        here=plain_values.iso(T.DateType()),
    ),
    "io.debezium.time.IsoTimestamp": _NTZ_TEXT,
    "io.debezium.data.Bits": _BINARY,
    "org.apache.kafka.connect.data.Date": _DATE,
    "org.apache.kafka.connect.data.Time": _time_of_day(1_000),
    "org.apache.kafka.connect.data.Timestamp": _zoneless(_millis, 1_000),
}
"""Logical types by the name of their schema, where neither its parameters nor its fields matter.

Others, such as Uuid, Json, Enum, Year and NanoDuration, are read as the plain type that they are sent as.
"""

UNDESCRIBED: Final[Mapping[type[T.DataType], Kind]] = {T.BinaryType: _BINARY, T.DateType: _DAYS}
"""Kinds without a schema, by a column's type: a cast would misread days since 1970 and base64."""

_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"


def kind_of(schema: Mapping[str, Any]) -> Kind:  # noqa: PLR0911 - a table of cases
    """The kind of a field, by its schema as Kafka Connect's JSON converter writes it."""
    name, plain = schema.get("name"), str(schema.get("type"))
    if name == _DECIMAL:
        return _decimal(schema.get("parameters") or {})
    if name == _VARIABLE:
        return Kind(T.StringType(), _variable_scale, here=plain_values.variable_scale)
    if name in SEMANTIC:
        return SEMANTIC[str(name)]
    if plain == "struct":
        return _struct(schema.get("fields") or [])
    if plain == "array":
        return _array(kind_of(schema.get("items") or {}))
    if plain == "map" and (schema.get("keys") or {}).get("type") == "string":
        return _map(kind_of(schema.get("values") or {}))
    # A map whose keys are not strings is sent as a list of pairs: it stays text.
    return PLAIN.get(plain, TEXT)


def _struct(fields: list[Mapping[str, Any]]) -> Kind:
    kinds = {str(f.get("field")): kind_of(f) for f in fields}
    if not kinds:
        return TEXT
    marked = any(k.marked for k in kinds.values())
    wire = "struct<" + ", ".join(f"{quote(n)}: string" for n in kinds) + ">"

    def read(x: str) -> str:
        parts = ", ".join(
            f"'{_escaped(n)}', {_part(k, f's.{quote(n)}', marked=marked)}" for n, k in kinds.items()
        )
        return _let("s", f"from_json({x}, '{_escaped(wire)}')", f"if(s is null, null, named_struct({parts}))")

    return Kind(T.StructType([T.StructField(n, k.type) for n, k in kinds.items()]), read, marked)


def _part(kind: Kind, x: str, *, marked: bool) -> str:
    """Read a field of a struct; a field that needs no marks, beside one that does, is read without them."""
    if marked and not kind.marked:
        whole = f"""regexp_replace({x}, '"{MARK}([^"]*)"', '$1')"""
        return kind.read(f"regexp_replace({whole}, '^{MARK}', '')")
    return kind.read(x)


def _array(item: Kind) -> Kind:
    return Kind(
        T.ArrayType(item.type),
        lambda x: f"transform(from_json({x}, 'array<string>'), i -> {item.read('i')})",
        item.marked,
    )


def _map(value: Kind) -> Kind:
    return Kind(
        T.MapType(T.StringType(), value.type),
        lambda x: f"transform_values(from_json({x}, 'map<string,string>'), (k, v) -> {value.read('v')})",
        value.marked,
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _let(name: str, value: str, body: str) -> str:
    """SQL that computes ``value`` once and gives it a name, under which ``body`` uses it."""
    return f"transform(array({value}), {name} -> {body})[0]"


def _decimal(parameters: Mapping[str, Any]) -> Kind:
    """decimal(precision, scale) where Spark has it, else the exact number as text.

    Kafka Connect's converter writes base64 of the digits, or with ``decimal.format=NUMERIC`` a JSON number.
    """
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", _LARGEST))
    if not 0 <= scale <= precision <= _LARGEST:
        return Kind(
            T.StringType(),
            lambda x: _number_or(x, _let("b", _hex(x), _text("b", str(scale)))),
            marked=True,
            here=plain_values.digits_of(scale),
        )
    kind = T.DecimalType(precision, scale)

    def read(x: str) -> str:
        # The number as text, such as 12345E-2: no arithmetic that could round.
        sign = f"if({_negative('b')}, '-', '')"
        units = f"concat({sign}, cast({_small('b')} as string), 'E-{scale}')"
        packed = _let("b", _hex(x), f"try_cast({units} as {kind.simpleString()})")
        return _number_or(x, packed, kind.simpleString())

    return Kind(kind, read, marked=True, here=plain_values.decimal(precision, scale))


def _number_or(x: str, packed: str, kind: str = "string") -> str:
    """SQL for a value that is a JSON number, or else what ``packed`` reads."""
    return f"if(startswith({x}, '{MARK}'), try_cast(substring({x}, {len(MARK) + 1}) as {kind}), {packed})"


def _hex(x: str) -> str:
    """The bytes of a number (two's complement, the highest byte first, in base64) as hex digits."""
    return f"hex(try_to_binary({x}, 'base64'))"


def _negative(b: str) -> str:
    """Whether the highest bit of hex digits is set."""
    return f"substring({b}, 1, 1) >= '8'"


def _magnitude(b: str, chunks: int) -> str:
    """The hex digits of a two's complement number, extended to ``chunks`` groups of 8 digits.

    A negative number n has its bits flipped, which gives -(n + 1). Null where the digits do not fit.
    """
    padded = f"lpad({b}, {chunks * 8}, if({_negative(b)}, 'F', '0'))"
    flipped = f"translate({padded}, '0123456789ABCDEF', 'FEDCBA9876543210')"
    fits = f"length({b}) between 1 and {chunks * 8}"
    return f"if({fits}, if({_negative(b)}, {flipped}, {padded}), null)"


def _chunk(digits: str, number: str) -> str:
    """The value of one group of 8 hex digits, which are 32 bits; group 0 is the highest."""
    return f"cast(conv(substring({digits}, {number} * 8 + 1, 8), 16, 10) as decimal(38,0))"


def _small(b: str) -> str:
    """A number of up to 16 bytes without its sign, as decimal(38,0); null where it has more digits.

    Spark's minus would round it to 34 digits. The four chunks of 32 bits are added up, from the highest on:
    total = total * 2^32 + chunk.
    """
    step = f"try_add(try_multiply(a, {_CHUNK}), {_chunk('h', 'i')})"
    total = f"aggregate(sequence(0, 3), {_ZERO}, (a, i) -> cast({step} as decimal(38,0)))"
    whole = f"if({_negative(b)}, cast(try_add(t, {_ONE}) as decimal(38,0)), t)"
    return _let("h", _magnitude(b, 4), f"if(h is null, null, {_let('t', total, whole)})")


def _digits(b: str) -> str:
    """All decimal digits of a number of up to 36 bytes, without its sign and with leading zeros.

    No type of Spark holds so large a number. So it is an array of five limbs of 18 decimal digits, the
    lowest limb first: the number 3 * 10^18 + 7 is [7, 3, 0, 0, 0]. The nine chunks of 32 bits are added up
    from the highest on: limbs = limbs * 2^32 + chunk. A negative number needs one more (see ``_magnitude``).
    """

    def fold(limbs: str, factor: str, start: str) -> str:
        """SQL for limbs * factor + start; ``c`` carries from limb to limb, ``d`` collects the new limbs."""
        sum_ = f"cast(l * {factor} + s.c as decimal(38,0))"
        step = (
            f"named_struct('c', cast({sum_} div {_LIMB} as decimal(38,0)), "
            f"'d', concat(s.d, array(cast({sum_} % {_LIMB} as decimal(38,0)))))"
        )
        none = f"named_struct('c', {start}, 'd', cast(array() as array<decimal(38,0)>))"
        return f"aggregate({limbs}, {none}, (s, l) -> {step}, s -> s.d)"

    zeros = f"array_repeat({_ZERO}, {_LIMBS})"
    total = f"aggregate(sequence(0, 8), {zeros}, (a, i) -> {fold('a', _CHUNK, _chunk('h', 'i'))})"
    whole = _let("t", total, f"if({_negative(b)}, {fold('t', _ONE, _ONE)}, t)")
    text = f"array_join(transform(reverse({whole}), l -> lpad(cast(l as string), {_DIGITS}, '0')), '')"
    return _let("h", _magnitude(b, 9), f"if(h is null, null, {text})")


def _text(b: str, scale: str) -> str:
    """A number as plain text: sign, digits, and the point where the scale says."""
    shifted = f"concat(d, repeat('0', greatest(-({scale}), 0)))"
    padded = f"lpad({shifted}, greatest(length({shifted}), {scale} + 1), '0')"
    places = f"greatest({scale}, 0)"
    before = f"regexp_replace(substring(p, 1, length(p) - {places}), '^0+', '')"
    number = f"concat(if({before} = '', '0', {before}), if({places} = 0, '', '.'), right(p, {places}))"
    signed = f"concat(if({_negative(b)}, '-', ''), {number})"
    return _let("d", _digits(b), f"if(d is null, null, {_let('p', padded, signed)})")


def _variable_scale(x: str) -> str:
    """Each value has a scale of its own, so that no decimal type holds them all: exact text."""
    body = f"{_let('b', _hex('v.`value`'), _text('b', 'cast(v.scale as int)'))}"
    return _let(
        "v", f"from_json({x}, 'struct<scale: string, `value`: string>')", f"if(v is null, null, {body})"
    )
