"""Derived tables: the result of a query over current tables is an extract, named by the snapshots it read."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import POSITION, RAW, columns
from kedro_lakehouse.config.sources import CsvOptions, SourceConfig
from kedro_lakehouse.decoders.records import FILE, MALFORMED_RECORD, RecordGroup
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.ingestion.planner import Planner
from kedro_lakehouse.ingestion.reading import FileReader
from kedro_lakehouse.names import TableName, is_reserved_column, quote
from kedro_lakehouse.session.query import first_line, mistake_in
from kedro_lakehouse.sources.extract import refuse_unfit
from kedro_lakehouse.sources.files import FileShape, LandedFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.tables import DeriveConfig
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.extract import ExtractOrder
    from kedro_lakehouse.sources.files import Load

logger = logging.getLogger(__name__)

_PREFIX: Final = "derived:"


def set_of(snapshots: Mapping[str, int]) -> str:
    """Name a set of input snapshots.

    Example:
        >>> set_of({"m": 11, "a": 7})
        'derived:m@11,a@7'
    """
    return _PREFIX + ",".join(f"{alias}@{snapshot}" for alias, snapshot in snapshots.items())


def snapshots_of(name: str) -> dict[str, int]:
    """Read the snapshot of each input from the name of a set of input snapshots.

    Example:
        >>> snapshots_of("derived:m@11,a@7")
        {'m': 11, 'a': 7}
    """
    pairs = (part.partition("@") for part in name.removeprefix(_PREFIX).split(","))
    return {alias: int(snapshot) for alias, _, snapshot in pairs}


def statement_over(inputs: Mapping[str, str], query: str) -> str:
    """Combine a derived table's query with a SELECT for each of its inputs into one SQL statement."""
    given = ", ".join(f"{quote(alias)} AS ({select})" for alias, select in inputs.items())
    # The line break closes a SQL comment at the end of the query.
    return f"WITH {given} SELECT * FROM (\n{query.strip().rstrip(';')}\n)"  # noqa: S608 - the user's own SQL


class DerivedSource:
    """The inputs of a derived table, as a source whose only file is the newest set of input snapshots."""

    config_model: ClassVar[type[SourceConfig]] = SourceConfig
    gives: ClassVar[Literal["changes", "extracts", "ranges"]] = "extracts"

    def __init__(self, table: LakeTable, derive: DeriveConfig) -> None:
        """Bind the inputs; none of them is read yet."""
        self._table = table
        self.inputs = {alias: table.bind(TableName.parse(text)) for alias, text in derive.inputs.items()}

    def files(self) -> list[LandedFile]:
        """The newest set of input snapshots; none as long as one of the inputs has none, or is held."""
        found: dict[str, int] = {}
        times: list[int] = []
        for alias, table in self.inputs.items():
            state = table.state("current")
            if state is None or state.snapshot_id is None or state.snapshot_time is None:
                logger.info("%s waits: its input %s holds nothing yet", self._table, table)
                return []
            if state.is_held:  # its snapshot is an older one than was derived from
                logger.warning("%s waits: its input %s is held since its rollback", self._table, table)
                return []
            found[alias] = state.snapshot_id
            times.append(state.snapshot_time)
        return [LandedFile(set_of(found), 0, max(times))]

    def still_there(self, file: LandedFile) -> bool:
        """Whether every input can still be read at its snapshot in a set."""
        snapshots = snapshots_of(file.path)
        return snapshots.keys() == self.inputs.keys() and all(
            table.format.holds_snapshot(table.name, snapshots[alias]) for alias, table in self.inputs.items()
        )

    def order_of(self, file: LandedFile) -> ExtractOrder:
        """The time of the latest input snapshot, and the name of the set."""
        return datetime.fromtimestamp(file.modified / 1000, UTC), file.name

    def load_of(self, file: LandedFile) -> Load:  # noqa: ARG002 - every result is one
        """A full load: every result is the whole table."""
        return "full_load"

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """Only the defaults, because no file is read."""
        return dict.fromkeys(("full_load", "changes"), CsvOptions())

    @property
    def headers(self) -> Mapping[Load, bool]:
        """Empty, because no file is read."""
        return {}

    @property
    def unnamed_columns(self) -> Mapping[Load, Sequence[str]]:
        """Empty, because a query names its columns."""
        return {}

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:  # noqa: ARG002
        """Empty, because every column of the result is a value."""
        return frozenset()


