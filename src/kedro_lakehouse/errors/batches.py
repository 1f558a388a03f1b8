"""Batches and extracts that cannot be applied as they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from kedro_lakehouse.errors.base import _MAX_ITEM, _NAMED_EXTRACTS, TableError, counted, cut, shown

if TYPE_CHECKING:
    from collections.abc import Sequence


class SequenceTieError(TableError):
    """Different events of one key have the same order, and the table refuses that."""

    code = "SEQUENCE_TIE"
    batch: int
    ties: int
    summary = "Table {table}, batch {batch}: {ties} event(s) share key and order with another one."
    advice = (
        "Nothing was written. Declare an 'order_by' that is total within a key, or another 'on_tie'; "
        "then `kedro run`."
    )


class TooManyInvalidError(TableError):
    """More of a batch is invalid than the table allows."""

    code = "TOO_MANY_INVALID"
    batch: int
    invalid: int
    total: int
    limit: float
    summary = (
        "Table {table}, batch {batch}: {invalid} of {total} events are invalid; the limit is {limit} of them."
    )
    advice = (
        "Nothing was written. Correct the source, its types or its checks, or raise 'max_invalid_fraction'; "
        "then `kedro run`."
    )


class LedgerGapError(TableError):
    """The ledger of planned batches does not hold the plan of a published one."""

    code = "LEDGER_GAP"
    batch: int
    summary = (
        "Table {table}: lake.ops.batch_ledger lacks the plan of the published batch {batch}, or one before."
    )
    advice = (
        "Nothing was written. Restore lake.ops.batch_ledger, or give the table up by "
        "`kedro lakehouse drop {table}` and run again."
    )


_EXTRACT: Final = "Table {table}: the extract {extract} "


class RefusedExtractError(TableError):
    """An extract of a table is not applied; ``because`` says why, in the words that follow its name."""

    because: ClassVar[str]
    extract: str

    @property
    def reason(self) -> str:
        """What is wrong with the extract, as the rest of a sentence that begins with its name."""
        return self.because.format_map({name: shown(fact) for name, fact in vars(self).items()})


class SnapshotEmptyError(RefusedExtractError):
    """An extract holds no row."""

    code = "SNAPSHOT_EMPTY"
    because = "is empty"
    summary = f"{_EXTRACT}{because}."
    advice = (
        "If the source is empty, set 'allow_empty_extract: true', then `kedro run`; else land a later one."
    )


class SnapshotDeletesTooManyError(RefusedExtractError):
    """An extract would delete more of the table than it may."""

    code = "SNAPSHOT_DELETES_TOO_MANY"
    deletes: int
    rows: int
    limit: float
    because = "lacks {deletes} of {rows} rows, the limit is {limit} of them"
    summary = f"{_EXTRACT}{because}."
    advice = (
        "If these rows are gone in the source, raise 'max_delete_fraction' and `kedro run`; else deliver a "
        "later, complete one."
    )


class SnapshotOutOfOrderError(RefusedExtractError):
    """An extract is older than the last accepted one."""

    code = "SNAPSHOT_OUT_OF_ORDER"
    last: str
    because = "is not later than the last accepted one, {last}"
    summary = f"{_EXTRACT}{because}."
    advice = "To apply all extracts in their order: `kedro lakehouse rebuild {table} --from-landing`."


def rest_went_on(error: BaseException) -> bool:
    """Whether an error only says that extracts were refused: everything else of the table went on."""
    return isinstance(error, RefusedExtractsError) and error.published


class RefusedExtractsError(TableError):
    """Some extracts of a table were refused; ``published``: everything else of it went on."""

    code = "EXTRACTS_REFUSED"
    errors: Sequence[RefusedExtractError]
    published: bool = True

    def sentences(self) -> tuple[str, str]:
        """Return each extract with the reason, and what to do about each kind of reason."""
        named = "; ".join(f"{cut(e.extract, _MAX_ITEM)} {e.reason}" for e in self.errors[:_NAMED_EXTRACTS])
        more = len(self.errors) - _NAMED_EXTRACTS
        what = f"Table {self.table} refused {counted(len(self.errors), 'extract')}: {named}"
        what += f"; and {more} more." if more > 0 else "."
        rest = "All else" if self.published else "Nothing"
        kinds = dict.fromkeys(e.sentences()[1] for e in self.errors)
        return what, " ".join([f"{rest} of the table was published.", *kinds])


class BatchContentChangedError(TableError):
    """A batch number comes again with other content."""

    code = "BATCH_CONTENT_CHANGED"
    batch: int
    detail: str
    summary = "Table {table}, batch {batch} is not what it was ({detail})."
    advice = (
        "Nothing was written. Restore the batch's files as they were, deliver changed data as new files; "
        "then `kedro run`."
    )


class BatchNotFoundError(TableError):
    """A table has no batch of this number."""

    code = "BATCH_NOT_FOUND"
    batch: int
    last: int

    def sentences(self) -> tuple[str, str]:
        """Return the batch, and those that there are."""
        there = f"it has the batches 1 to {self.last}" if self.last else "it has none yet"
        advice = "`kedro lakehouse tables` shows where each table stands."
        return f"Table {self.table} has no batch {self.batch}; {there}.", advice
