"""Read landed files as raw records: source columns, and the position of each record in its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import sql_type
from kedro_lakehouse.changes.events import POSITION, RAW, column
from kedro_lakehouse.decoders.lines import KEY, STRICT, VALUE, exact, restored
from kedro_lakehouse.decoders.records import FILE, MALFORMED_RECORD, RecordGroup
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from kedro_lakehouse.config.sources import CsvOptions
    from kedro_lakehouse.sources.files import FileShape, LandedFile, Load

CORRUPT: Final = "__corrupt"
"""Column with the text of a malformed line of CSV; null for any other."""
_BYTE_ORDER_MARK: Final = "\ufeff"
_LONGEST: Final = 2**31 - 1
_ITEMS: Final = T.ArrayType(T.ArrayType(T.StringType()))


def read_groups(  # noqa: PLR0913 - what a source says of its files
    session: SparkSession,
    shapes: Sequence[FileShape],
    *,
    file_format: str,
    options: Mapping[Load, CsvOptions],
    headers: Mapping[Load, bool],
    numbered: bool = True,
) -> list[RecordGroup]:
    """Read files as one lazy frame for each shape among them; files known to hold no rows are left out.

    To number the lines of CSV files Spark sorts them. If they are not ``numbered``, their position has no
    row, but what ``number_lines`` needs to find it.

    Returns:
        Groups of lazy frames: calling this function starts no Spark job.
    """
    grouped: dict[tuple[Load, tuple[tuple[str, T.DataType], ...], frozenset[str]], list[FileShape]] = {}
    for shape in shapes:
        if shape.has_rows is not False:
            grouped.setdefault((shape.load, shape.columns, shape.nanoseconds), []).append(shape)
    groups = []
    for (load, columns, nanoseconds), members in grouped.items():
        paths = [escaped(m.file.path) for m in members]
        schema = T.StructType([T.StructField(n, t) for n, t in columns])
        records = (
            _parquet(session, paths, schema, nanoseconds)
            if file_format == "parquet"
            else _csv(session, paths, schema, options[load], header=headers[load], numbered=numbered)
        )
        groups.append(
            RecordGroup(
                records=records, load=load, columns=dict(columns), files=[m.file.name for m in members]
            )
        )
    return groups


def read_lines(session: SparkSession, files: Sequence[LandedFile], *, arrays: bool = False) -> DataFrame:
    """Read text files as lazy lines; blank lines are left out, but count in the line numbers.

    Args:
        session: Reads the files.
        files: What is read.
        arrays: Whether each file is one JSON array: its items are the lines then.

    Schema:
        returns: ``value``, ``key`` (null), ``_position`` (file, line), ``__file``.
    """
    if arrays:
        return _items(session, files)
    lines = session.read.text([escaped(f.path) for f in files]).select(VALUE, *_place())
    unmarked = F.when(column(VALUE).startswith(_BYTE_ORDER_MARK), F.ltrim(F.substring(VALUE, 2, _LONGEST)))
    return lines.select(
        F.coalesce(unmarked, column(VALUE)).alias(VALUE),
        F.lit(None).cast("string").alias(KEY),
        F.struct(column(FILE).alias("file"), _line().alias("row")).alias(POSITION),
        column(FILE),
    ).where(F.trim(column(VALUE)) != "")


def _items(session: SparkSession, files: Sequence[LandedFile]) -> DataFrame:
    """The items of files that are one JSON array each; what is no array is one item, as it stands.

    A file that was cut off is no array: its text is then set aside as a malformed record.
    """
    whole = session.read.text([escaped(f.path) for f in files], wholetext=True)
    text = F.regexp_replace(VALUE, f"^{_BYTE_ORDER_MARK}", "")
    # Read with its numbers as texts, no digit of an item gets lost; ``null`` tells that the text ended there.
    items = F.from_json(F.concat(F.lit("["), exact(text), F.lit(",null]")), _ITEMS, STRICT)
    found = F.when(F.size(items) == 2, F.get(items, F.lit(0)))  # noqa: PLR2004 - the array and the null
    held = whole.select(
        F.coalesce(F.transform(found, restored), F.array(text)).alias("__items"), file_name().alias(FILE)
    )
    placed = held.select(FILE, F.posexplode("__items").alias("__at", VALUE))
    return placed.select(
        column(VALUE),
        F.lit(None).cast("string").alias(KEY),
        F.struct(column(FILE).alias("file"), (column("__at") + 1).cast("long").alias("row")).alias(POSITION),
        column(FILE),
    ).where(F.trim(column(VALUE)) != "")


def escaped(path: str) -> str:
    """A path that Hadoop takes literally: its glob characters are escaped."""
    return "".join("\\" + c if c in "\\[]{}*?," else c for c in path.removeprefix("file://"))


def _place() -> list[Column]:
    return [
        F.col("_metadata.file_path").alias("__path"),
        F.col("_metadata.file_block_start").alias("__block"),
        F.monotonically_increasing_id().alias("__id"),
        file_name().alias(FILE),
    ]


def file_name() -> Column:
    """The file's own name, as it was listed: Spark gives it encoded for an address (``with%20blank``)."""
    # ``url_decode`` would also change a plus into a blank, as in forms: so each plus is encoded first.
    return F.url_decode(F.regexp_replace("_metadata.file_name", r"\+", "%2B"))


