"""How long rows stay in a table (``retention``), and files in a place of S3 (``lifetime``)."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kedro_lakehouse.config.base import Declaration, refuse
from kedro_lakehouse.config.history import ColumnName, Duration  # noqa: TC001 - pydantic reads them at run time

_DATED_TYPES: Final = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz")
_ONE_DAY: Final = dt.timedelta(days=1)


def _whole_days(value: dt.timedelta) -> dt.timedelta:
    if value < _ONE_DAY or value % _ONE_DAY:
        raise refuse("rows grow old by the day, and this is not a number of days", "Write '1 day' or more.")
    return value


def _in_days(value: dt.timedelta) -> dt.timedelta:
    if value % _ONE_DAY:
        raise refuse("S3 counts in days, and this is not a number of days", "Write for example '90 days'.")
    return value


class RetentionConfig(Declaration):
    """How long rows stay in the table, and where they go then."""

    after: Annotated[Duration, AfterValidator(_whole_days)]
    """How old a row is when it goes, such as `730 days`, counted from the start of the present day (UTC)."""
    column: ColumnName
    """Column with the date or time from which a row's age counts; where it is null the row stays."""
    to: Literal["archive", "delete"] = "archive"
    """Where rows go: to `<table>_archive`, or away. The change log and the history keep them."""

    def limit(self, now: dt.datetime) -> dt.datetime:
        """The start of the day (UTC) before which rows are old."""
        return now.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0) - self.after


def tells_no_date(kind: str) -> bool:
    """Whether values of a declared type say nothing about age."""
    return kind.strip().lower() not in _DATED_TYPES


ColdClass = Literal["GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"]


class PrefixLifetime(Declaration):
    """What `kedro lakehouse deploy` has S3 do with the files of a place as they grow old."""

    cold_after: Annotated[Duration, AfterValidator(_in_days)] | None = None
    """Files move to `cold_class` that are so old; default: they stay as they are."""
    cold_class: ColdClass = "GLACIER_IR"
    """Storage class of old files; from GLACIER and DEEP_ARCHIVE they are restored before they are read."""
    delete_after: Annotated[Duration, AfterValidator(_in_days)] | None = None
    """Files are deleted that are so old; default: never."""

    @model_validator(mode="after")
    def _in_this_order(self) -> Self:
        if self.cold_after and self.delete_after and self.delete_after <= self.cold_after:
            problem = "files would be deleted before they are cold"
            raise refuse(problem, "Let `delete_after` be the longer time, or remove one.", key="delete_after")
        return self


class LandingLifetime(PrefixLifetime):
    """What `kedro lakehouse deploy` has S3 do with the landed files of a source as they grow old."""

    cold_after: Annotated[Duration, AfterValidator(_in_days)] | None = Field(dt.timedelta(days=90))
    """Files move to `cold_class` that are so old; `0 days`: they stay as they are."""


class LakehouseLifetimes(Declaration):
    """Lifetimes of what lies in the lakehouse beside its tables, whose own metadata tells dead files."""

    logs: PrefixLifetime = PrefixLifetime(delete_after=dt.timedelta(days=90))
    """Logs of runs."""
    reports: PrefixLifetime = PrefixLifetime()
    """Data docs and other reports."""
    leases: PrefixLifetime = PrefixLifetime(delete_after=_ONE_DAY)
    """Leases of runs that ended."""
