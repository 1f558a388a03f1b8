"""JSON lines: one object per line, its values as the text that was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import POSITION, RAW, column
from kedro_lakehouse.decoders.plain_json import MARK, object_of
from kedro_lakehouse.decoders.records import FILE, MALFORMED_RECORD, Load, RecordGroup, computed_once

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

VALUE: Final = "value"
KEY: Final = "key"
CARRIED_BY_LINES: Final = (POSITION, FILE)

# Java's syntax. All groups are possessive: the expression never backtracks, and needs no stack.
_FRACTIONS: Final = (
    r"\G((?:[^\"0-9-]++|\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|-?\d++(?![\d.eE]))*+)"
    r"(-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+)"
)
_MAYBE: Final = "[0-9][.eE]"
_NUMBERS: Final = _FRACTIONS.replace(r"|-?\d++(?![\d.eE])", "")
_LINE: Final = "__line"
_MESSAGE_FIELDS: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
STRICT: Final = {"allowNonNumericNumbers": "false"}


@dataclass(frozen=True, kw_only=True)
class LineShape:
    """What some of the lines of one place (a file, a topic) hold.

    ``kind`` is for the reader's own use; ``has_rows`` is false where the lines hold no change and no row.
    ``described``: ``columns`` have the types that schemas tell; the values are texts, and bytes are base64.
    """

    place: str
    columns: tuple[tuple[str, T.DataType], ...]
    self_describing: bool = False
    described: bool = False
    has_rows: bool = True
    kind: Hashable = None


class LineReader(Protocol):
    """Turns lines into groups of records; decoders of JSON formats implement this as well.

    Lines are a frame of ``value`` (string, null for a tombstone), ``key`` (string or null), ``_position``
    and ``__file``, wherever they come from: a folder of files or a batch of a topic.
    """

    def discover(self, lines: DataFrame, layout: Any) -> list[LineShape]:
        """Find the shapes of the lines: one Spark job, whose result grows with the shapes, not the lines."""

    def unwrap(
        self, lines: DataFrame, shapes: Sequence[LineShape], layout: Any, *, load: Load
    ) -> list[RecordGroup]:
        """Group the lines into records of one shape each; lines that hold no row are left out.

        Returns:
            Groups of lazy frames: calling this function starts no Spark job.
        """


@runtime_checkable
class ReadsFewLines(Protocol):
    """A reader of lines that can look at a few without Spark; a reader need not have this."""

    def discover_few(self, lines: pa.Table, layout: Any) -> list[LineShape]:
        """Find the shapes that ``discover`` finds, in lines that are here.

        Raises:
            NotPlainError: Spark must look.
        """


def exact(text: Column) -> Column:
    """JSON text in which numbers with a fraction or an exponent are marked strings: no digit gets lost.

    For example, ``{"a": 1.50, "b": 2}`` becomes ``{"a": "<MARK>1.50", "b": 2}``. Text in which no digit is
    followed by a point or an exponent has no such number, which is found in a third of the time.
    """
    return F.when(text.rlike(_MAYBE), F.regexp_replace(text, _FRACTIONS, f'$1"{MARK}$2"')).otherwise(text)


def all_numbers(text: Column) -> Column:
    """JSON text in which every number is a marked string: so numbers can be distinguished from strings."""
    return F.regexp_replace(text, _NUMBERS, f'$1"{MARK}$2"')


def plain(value: Column) -> Column:
    """A value of ``exact`` text as it was sent: its marks are removed, also those inside nested values."""
    return (
        F.when(value.startswith(MARK), value.substr(len(MARK) + 1, 1_000_000))
        .when(value.contains(MARK), restored(value))
        .otherwise(value)
    )


def restored(text: Column) -> Column:
    """JSON text whose marked strings are numbers again."""
    return F.regexp_replace(text, f'"{MARK}([^"]*)"', "$1")


def parsed(text: Column, kind: T.DataType) -> Column:
    """One JSON object read as a map or struct; null where the text is anything but one object."""
    # Read within an array, Spark also notices text that follows the object.
    items = F.from_json(F.concat(F.lit("["), text, F.lit(",null]")), T.ArrayType(kind), STRICT)
    return F.when(F.size(items) == 2, F.get(items, F.lit(0)))  # noqa: PLR2004 - the object and the null


def split_keyed(lines: DataFrame) -> DataFrame:
    """Split lines that hold a message as {"key": ..., "value": ...} into its key and its value."""
    fields = parsed(exact(column(VALUE)), TEXTS)
    names = F.map_keys(fields)
    keyed = F.array_contains(names, "value") & (
        F.size(F.array_except(names, F.array(*map(F.lit, _MESSAGE_FIELDS)))) == 0
    )
    likely = column(VALUE).rlike(r'^\s*\{\s*"(?:' + "|".join(_MESSAGE_FIELDS) + r')"\s*:')
    split = computed_once(lines, {"__fields": F.when(likely & keyed, fields)})
    whole = column("__fields").isNull()
    return split.select(
        F.when(whole, column(VALUE)).otherwise(plain(column("__fields")["value"])).alias(VALUE),
        F.when(whole, column(KEY)).otherwise(plain(column("__fields")["key"])).alias(KEY),
        *[column(c) for c in CARRIED_BY_LINES],
        column(VALUE).alias(_LINE),
    )


def original(lines: DataFrame) -> list[Column]:
    """The raw record, as a list of one column: the whole line where it held more than the value."""
    return [column(_LINE if _LINE in lines.columns else VALUE).alias(RAW)]


TEXTS: Final = T.MapType(T.StringType(), T.StringType())


def text_struct(names: Iterable[str]) -> T.StructType:
    """A struct of strings."""
    return T.StructType([T.StructField(n, T.StringType()) for n in names])


def names_of(key_sets: Iterable[Iterable[str]]) -> list[str]:
    """The union of names, sorted."""
    return sorted({n for names in key_sets for n in names})


def texts(names: Iterable[str]) -> tuple[tuple[str, T.DataType], ...]:
    """Columns of text."""
    return tuple((n, T.StringType()) for n in names)


class RowLines:
    """Reads plain rows: each line is an object, each of its fields a column of text."""

    def discover(self, lines: DataFrame, layout: Any = None) -> list[LineShape]:
        """Find the names of the fields in each file, with Spark: no file is read by a single process."""
        del layout
        fields = parsed(column(VALUE), TEXTS)
        found = lines.groupBy(FILE).agg(
            F.collect_set(F.array_distinct(F.array_sort(F.map_keys(fields)))).alias("names")
        )
        return [LineShape(place=row[FILE], columns=texts(names_of(row["names"]))) for row in found.collect()]

    def discover_few(self, lines: pa.Table, layout: Any = None) -> list[LineShape]:
        """Find the names of the fields in each place, without Spark."""
        del layout
        names: dict[str, set[str]] = {}
        for place, text in zip(lines[FILE].to_pylist(), lines[VALUE].to_pylist(), strict=True):
            names.setdefault(place, set()).update(object_of(text))
        return [LineShape(place=place, columns=texts(names_of([found]))) for place, found in names.items()]

    def names(self, lines: DataFrame) -> dict[str, set[str]]:
        """The names of fields in each place, found without reading values: less work than ``discover``.

        Some may be no fields: a broken line can begin like an object, and its names are found all the same.
        """
        keys = F.array_sort(F.json_object_keys(column(VALUE)))
        found = lines.groupBy(FILE).agg(F.collect_set(keys).alias("names"))
        return {row[FILE]: set(names_of(row["names"])) for row in found.collect()}

    def unwrap(
        self, lines: DataFrame, shapes: Sequence[LineShape], layout: Any, *, load: Load
    ) -> list[RecordGroup]:
        """One group of all rows: a field that a line lacks is null."""
        del layout
        names = names_of([n for n, _ in s.columns] for s in shapes)
        fields = parsed(exact(column(VALUE)), text_struct(names or ["__none"]))
        row = computed_once(lines, {"__row": fields})
        records = row.select(
            *[plain(column("__row")[n]).alias(n) for n in names],
            *[column(c) for c in CARRIED_BY_LINES],
            *original(lines),
            column("__row").isNull().alias(MALFORMED_RECORD),
        )
        columns = dict(texts(names))
        return [RecordGroup(records=records, load=load, columns=columns, files=[s.place for s in shapes])]