def _line() -> Column:
    """The number of a line in its file: text has no row index, so lines are numbered on the scan itself."""
    return F.row_number().over(Window.partitionBy("__path").orderBy("__block", "__id")).cast("long")


def _position(row: Column) -> Column:
    return F.struct(file_name().alias("file"), row.cast("long").alias("row"))


def _parquet(
    session: SparkSession, paths: list[str], schema: T.StructType, nanoseconds: Collection[str]
) -> DataFrame:
    stored = [T.StructField(f.name, T.LongType()) if f.name in nanoseconds else f for f in schema.fields]
    frame = session.read.schema(T.StructType(stored)).parquet(*paths)
    names = [
        _cut_to_microseconds(f).alias(f.name) if f.name in nanoseconds else column(f.name)
        for f in schema.fields
    ]
    return frame.select(
        *names,
        _position(F.col("_metadata.row_index") + 1).alias(POSITION),
        F.to_json(F.struct(*names), {"ignoreNullFields": "false"}).alias(RAW),
        file_name().alias(FILE),
        F.lit(False).alias(MALFORMED_RECORD),
    )


def _cut_to_microseconds(field: T.StructField) -> Column:
    """The time of a count of nanoseconds, rounded down."""
    count = quote(field.name)
    whole = f"{count} div 1000 - if({count} % 1000 < 0, 1, 0)"
    return F.expr(f"CAST(timestamp_micros({whole}) AS {sql_type(field.dataType)})")


def number_lines(rows: DataFrame, among: DataFrame) -> DataFrame:
    """Give rows that were read without numbers the numbers of their lines.

    Schema:
        among: all rows of these files, from the same reading as ``rows``: a second one may split the files
            into other blocks.
    """
    position = column(POSITION)
    if "id" not in rows.schema[POSITION].dataType.fieldNames():  # type: ignore[attr-defined]
        return rows
    block = (position["file"].alias("__named"), position["block"].alias("__block"))
    # Within a block of a file, Spark gives one line after the other the next id.
    blocks = among.groupBy(*block).agg(
        F.count(F.lit(1)).alias("__lines"), F.min(position["id"]).alias("__first")
    )
    earlier = Window.partitionBy("__named").orderBy("__block").rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum("__lines").over(earlier), F.lit(0))
    known = blocks.select("__named", "__block", (column("__first") - before).alias("__zero"))
    same = (position["file"] == column("__named")) & (position["block"] == column("__block"))
    row = position["id"] - column("__zero") + 1
    placed = F.struct(position["file"].alias("file"), row.alias("row"))
    return (
        rows.join(F.broadcast(known), same)
        .withColumn(POSITION, placed)
        .select(*[column(c) for c in rows.columns])
    )


def _csv(  # noqa: PLR0913 - what a source says of its files
    session: SparkSession,
    paths: list[str],
    schema: T.StructType,
    options: CsvOptions,
    *,
    header: bool,
    numbered: bool,
) -> DataFrame:
    names = [column(name) for name in schema.fieldNames()]
    row = _line() if numbered else F.lit(None).cast("long")
    block = [] if numbered else [column("__block").alias("block"), column("__id").alias("id")]
    return (
        session.read.schema(schema.add(CORRUPT, T.StringType()))
        .options(**csv_options(options, header=header))
        .csv(paths)
        .select(*names, column(CORRUPT), *_place())
        .select(
            *names,
            F.struct(column(FILE).alias("file"), row.alias("row"), *block).alias(POSITION),
            raw_text(column(CORRUPT), names),
            column(FILE),
            column(CORRUPT).isNotNull().alias(MALFORMED_RECORD),
        )
    )


def csv_options(options: CsvOptions, *, header: bool) -> dict[str, bool | str]:
    """How Spark is to read CSV."""
    given: dict[str, bool | str] = {
        "header": header,
        "sep": options.delimiter,
        "quote": options.quote,
        "escape": options.quote or "\\",
        "nullValue": options.null_value,
        "emptyValue": "",
        "encoding": options.encoding,
        "multiLine": options.multiline,
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT,
        "enforceSchema": True,
        # If it pruned columns, Spark would not notice a line with too few or too many values.
        "columnPruning": False,
    }
    if options.compression:
        given["compression"] = options.compression
    return given


def raw_text(corrupt: Column, names: Sequence[Column]) -> Column:
    """The text of a record: the line if it is malformed, else its values as JSON."""
    values = F.to_json(F.struct(*names), {"ignoreNullFields": "false"})
    return F.coalesce(corrupt, values).alias(RAW)
