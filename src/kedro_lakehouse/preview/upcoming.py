"""What the next run does for one table: asked of the run's own planner, and nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from kedro_lakehouse.commits.drift import refuse_drift
from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.ingestion.declared import look_at_declaration, refuse_other_targets
from kedro_lakehouse.ingestion.extracts import late_extracts
from kedro_lakehouse.ingestion.guards import ExtractCounts, first_refused
from kedro_lakehouse.ingestion.landing import planner_of
from kedro_lakehouse.ingestion.pulling import next_pull
from kedro_lakehouse.ops.failures import known
from kedro_lakehouse.sources.base import StreamSource
from kedro_lakehouse.sources.files import bounded
from kedro_lakehouse.sources.row_counts import most_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.ingestion.planner import Planner
    from kedro_lakehouse.ingestion.pulling import NextPull
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.base import GivesExtracts, Waiting
    from kedro_lakehouse.sources.files import FileShape, LandedFile
    from kedro_lakehouse.sources.ledger import Chain

_LOOKED_AT: Final = 200
"""So many files of a table are opened for their columns and rows."""


@dataclass(frozen=True, kw_only=True)
class NextBatch:
    """A batch that the next run commits: its files, or of a stream and a derived table none."""

    number: int
    files: tuple[LandedFile, ...] = ()
    is_unfinished: bool = False
    """Whether an earlier run has planned it, and was ended before it was committed."""
    is_repair: bool = False
    """Whether it has no files, and looks up again the events that a changed reference concerns."""


@dataclass(frozen=True, kw_only=True)
class RefusedFile:
    """A file that a guard refuses; if ``before``, it has been refused, and nothing new happens."""

    file: str
    code: str
    reason: str
    before: bool = False


@dataclass(kw_only=True)
class Upcoming:
    """What the next run does for one table, by itself: what follows from other tables is added later."""

    table: str
    published: int = 0
    """The number of the last published batch."""
    batches: list[NextBatch] = field(default_factory=list)
    waiting: Waiting | None = None
    """What a stream holds that no batch has."""
    rows: int | None = None
    """At most so many rows are in the files; None where that is not cheap to tell."""
    pull: NextPull | None = None
    refused: list[RefusedFile] = field(default_factory=list)
    silent: tuple[str, ...] = ()
    """Files without rows, which wait for the first with rows."""
    new_columns: dict[str, str] = field(default_factory=dict)
    wider_columns: dict[str, str] = field(default_factory=dict)
    looked_at: int = 0
    """How many files were opened for their columns."""
    behind: tuple[str, ...] = ()
    """The targets that lack batches of the change log, which the run brings."""
    repairs: bool = False
    """Whether rows follow a reference that has changed."""
    waits_for: tuple[str, ...] = ()
    """The tables that events are looked up in, where one of them holds nothing yet."""
    error: LakehouseError | None = None
    """The error with which the run will fail for this table; what was planned before it is done."""
    replay: bool = False
    """Whether a replay was planned and not finished: the next one goes on with it, a run does not."""

    @property
    def changes(self) -> bool:
        """Whether the run commits something, or at least asks the source."""
        return bool(self.batches or self.behind or self.repairs or (self.pull and self.pull.is_due))


def upcoming(table: LakeTable) -> Upcoming:
    """What the next run does for a table, without what other tables bring in the same run."""
    found = Upcoming(table=str(table))
    try:
        _look(table, found)
    except LakehouseError as error:
        found.error = error
    except Exception as error:
        if (ours := known(error, "")) is None:
            raise
        found.error = ours
    return found


def _look(table: LakeTable, found: Upcoming) -> None:
    found.pull = next_pull(table)
    planner = planner_of(table)
    chain, seen = planner.published(), planner.state()
    if chain.is_given_up:  # a rebuild has begun: the run drops the tables, and takes all files again
        chain, seen = planner.ledger.chain(None), None
    found.published = chain.batch
    found.replay = any(plan.is_replay for plan in chain.open)
    found.behind = tuple(_behind(table, seen))
    now = planner.references.snapshots()
    if now is None:  # in vain, unless another table of the same run fills them
        found.waits_for = tuple(entry.table for entry in table.config.enrich)
    if isinstance(planner.source, StreamSource):
        found.waiting = planner.waiting()
        is_unfinished = bool(_open(chain))
        if is_unfinished or found.waiting.files:
            found.batches.append(NextBatch(number=chain.batch + 1, is_unfinished=is_unfinished))
    else:
        _look_at_files(planner, chain, found)
    if chain.last and planner.references.repairs and now not in (None, chain.last.references):
        found.repairs = True
    if seen is not None:
        look_at_declaration(table, seen)
        if not found.batches:
            refuse_other_targets(table)


def _open(chain: Chain) -> list[Any]:
    return [plan for plan in chain.open if not (plan.is_replay or plan.is_repair)]


def _behind(table: LakeTable, seen: TableState | None) -> Iterator[str]:
    for kind in table.targets:
        target = table.state(kind)
        if seen and not (target and target.is_held) and (target.batch if target else 0) < seen.batch:
            yield kind


def _look_at_files(planner: Planner, chain: Chain, found: Upcoming) -> None:
    number, begun = chain.batch, set[Any]()
    is_derived = planner.table.config.derive is not None
    if (unfinished := planner.unfinished(chain)) is not None:
        number += 1
        begun = set(unfinished.files)
        files = [f for f in unfinished.files if f not in unfinished.refused and not is_derived]
        found.batches.append(NextBatch(number=number, files=tuple(files), is_unfinished=True))
    new = [file for file in chain.new(planner.listed()) if file not in begun]
    if is_derived:  # what it reads is a set of snapshots, not a file
        found.batches += [NextBatch(number=number + 1)] if new else []
        return
    if planner.source.gives == "extracts":
        new = _accepted(planner, chain, new, found)
    for files in bounded(new, *planner.limits):
        number += 1
        found.batches.append(NextBatch(number=number, files=tuple(files)))
    _look_into(planner, found)


def _accepted(planner: Planner, chain: Chain, new: Sequence[LandedFile], found: Upcoming) -> list[LandedFile]:
    """The extracts that the guards let through, as far as the number of their rows tells."""
    table, order = planner.table, cast("GivesExtracts", planner.source).order_of
    same = {r.file: r for guards, r in chain.waiting if guards == table.config.guards}
    found.refused += [
        RefusedFile(file=r.file.name, code=r.code, reason=r.reason, before=True) for r in same.values()
    ]
    left = [file for file in new if file not in same]
    late, refused = late_extracts(left, chain.accepted(), order, table.name)
    found.refused += [RefusedFile(file=f.name, code=e.code, reason=e.reason) for f, e in refused.items()]
    accepted, before = list[Any](), _rows_before(table)
    for file in (f for f in left if f not in late):
        rows = _rows_of(planner, file)
        if rows is not None and (error := _refusal(table, file, rows, before)) is not None:
            found.refused.append(RefusedFile(file=file.name, code=error.code, reason=error.reason))
            continue
        accepted.append(file)
        before = rows
    return accepted


def _rows_before(table: LakeTable) -> int | None:
    """The rows that an extract is compared with; None where current does not hold exactly these."""
    changes, current = table.state("changes"), table.state("current") if table.config.current else None
    if changes is None or current is None or current.is_held or current.batch != changes.batch:
        return None
    return current.rows


def _refusal(table: LakeTable, file: LandedFile, rows: int, before: int | None) -> Any:
    """Why the run's own guards refuse an extract of at most so many rows: at least the others are deleted."""
    counts = ExtractCounts(landed=rows, keyed=rows, rows=rows)
    if before is not None and table.config.keys and not table.config.delete_scope:
        counts = replace(counts, in_scope=before, deletes=max(0, before - rows))
    bad = first_refused({1: counts}, [file.name], table.config, table.name)
    return bad[1] if bad else None