class DerivedPlanner(Planner):
    """Plans a derived table's batches: each is the result of its query over one set of input snapshots."""

    def __init__(self, table: LakeTable, derive: DeriveConfig) -> None:
        """Refuse a declaration that does not fit extracts; no input is read yet."""
        self._inputs = DerivedSource(table, derive)
        super().__init__(table, self._inputs, QueryReader(table, self._inputs, derive.sql))
        refuse_unfit(table.name, table.config)

    @property
    def limits(self) -> tuple[int, int]:
        """One result per batch."""
        return 1, 1

    def gone(self, files: Sequence[LandedFile]) -> list[str]:
        """The sets of input snapshots that maintenance or a rollback has removed."""
        return [f.name for f in files if not self._inputs.still_there(f)]


class QueryReader(FileReader):
    """Reads the result of a derived table's query over sets of input snapshots."""

    def __init__(self, table: LakeTable, inputs: DerivedSource, query: str) -> None:
        """Take the inputs and the query; nothing is read yet."""
        super().__init__(table, inputs)
        self._inputs, self._query = inputs.inputs, query

    def look(self, files: Sequence[LandedFile]) -> list[FileShape]:
        """The columns and types of each result; no row is computed."""
        return [self._shape(file) for file in files]

    def read(self, looked: Sequence[FileShape], *, numbered: bool = True) -> list[RecordGroup]:  # noqa: ARG002
        """The rows of the results as raw records, in lazy frames; they have no lines to be numbered."""
        return [self._records(shape) for shape in looked]

    def _shape(self, file: LandedFile) -> FileShape:
        fields = self._result(file).schema.fields
        names = [f.name.lower() for f in fields]
        if doubled := sorted({n for n in names if names.count(n) > 1}):
            raise self._wrong(f"the query gives several columns named '{doubled[0]}'", "Name each by AS.")
        found = tuple((f.name, f.dataType) for f in fields)
        return FileShape(file, "full_load", found, has_rows=True, self_describing=True)

    def _records(self, shape: FileShape) -> RecordGroup:
        result = self._result(shape.file)
        values = columns(result.columns)
        place = F.struct(F.lit(shape.file.name).alias("file"), F.lit(None).cast("long").alias("row"))
        records = result.select(
            *values,
            place.alias(POSITION),
            F.to_json(F.struct(*values), {"ignoreNullFields": "false"}).alias(RAW),
            F.lit(shape.file.name).alias(FILE),
            F.lit(False).alias(MALFORMED_RECORD),
        )
        return RecordGroup(
            records=records, load=shape.load, columns=dict(shape.columns), files=[shape.file.name]
        )

    def _result(self, file: LandedFile) -> DataFrame:
        """The query over each input at exactly its snapshot, so that running it again gives the same result.

        The inputs are named inside the statement, not by views: tables that are derived in parallel would
        share these.
        """
        from pyspark.errors import AnalysisException, ParseException

        inputs = {
            alias: self._input(self._inputs[alias], snapshot)
            for alias, snapshot in snapshots_of(file.path).items()
        }
        statement = statement_over(inputs, self._query)
        try:
            return self.table.session.sql(statement)
        except (AnalysisException, ParseException) as error:
            # Of the query alone, for what Spark says of the statement that holds it misleads.
            first = mistake_in(self.table.session, self._query.strip().rstrip(";")) or first_line(error)
            raise self._wrong(
                f"Spark refuses the query: {first}",
                "Write one SELECT over the names of the inputs and their columns.",
            ) from error

    def _input(self, table: LakeTable, snapshot: int) -> str:
        """A SELECT of one input's columns without the framework's, so that SELECT * gives values only.

        A snapshot from before a `rename` has a column by its old name: the query names it as declared.
        """
        rows = table.format.rows_at(table.name, snapshot)
        whole = self.table.session.sql(f"SELECT * FROM {rows}")  # noqa: S608 - a checked name and a number
        found, rename = set(whole.columns), table.config.rename
        named = {c: new if (new := rename.get(c, c)) not in found else c for c in whole.columns}
        kept = ", ".join(
            quote(c) if c == name else f"{quote(c)} AS {quote(name)}"
            for c, name in named.items()
            if not is_reserved_column(c)
        )
        return f"SELECT {kept} FROM {rows}"  # noqa: S608 - the same

    def _wrong(self, problem: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(
            file="tables.yml",
            key=f"{self.table}.derive.sql",
            problem=f"{problem.rstrip('.')}.",
            remedy=remedy,
        )
