"""Derived tables: the result of a query over current tables is an extract, named by the snapshots it read."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache as cache_of
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import BATCH, POSITION, RAW, column, columns
from kedro_lakehouse.commits.marks import DERIVED
from kedro_lakehouse.config.sources import CsvOptions, SourceConfig
from kedro_lakehouse.decoders.records import FILE, MALFORMED_RECORD, RecordGroup
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.ingestion.derivation import (
    Derivation,
    changed_inputs,
    declaration_digest,
    input_state,
    refuse_declaration,
    settled_state,
)
from kedro_lakehouse.ingestion.few_rows import FewRows, frame_of_rows, may_read
from kedro_lakehouse.ingestion.few_values import Values, few
from kedro_lakehouse.ingestion.planner import Planner
from kedro_lakehouse.ingestion.query_shape import ComputedWholeError, shape_of
from kedro_lakehouse.ingestion.reading import FileReader
from kedro_lakehouse.ingestion.touched_keys import KeyCut, TouchedKeys, changed_keys
from kedro_lakehouse.names import TableName, is_reserved_column, quote
from kedro_lakehouse.session.plans import analysed_plan
from kedro_lakehouse.session.query import first_line, mistake_in
from kedro_lakehouse.sources.extract import refuse_unfit
from kedro_lakehouse.sources.files import FileShape, LandedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import ExitStack

    from pyspark.sql import DataFrame, SparkSession

    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.config.tables import DeriveConfig
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.ingestion.derivation import InputState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.extract import ExtractOrder
    from kedro_lakehouse.sources.files import Load
    from kedro_lakehouse.sources.ledger import Chain
    from kedro_lakehouse.sources.plans import PlannedFiles

logger = logging.getLogger(__name__)

_PREFIX: Final = "derived:"
_PAYS_FROM, _PAYS_WITH_SPARK_FROM = 10_000, 2_000_000
_MOST_TOUCHED: Final = 0.25
"""If more than this part of the keys can be touched, the whole result is computed in less time."""
_MOST_ANALYSED: Final = 200
_ANALYSED: Final[dict[tuple[object, ...], tuple[T.StructType, list[dict[str, Any]]]]] = {}
"""Types and plan of each query over columns of these types, under these settings."""
_READ_BACK: Final = (T.StringType, T.IntegralType, T.DecimalType, T.DateType, T.BooleanType, T.FractionalType)
"""Types of keys that JSON holds without loss."""


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
        self._inputs, self._derive = DerivedSource(table, derive), derive
        self._reader = QueryReader(table, self._inputs, derive.sql)
        self._seen_states: tuple[LandedFile, dict[str, InputState]] | None = None
        super().__init__(table, self._inputs, self._reader)
        refuse_unfit(table.name, table.config)

    @property
    def limits(self) -> tuple[int, int]:
        """One result per batch."""
        return 1, 1

    def gone(self, files: Sequence[LandedFile]) -> list[str]:
        """The sets of input snapshots that maintenance or a rollback has removed."""
        return [f.name for f in files if not self._inputs.still_there(f)]

    def token(
        self,
        planned: PlannedFiles,
        unchanged: int | None = None,
        counted: dict[str, int] | None = None,
        at_least: int = 0,
    ) -> BatchToken:
        """The token of a planned batch, by which its commit records what it was computed from."""
        token = super().token(planned, unchanged, counted, at_least)
        states, is_exact = self._states([f for f in planned.files if f not in planned.refused][-1])
        made = self._derivation(planned.content_hash, states if is_exact else {})
        return replace(token, properties={DERIVED: made.to_property()})

    def cut(self, files: Sequence[LandedFile], chain: Chain, cached: ExitStack) -> KeyCut | None:
        """The part of the result that can differ from the last one; None, with a log line, if it is all."""
        self._reader.cut = None
        try:
            found = self._cut(files[-1], chain, cached)
        except ComputedWholeError as why:
            logger.info("%s: its result is computed whole: %s", self.table, why)
            return None
        self._reader.cut = found
        return found

    def _cut(self, file: LandedFile, chain: Chain, cached: ExitStack) -> KeyCut:
        table, inputs = self.table, self._inputs.inputs
        if chain.last is None:
            raise ComputedWholeError("it is the first one")
        refuse_declaration(table, inputs)
        before, current = settled_state(table, chain.head)
        states, _ = self._states(file)
        if (rows := sum(state.rows for state in states.values())) < self._by_keys_from():
            raise ComputedWholeError(f"its inputs have only {rows} rows (by_keys_from)")
        now = self._derivation("", states)
        changed = changed_inputs(before, now, inputs)
        columns_of_result, plan = self._reader.analysed()
        keys = self._keys(columns_of_result, current)
        shape = shape_of(plan, list(inputs), list(keys))
        few_rows = FewRows(inputs)
        found = {
            alias: changed_keys(inputs[alias], old.batch, new.rows, cached, few_rows)
            for alias, (old, new) in changed.items()
        }
        if self._derivation("", self._states(file, anew=True)[0]) != now:
            raise ComputedWholeError("an input was changed while its changes were read")
        keys_of = {alias: one.config.keys for alias, one in inputs.items()}
        read = cache_of(self._reader.rows)
        touched = TouchedKeys(
            keys_of, read, self._reader.over_frames, shape, cached,
            sessions=(lambda: table.session, lambda: table.environment.session_for_few_rows),
            few_rows=few_rows,
        )  # fmt: skip
        at = [{alias: state.snapshot for alias, state in of.items()} for of in (before.inputs, states)]
        none = few(lambda: table.session, list(keys.values()), [])
        rejected = [Values.of(frame, cached) for frame in rejected_keys(table, chain.batch, keys)]
        values = Values.united([none, *touched.of(found, *at), *rejected], cached)
        if values.rows is None and values.count() > _MOST_TOUCHED * current.rows:
            raise ComputedWholeError("the changes of its inputs can touch too many of its keys")
        logger.info(
            "%s: %s of its keys are computed, those that changes of %s can touch",
            table, "many" if values.rows is None else len(values.rows), ", ".join(changed) or "no input",
        )  # fmt: skip
        result, is_local = touched.result(values, list(keys), at[1])
        local = None
        if is_local:
            computed: Any = result
            local = computed.toArrow()
            result = frame_of_rows(table.session, local, result.schema)
        return KeyCut(
            keys=values, names=list(table.config.keys), file=file, result=result, rows=current.rows,
            local=local,
        )  # fmt: skip

    def _by_keys_from(self) -> int:
        """From how many rows of the inputs on keys are computed alone: measured by ``bench/derived.py``."""
        if self._derive.by_keys_from is not None:
            return self._derive.by_keys_from
        is_quick = all(map(may_read, (self.table, *self._inputs.inputs.values())))
        return _PAYS_FROM if is_quick else _PAYS_WITH_SPARK_FROM

    def _keys(self, result: T.StructType, current: TableState) -> dict[str, T.DataType]:
        """The names and types by which the query returns the keys, in the order of the declared keys.

        Raises:
            ComputedWholeError: A key gets another type in the table: two of the query's may be one there.
        """
        received = self.table.contract.received_names
        found: dict[str, T.DataType] = {}
        for key in self.table.config.keys:
            name = received.get(key, key)
            fields = [f for f in result.fields if f.name == name] or [
                f for f in result.fields if f.name.lower() == name.lower()
            ]
            if len(fields) != 1 or fields[0].dataType != current.columns.get(key):
                raise ComputedWholeError(f"its key {key} is of another type in the query than in the table")
            found[fields[0].name] = fields[0].dataType
        return found

    def _derivation(self, plan: str, states: Mapping[str, InputState]) -> Derivation:
        return Derivation(plan, declaration_digest(self.table, self._inputs.inputs), states)

    def _states(self, file: LandedFile, *, anew: bool = False) -> tuple[dict[str, InputState], bool]:
        """The state of each input at its snapshot in a set, and whether all are in these states now.

        An input that has gone on since is given its present last batch: no batch of its snapshot is missed.
        """
        if anew or self._seen_states is None or self._seen_states[0] != file:
            now = {alias: input_state(table) for alias, table in self._inputs.inputs.items()}
            self._seen_states = file, {alias: state for alias, state in now.items() if state is not None}
        snapshots, found = snapshots_of(file.path), self._seen_states[1]
        if snapshots.keys() != found.keys():
            return {}, False
        is_exact = all(found[alias].snapshot == snapshot for alias, snapshot in snapshots.items())
        return {a: replace(state, snapshot=snapshots[a]) for a, state in found.items()}, is_exact


def rejected_keys(table: LakeTable, batch: int, keys: Mapping[str, T.DataType]) -> list[DataFrame]:
    """The keys of the rows that the last result had and validation rejected: they are rejected each time.

    Raises:
        ComputedWholeError: They cannot be read back from quarantine.
    """
    changes = table.state("changes")
    expected = (changes.bookmark.counts.get("quarantined") or 0) if changes and changes.bookmark else 0
    if not expected:
        return []
    if any(not isinstance(kind, _READ_BACK) for kind in keys.values()):
        raise ComputedWholeError("the keys of its rejected rows cannot be read back from quarantine")
    rows = table.read("quarantine").where(column(BATCH) == batch)
    if rows.count() != expected:
        raise ComputedWholeError("its rejected rows are no longer in quarantine")
    schema = T.StructType([T.StructField(name, kind) for name, kind in keys.items()])
    return [rows.select(F.from_json(RAW, schema).alias("k")).select("k.*")]


class QueryReader(FileReader):
    """Reads the result of a derived table's query over sets of input snapshots."""

    def __init__(self, table: LakeTable, inputs: DerivedSource, query: str) -> None:
        """Take the inputs and the query; nothing is read yet."""
        super().__init__(table, inputs)
        self._inputs, self._query = inputs.inputs, query
        self.cut: KeyCut | None = None
        """The part of a result that is read in place of all of it."""

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
        """The part of a result that is read in place of all of it, or all of it."""
        return self.cut.result if self.cut is not None and self.cut.file == file else self.result(file)

    def analysed(self) -> tuple[T.StructType, list[dict[str, Any]]]:
        """The types and the plan of the query, over inputs without rows; no input is opened.

        They are kept for the next batch of the process.
        """
        kinds: dict[str, T.StructType] = {}
        for alias, table in self._inputs.items():
            state = table.state("current")
            stored = state.columns if state is not None else {}
            named = _named(stored, table)
            fields = [T.StructField(named[c], k) for c, k in stored.items() if not is_reserved_column(c)]
            kinds[alias] = T.StructType(fields)
        settings = tuple(sorted(self.table.environment.spark_conf.items()))
        known = self._query, tuple((alias, kind.json()) for alias, kind in kinds.items()), settings
        found = _ANALYSED.get(known)
        if found is None:
            session = self.table.session
            empty = self.over_frames({a: session.createDataFrame([], kind) for a, kind in kinds.items()})
            found = empty.schema, analysed_plan(empty)
            while len(_ANALYSED) >= _MOST_ANALYSED:
                _ANALYSED.pop(next(iter(_ANALYSED)), None)
            _ANALYSED[known] = found
        return found

    def over_frames(self, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The query over frames of one session."""
        session = next(iter(inputs.values())).sparkSession
        views = {alias: f"__part_{uuid.uuid4().hex}" for alias in inputs}
        try:
            for alias, rows in inputs.items():
                rows.createOrReplaceTempView(views[alias])
            given = {a: f"SELECT * FROM {quote(view)}" for a, view in views.items()}  # noqa: S608
            return self.over(given, session)
        finally:  # the analysed query does not need them any more
            for view in views.values():
                session.catalog.dropTempView(view)

    def result(self, file: LandedFile) -> DataFrame:
        """The query over each input at exactly its snapshot, so that running it again gives the same result.

        The inputs are named inside the statement, not by views: tables that are derived in parallel would
        share these.
        """
        snapshots = snapshots_of(file.path)
        return self.over({alias: self._input(self._inputs[alias], at) for alias, at in snapshots.items()})

    def rows(self, alias: str, snapshot: int) -> DataFrame:
        """The rows of an input at a snapshot, as the query sees them."""
        return self.table.session.sql(self._input(self._inputs[alias], snapshot))

    def over(self, inputs: Mapping[str, str], session: SparkSession | None = None) -> DataFrame:
        """The query over a SELECT for each of its inputs.

        Raises:
            ConfigurationError: Spark refuses it.
        """
        from pyspark.errors import AnalysisException, ParseException

        try:
            return (session or self.table.session).sql(statement_over(inputs, self._query))
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
        named = _named(whole.columns, table)
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


def _named(stored: Iterable[str], table: LakeTable) -> dict[str, str]:
    """The name of each stored column in queries: a snapshot from before a `rename` has an old one."""
    found, rename = list(stored), table.config.rename
    return {c: new if (new := rename.get(c, c)) not in found else c for c in found}
