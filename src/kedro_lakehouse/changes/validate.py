"""Check events one by one: types, keys, orders, row checks. One invalid event never blocks another."""

from __future__ import annotations

import logging
import re
from datetime import UTC
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from kedro_lakehouse.changes.conversion import Conversion, convert
from kedro_lakehouse.changes.events import (
    OP,
    ORDER,
    RAW,
    REASONS,
    TIME,
    TRUNCATE,
    UNSET,
    UPSERT,
    column,
    value_columns,
)
from kedro_lakehouse.errors import ConfigurationError, did_you_mean
from kedro_lakehouse.names import UNFIT_RECORD

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.subjects import ErasedSubjects

__all__ = ["REASON_ORDER", "Conversion", "check_events", "convert", "reasons_of"]

logger = logging.getLogger(__name__)

ERASED_SUBJECT: Final = "erased_subject"
INCOMPATIBLE_SCHEMA: Final = "incompatible_schema"
MALFORMED: Final = "malformed"
UNKNOWN_OP: Final = "unknown_op"
NULL_KEY: Final = "null_key"
NULL_SEQUENCE: Final = "null_sequence"
INCOMPATIBLE_TYPE: Final = "incompatible_type"
DUPLICATE_KEY: Final = "duplicate_key"
KEY_MISMATCH: Final = "key_mismatch"
TOO_LATE: Final = "too_late"
KEY_MISMATCHED: Final = "__key_mismatch"
_ERASED: Final = "__erased"
_NEEDED_FOR_REASONS: Final = ("__failed", "__malformed", KEY_MISMATCHED, _ERASED)

REASON_ORDER: Final = (
    ERASED_SUBJECT,
    INCOMPATIBLE_SCHEMA,
    MALFORMED,
    UNKNOWN_OP,
    NULL_KEY,
    NULL_SEQUENCE,
    INCOMPATIBLE_TYPE,
    DUPLICATE_KEY,
    KEY_MISMATCH,
    TOO_LATE,
)
"""Quarantine reasons by precedence; failed row checks, by their names, come after them."""


_NAMED: Final = "\x1f"
"""Separates a reason from the names of the columns that it is about, until the event is quarantined."""


def split_reasons() -> tuple[Column, Column]:
    """The reasons of an event alone, and the columns that they are about, each once."""
    parts = F.transform(REASONS, lambda reason: F.split(reason, _NAMED))
    names = F.flatten(F.transform(parts, lambda part: F.slice(part, F.lit(2), F.size(part))))
    return F.transform(parts, lambda part: F.get(part, F.lit(0))), F.array_distinct(names)


def _about(reason: str, names: Column) -> Column:
    return F.array_join(F.concat(F.array(F.lit(reason)), names), _NAMED)


def reasons_of(
    conditions: Mapping[str, Column], checks: Mapping[str, str], about: Mapping[str, Column] | None = None
) -> Column:
    """The reasons to quarantine a row, the strongest first; an empty array where the row is valid.

    ``about`` gives the columns that a reason is about, as an array of names: they follow the reason.

    A row check whose result is null passes, as an SQL CHECK constraint does. Checks apply to upserts only.
    """
    about = about or {}
    found = [
        F.when(conditions[r], _about(r, about[r]) if r in about else F.lit(r))
        for r in REASON_ORDER
        if r in conditions
    ]
    upsert = F.coalesce(column(OP) == UPSERT, F.lit(False))
    failed_checks = [F.when(upsert & ~F.expr(f"({sql})"), F.lit(name)) for name, sql in checks.items()]
    return F.filter(F.array(*found, *failed_checks), lambda reason: reason.isNotNull())


