"""Pull a table's source before its files are planned: those tables together that are to have one state."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.ingestion.planner import STOPPING
from kedro_lakehouse.ops.store import BATCH_LEDGER
from kedro_lakehouse.pulls.manifest import SealedPulls
from kedro_lakehouse.pulls.names import read_name
from kedro_lakehouse.pulls.run import TablePulls, pull_together
from kedro_lakehouse.pulls.watch import done_unless

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from kedro_lakehouse.config.pulled import PulledSourceConfig
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.pulls.manifest import Manifest
    from kedro_lakehouse.pulls.retries import Retries

_IN_A_LOOP: Final = timedelta(minutes=5)
_SOON: Final = 2.0
"""So many seconds a pull has to end by itself whose time is over, or whose process is asked to end."""
_turns: Final[dict[tuple[str, str], threading.Semaphore]] = {}
"""How many tables of a source are pulled at the same time in this process, by place and source."""
_taking_turns: Final = threading.Lock()


def pulls_of(table: LakeTable) -> TablePulls:
    """The pulls of a table whose source is asked for its records; nothing is contacted yet."""
    config = cast("PulledSourceConfig", table.source_config)
    return TablePulls(
        table.name,
        table.config,
        config,
        make=table.open_pulled,
        sealed=SealedPulls(config.path, str(table)),
        planned=lambda: _planned(table),
        stopping=STOPPING,
    )


def is_pull_due(table: LakeTable) -> bool:
    """Whether a loop is to pull a table of a pulled source now.

    A table without ``every``, which each run pulls, is due every five minutes.
    """
    return any(pulls_of(one).is_due(_IN_A_LOOP) for one in _together(table))


@dataclass(frozen=True, kw_only=True)
class NextPull:
    """Whether the next run pulls a table, from when on it would, and what the last pull held."""

    is_due: bool
    due_at: datetime | None
    last: Manifest | None


def next_pull(table: LakeTable) -> NextPull | None:
    """What the next run pulls for a table, without asking the source; None where records arrive."""
    if not table.is_pulled:
        return None
    own = pulls_of(table)
    due = any(pulls_of(one).is_due() for one in _together(table))
    return NextPull(is_due=due, due_at=None if due else own.due_at(), last=own.sealed.last())


def pull_if_due(table: LakeTable) -> LakehouseError | None:
    """Pull a table of a pulled source if that is due; return what went wrong.

    Tables that are to have one state are pulled together, once a run.
    """
    group, source = _together(table), str(table.config.source)
    with _turn(table):
        if len(group) > 1 and source in table.environment.pulled:
            return table.environment.pulled[source]
        failed = None
        try:
            pulls = [pulls_of(one) for one in group]
            if any(one.is_due() for one in pulls):
                _in_time(pulls, partial(pull_together, pulls))
        except LakehouseError as error:
            failed = error
        table.environment.pulled[source] = failed
        return failed


def pull_now(
    table: LakeTable, *, accept: bool = False, retries: Retries | None = None
) -> Mapping[str, Manifest]:
    """Pull a table, and those that are to have one state with it, whether that is due or not.

    Args:
        accept: Whether another source than before will do; all rows are then pulled.
        retries: The pauses before a source that does not answer is asked again; default: the declared ones.

    Raises:
        LakehouseError: The source cannot be pulled.
    """
    with _turn(table):
        pulls = [pulls_of(one) for one in _together(table)]
        return _in_time(pulls, partial(pull_together, pulls, accept=accept, retries=retries))


def _in_time(
    pulls: Sequence[TablePulls], pull: Callable[[], Mapping[str, Manifest]]
) -> Mapping[str, Manifest]:
    """Pull as long as the limits allow and the process is not asked to end, also from a silent source.

    Raises:
        LakehouseError: The source cannot be pulled, or not in time; what was landed is gone.
    """

    def ending() -> LakehouseError | None:
        return next((why for one in pulls if (why := one.ending()) is not None), None)

    try:
        return done_unless(ending, pull, within=_SOON)
    finally:
        for one in pulls:
            one.release()


def _together(table: LakeTable) -> list[LakeTable]:
    """The tables that are pulled in one state with a table, and itself."""
    if not cast("PulledSourceConfig", table.source_config).reads_one_state:
        return [table]
    names = table.environment.tables_of_source(str(table.config.source))
    return [table.bind(name) for name in names] or [table]


def _turn(table: LakeTable) -> threading.Semaphore:
    config = cast("PulledSourceConfig", table.source_config)
    most = 1 if config.reads_one_state else config.max_pulls
    with _taking_turns:
        key = (table.environment.lakehouse, str(table.config.source))
        return _turns.setdefault(key, threading.Semaphore(most))


def _planned(table: LakeTable) -> tuple[int, str | None]:
    """The highest number and the highest end of a window among the files of the ledger's rows."""
    rows = table.ops.read(BATCH_LEDGER, of_table=str(table), columns=("table", "files"))
    names = [read_name(file["path"].rpartition("/")[2]) for row in rows for file in row["files"] or ()]
    found = [name for name in names if name is not None]
    ends = [name.to for name in found if name.to is not None]
    return max((n.number for n in found), default=0), max(ends).isoformat() if ends else None