def _rows_of(planner: Planner, file: LandedFile) -> int | None:
    source, load = planner.source, planner.source.load_of(file)
    kind = str(planner.reader.file_format)
    return most_rows(file, kind, source.options[load], header=source.headers[load])


def _look_into(planner: Planner, found: Upcoming) -> None:
    """The columns and rows of the files that come, from their heads and footers."""
    files = [file for batch in found.batches for file in batch.files]
    opened = files[:_LOOKED_AT]
    counts = [_rows_of(planner, file) for file in opened]
    if len(opened) == len(files) and None not in counts:
        found.rows = sum(count or 0 for count in counts)
    # Which columns JSON lines and documents have, only their reading tells.
    if opened and planner.reader.file_format in ("parquet", "csv") and not _has_nested_types(planner.table):
        _look_at_columns(planner, opened, found)


def _look_at_columns(planner: Planner, files: Sequence[LandedFile], found: Upcoming) -> None:
    """Leave out files without rows, and what comes after a batch that the run refuses."""
    opened = set(files)
    first, kept, silent = found.batches[0].number, list[NextBatch](), list[str]()
    for batch in found.batches:
        try:
            shapes = planner.reader.look([file for file in batch.files if file in opened])
            found.looked_at += len(shapes)
            if shapes and len(shapes) == len(batch.files) and _says_nothing(planner, batch, shapes):
                silent += [file.name for file in batch.files]
                continue
            _compare_columns(planner, shapes, found)
        except LakehouseError as error:
            found.error = error
            break
        kept.append(replace(batch, number=first + len(kept)))
    found.batches, found.silent = kept, tuple(silent)


def _says_nothing(planner: Planner, batch: NextBatch, shapes: Sequence[FileShape]) -> bool:
    """Whether the files of a batch of changes have no rows: they wait for the first that has."""
    is_new = planner.source.gives == "changes" and not batch.is_unfinished
    return is_new and planner.reader.says_nothing(shapes)


def _has_nested_types(table: LakeTable) -> bool:
    """Whether a declared type is one that only Spark parses."""
    return any("<" in text for text in table.config.types.values())


def _compare_columns(planner: Planner, shapes: Sequence[FileShape], found: Upcoming) -> None:
    """Note what the files of a batch bring that the table does not have.

    Raises:
        LakehouseError: The files do not fit the table: see ``FileReader.columns``.
    """
    require: Any = getattr(planner.source, "require_columns", None)
    if require is not None:
        require(shapes)
    settled, state = planner.reader.columns(shapes), planner.state()
    held = state.columns if state else {}
    if state is not None:
        refuse_drift(planner.table.changes, state, planner.table.contract, {})
    for name, kind in settled.types.items() if held else ():
        is_, was = kind.simpleString(), held[name].simpleString() if name in held else None
        if was is None:
            found.new_columns[name] = is_
        elif was != is_:
            found.wider_columns[name] = f"{was} to {is_}"