def check_events(
    events: DataFrame,
    contract: TableContract,
    *,
    horizon: dt.datetime | None = None,
    erased: ErasedSubjects | None = None,
) -> DataFrame:
    """Add to every event the list of reasons (``_reasons``) why it cannot be applied: empty if it can.

    Schema:
        events: converted columns + ``_op``, ``_order``, ``__failed``, ``__malformed``; with a horizon
            also ``_time``; ``__key_mismatch`` where a source states the key twice.
        returns: the same without the columns that start with two underscores, with ``_reasons``;
            ``_unset`` is null for all but upserts.

    Args:
        horizon: The time up to which the change log is compacted: earlier events are too late.
        erased: Subjects whose events are refused; their raw records are not kept.
    """
    order_fields = events.schema[ORDER].dataType.fieldNames()  # type: ignore[attr-defined]
    null_key = F.lit(False)
    for key in contract.keys:
        null_key |= column(key).isNull()
    conditions = {
        MALFORMED: column("__malformed"),
        UNKNOWN_OP: column(OP).isNull(),
        NULL_KEY: null_key & ~column(OP).eqNullSafe(TRUNCATE),
        NULL_SEQUENCE: column(ORDER)[order_fields[0]].isNull(),
        INCOMPATIBLE_TYPE: F.size("__failed") > 0,
    }
    if RAW in events.columns:
        unfit = F.coalesce(column(RAW).rlike(UNFIT_RECORD), F.lit(False))
        conditions[INCOMPATIBLE_SCHEMA] = column("__malformed") & unfit
        conditions[MALFORMED] = column("__malformed") & ~unfit
    if KEY_MISMATCHED in events.columns:
        conditions[KEY_MISMATCH] = column(KEY_MISMATCHED)
    if horizon is not None:
        conditions[TOO_LATE] = before(horizon)
    if erased is not None:
        events = events.withColumn(_ERASED, erased.are_named_by(events))
        conditions[ERASED_SUBJECT] = column(_ERASED)
        if RAW in events.columns:
            events = events.withColumn(RAW, F.when(~column(_ERASED), column(RAW)))
    if UNSET in events.columns:
        events = events.withColumn(UNSET, F.when(column(OP) == UPSERT, column(UNSET)))
    empty_keys = F.filter(
        F.array(*[F.when(column(key).isNull(), F.lit(key)) for key in contract.keys]),
        lambda name: name.isNotNull(),
    )
    about = {NULL_KEY: empty_keys, INCOMPATIBLE_TYPE: column("__failed")}
    return _with_reasons(events, conditions, contract, about=about)


def _with_reasons(
    events: DataFrame,
    conditions: Mapping[str, Column],
    contract: TableContract,
    *,
    about: Mapping[str, Column],
    absent: tuple[str, ...] = (),
) -> DataFrame:
    """Add the reasons, and take away what only they need.

    A column that a check names and no record has had yet counts as null.

    Which columns there are may depend on which files came first; the result of a check may not.

    Raises:
        ConfigurationError: A check is not an SQL condition on the table's columns.
    """
    try:
        checked = events.withColumn(REASONS, reasons_of(conditions, contract.checks, about))
        names = checked.columns
    except AnalysisException as error:
        name = _unresolved(error)
        if name is None or name in events.columns:
            raise ConfigurationError(
                file="tables.yml",
                key=".".join([f"{contract.table}.checks", *_wrong_checks(events, contract)[:1]]),
                problem=f"Spark refuses the SQL: {_said(error)}",
                remedy="Correct the condition.",
            ) from error
        events = events.withColumn(name, F.lit(None))
        return _with_reasons(events, conditions, contract, about=about, absent=(*absent, name))
    if absent:
        known = [name for name in value_columns(events) if name not in absent]
        logger.warning("%s: its checks name %s", contract.table, without_values(absent, known))
    return checked.select(*[column(n) for n in names if n not in (*absent, *_NEEDED_FOR_REASONS)])


def without_values(absent: Sequence[str], known: Sequence[str]) -> str:
    """The columns that no record has had yet, and the known column next to each, if one is near."""
    near = "".join(did_you_mean(name, known) for name in absent)
    return f"columns without values so far: {', '.join(absent)}." + near


def _wrong_checks(events: DataFrame, contract: TableContract) -> list[str]:
    """The names of the checks that Spark refuses, each looked at alone."""
    wrong = []
    for name, sql in contract.checks.items():
        try:
            events.select(~F.expr(f"({sql})"))
        except AnalysisException as error:
            absent = _unresolved(error)
            if absent is None or absent in events.columns:
                wrong.append(name)
    return wrong


def _said(error: AnalysisException) -> str:
    """What Spark says, in one line without its codes, the text of the statement and its plan."""
    lines = (line.strip() for line in str(error).splitlines())
    first = next((line for line in lines if line), "it gives no reason.").partition(" SQLSTATE")[0]
    return re.sub(r"^\[[A-Z_.0-9]+\] ", "", first)


def _unresolved(error: AnalysisException) -> str | None:
    """The column that a statement names and a frame lacks; None for any other error in the statement."""
    condition = getattr(error, "getCondition", error.getErrorClass)()  # Spark 3.5 has the older name alone
    if not str(condition).startswith("UNRESOLVED_COLUMN"):
        return None
    parameters = error.getMessageParameters() or {}
    plain = re.fullmatch(r"`((?:[^`]|``)+)`", parameters.get("objectName", ""))
    return plain[1].replace("``", "`") if plain else None


def before(horizon: dt.datetime, name: str = TIME) -> Column:
    """Whether an event took effect, or a version ended, before a time; the session's zone is UTC."""
    moment = horizon.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
    return F.coalesce(column(name).cast("timestamp_ntz") < F.lit(moment).cast("timestamp_ntz"), F.lit(False))
