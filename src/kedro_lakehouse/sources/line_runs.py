"""Read CSV files that follow each other as runs: a line that several have in common is parsed once."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import POSITION, column
from kedro_lakehouse.decoders.records import FILE, MALFORMED_RECORD, RecordGroup
from kedro_lakehouse.names import quote
from kedro_lakehouse.sources.files import first_lines
from kedro_lakehouse.sources.read import CORRUPT, csv_options, escaped, file_name, raw_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from kedro_lakehouse.config.sources import CsvOptions
    from kedro_lakehouse.sources.files import FileShape

_BITS: Final = 62
"""How many files a number of 64 bits tells of, its sign left alone."""
_BYTE_ORDER_MARK: Final = "\ufeff"
_SHARED: Final = 0.5
_NOT_BLANK: Final = r"[^\x00-\x20]"
"""What a line must hold to be a record, as Spark's reader of CSV has it."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


def read_runs(
    session: SparkSession, shapes: Sequence[FileShape], options: CsvOptions, *, header: bool
) -> RecordGroup | None:
    """Read CSV files as one lazy frame with a record for each run of files that have the same line.

    For example, the line ``7,a`` of the files 1, 2, 3 and 5 is two records: of the files 1 to 3, and of 5.
    A line that a file has twice is two equal records, whichever file it is.

    Schema:
        returns: source columns, ``__file`` (the first of the run), ``_position`` (file, row: null, and
            ``until``: the number of the run's last file, from 1 in the order of ``shapes``), ``_raw``,
            ``__malformed``.

    Returns:
        A group with a lazy frame; None for files that differ in columns or header, whose lines are not
        records as they stand, or that begin with other lines than the files before them.
    """
    filled = [shape for shape in shapes if shape.has_rows is not False]
    named = [shape.file.name for shape in shapes]
    plain_text = not options.multiline and options.encoding.lower() in ("utf-8", "utf8")
    if not filled or len({s.columns for s in filled}) > 1 or len(set(named)) < len(named) or not plain_text:
        return None
    begun = [first_lines(shape.file, options) for shape in filled]
    heads = {lines[0] if lines else None for lines in begun} if header else {None}
    if len(heads) > 1 or (header and None in heads) or not _share_lines(begun):
        return None
    head = heads.pop()
    lines = _grouped_lines(session, filled, named, options)
    names = [name for name, _ in filled[0].columns]
    parsed = lines.select(_runs_of(head, len(named), len(filled)), _parsed(names, options).alias("__parsed"))
    runs = parsed.select(F.explode("__runs").alias("__run"), "__parsed")
    file = F.element_at(F.array(*[F.lit(name) for name in named]), column("__run")["first"])
    values = [column("__parsed")[name].alias(name) for name in names]
    corrupt = column("__parsed")[CORRUPT]
    place = F.struct(
        file.alias("file"), F.lit(None).cast("long").alias("row"), column("__run")["until"].alias("until")
    )
    records = runs.select(
        *values,
        place.alias(POSITION),
        raw_text(corrupt, values),
        file.alias(FILE),
        corrupt.isNotNull().alias(MALFORMED_RECORD),
    )
    return RecordGroup(records=records, load=filled[0].load, columns=dict(filled[0].columns), files=named)


def _share_lines(begun: Sequence[Sequence[str]]) -> bool:
    """Whether most lines that files begin with are among those of the file before."""
    shared = sum(len(set(a) & set(b)) for a, b in pairwise(begun))
    return shared >= _SHARED * sum(len(set(lines)) for lines in begun[1:])


def _grouped_lines(
    session: SparkSession, filled: Sequence[FileShape], named: Sequence[str], options: CsvOptions
) -> DataFrame:
    """Each line that is not blank once: ``value``, ``__times``, bits of the files it is in (``__in0``)."""
    plain = all(_PLAIN_NAME.fullmatch(name) for name in named)  # else Spark encodes it for an address
    file = F.col("_metadata.file_name") if plain else file_name()
    numbers = F.create_map(*[F.lit(part) for n, name in enumerate(named) for part in (name, n)])
    reader = session.read.option("compression", options.compression) if options.compression else session.read
    lines = reader.text([escaped(s.file.path) for s in filled]).select("value", numbers[file].alias("__n"))
    n = column("__n")
    bits = [
        F.bit_or(
            F.when(
                n.between(first, first + _BITS - 1),
                F.call_function("shiftleft", F.lit(1).cast("long"), n - first),
            ).otherwise(F.lit(0).cast("long"))
        ).alias(f"__in{i}")
        for i, first in enumerate(range(0, len(named), _BITS))
    ]
    found = lines.groupBy("value").agg(F.count(F.lit(1)).alias("__times"), *bits)
    return found.where(column("value").rlike(_NOT_BLANK))


def _runs_of(head: str | None, count: int, filled: int) -> Column:
    """The runs of a line as an array of ``first`` and ``until``; null for the header that each file has once.

    A line that a file has twice is given each of its runs twice. So is a header that another line equals.
    """
    # Unrolled: Spark compiles no function over arrays, and takes ten times as long for them.
    in_file = [
        column(f"__in{i // _BITS}").bitwiseAND(F.lit(1 << i % _BITS).cast("long")) != 0 for i in range(count)
    ]
    outside = [F.lit(True), *[~is_in for is_in in in_file], F.lit(True)]
    numbers = range(1, count + 1)
    firsts = F.array_compact(F.array(*[F.when(in_file[n - 1] & outside[n - 1], n) for n in numbers]))
    untils = F.array_compact(F.array(*[F.when(in_file[n - 1] & outside[n + 1], n) for n in numbers]))
    runs = F.zip_with(firsts, untils, lambda a, b: F.struct(a.alias("first"), b.alias("until")))
    files = sum((is_in.cast("int") for is_in in in_file), F.lit(0))
    is_head = F.lit(False) if head is None else column("value").isin(head, _BYTE_ORDER_MARK + head)
    twice = (column("__times") > files) | is_head
    told = F.when(twice, F.concat(runs, runs)).otherwise(runs)
    gone = is_head & (column("__times") == filled)
    return F.when(~gone, told).alias("__runs")


def _parsed(names: Sequence[str], options: CsvOptions) -> Column:
    given = csv_options(options, header=False)
    asked = {k: v if isinstance(v, str) else str(v).lower() for k, v in given.items() if k != "header"}
    schema = ", ".join(f"{quote(name)} string" for name in [*names, CORRUPT])
    return F.from_csv(column("value"), schema, asked)
