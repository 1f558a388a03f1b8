"""Plan, land and seal the pulls of tables, within their limits, and again after what may pass by itself."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import (
    LakehouseError,
    PullTooLargeError,
    PullUnstableError,
    SourceChangedError,
    SourceRefusedError,
    SourceUnreachableError,
    TypeNotExactError,
)
from kedro_lakehouse.pulls.errors import (
    InexactFault,
    SourceChangedFault,
    SourceFault,
    TerminalFault,
    TransientFault,
    UnstableFault,
)
from kedro_lakehouse.pulls.landing import LandingFile, written_to
from kedro_lakehouse.pulls.manifest import Manifest
from kedro_lakehouse.pulls.names import file_name, read_name, snapshot_id, time_of
from kedro_lakehouse.pulls.protocol import Since
from kedro_lakehouse.pulls.retries import Retries
from kedro_lakehouse.pulls.watch import watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kedro_lakehouse.config.pulled import PulledSourceConfig
    from kedro_lakehouse.config.pulls import Mode
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.pulls.manifest import PulledFile, SealedPulls
    from kedro_lakehouse.pulls.protocol import Pull, PulledSource

logger = logging.getLogger(__name__)
_phases: Final = logging.getLogger("kedro_lakehouse.phase")

_EARLY: Final = timedelta(minutes=5)
_looked: Final[dict[tuple[str, str], float]] = {}
"""When this process last asked for a table, on the monotonic clock, by the place of its pulls."""


@dataclass(kw_only=True)
class _Landing:
    """A pull that is being landed."""

    pull: Pull
    number: int
    attempt: str
    file: LandingFile
    begun: float = field(default_factory=time.monotonic)
    state: Mapping[str, Any] | None = None
    chunks: int = 0
    closed: PulledFile | None = None


class TablePulls:
    """The pulls of one table."""

    def __init__(  # noqa: PLR0913 - a table, its declarations, and what it is pulled with
        self,
        name: TableName,
        table: TableConfig,
        config: PulledSourceConfig,
        *,
        make: Callable[[], PulledSource],
        sealed: SealedPulls,
        planned: Callable[[], tuple[int, str | None]] = lambda: (0, None),
        stopping: threading.Event | None = None,
    ) -> None:
        """Take what is needed; nothing is contacted yet.

        Args:
            make: Makes the source's object for this table.
            sealed: The table's manifests.
            planned: The highest number, and the highest end of a window, that the ledger's rows tell.
            stopping: Set when the process is to end.
        """
        self.name, self.table, self.config = name, table, config
        self._make, self.sealed, self._planned = make, sealed, planned
        self._stopping = stopping or threading.Event()
        self._source: PulledSource | None = None
        self._landing: _Landing | None = None
        self._late: threading.Event | None = None
        self._number = 0
        self._taking = threading.Lock()

    @property
    def mode(self) -> Mode:
        """What a pull holds."""
        return self.config.mode_of(self.table)

    @property
    def _place(self) -> tuple[str, str]:
        return self.sealed.root, str(self.name)

    @property
    def progress(self) -> int:
        """How many chunks have landed that need not be read again; 0 if the source cannot go on."""
        if self._landing is None or self._source is None or not self._source.capabilities.resumes:
            return 0
        return self._landing.chunks if self._landing.state is not None else 0

    def is_due(self, usual: timedelta | None = None) -> bool:
        """Whether the last pull is ``every`` ago; without that key, this process's last one ``usual``.

        In another process it is due a little earlier, counted from the last pull's begin: a schedule is not
        on time to the second, and would otherwise find every other pull not due.
        """
        every = usual if self.config.every is None else self.config.every
        if every is None:
            return True
        asked = _looked.get(self._place)
        if asked is not None and time.monotonic() - asked < every.total_seconds():
            return False
        last = self.sealed.last() if self.config.every is not None else None
        if last is None or last.declaration != self.declaration:
            return True
        begun = time_of(last.sealed_at) - timedelta(seconds=last.seconds)
        return datetime.now(UTC) - begun >= every - min(every / 10, _EARLY)

    def due_at(self) -> datetime | None:
        """When the next pull is due by ``every``; None without that key, and before the first pull."""
        last = self.sealed.last()
        return (
            None if last is None or self.config.every is None else time_of(last.sealed_at) + self.config.every
        )

    @property
    def declaration(self) -> str:
        """The hash of what says which rows a pull holds: where it differs, all rows are pulled again."""
        pull = self.config.pull_of(self.table).model_dump(mode="json", exclude={"late"})
        facts = {**pull, "mode": self.mode, "entity": self.table.entity, "type": self.config.type}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def since(self) -> Since:
        """What the sealed pulls say; the ledger's rows stand for manifests that are gone."""
        last, (number, to) = self.sealed.last(), self._planned()
        if last is None or number > last.number:
            return Since(mode=self.mode, number=number, to=to if self.mode == "incremental" else None)
        same = last.mode == self.mode and last.declaration == self.declaration
        goes_on = same and self.mode == "incremental"
        return Since(
            mode=self.mode,
            number=last.number,
            to=last.to if goes_on else None,
            identity=last.identity,
            position=last.position if goes_on else None,
        )

    def land(self, *, accept: bool = False, shared: Mapping[str, Any] | None = None) -> Pull | None:
        """Plan a pull and land it; None if nothing is new. It is not sealed yet.

        Args:
            accept: Whether another source than before will do; all rows are then pulled.
            shared: The facts of a pull of another table, whose state this one is to have.

        Raises:
            SourceFault: The source could not be asked.
            PullTooLargeError: The pull is over the declared limits.
        """
        since = self.since()
        if accept:
            since = Since(mode=since.mode, number=since.number, to=None)
        since = Since(**{**vars(since), "shared": shared})
        if (last := self.sealed.last()) is not None:
            self._tidy(last)  # a run that was killed right after its seal has not
        source = self._source = self._make()
        self._number = since.number + 1
        self._enter("asked", self._number)
        landing = self._landing
        if landing is None:
            with self._within_time(source, time.monotonic()):
                pull = source.plan(since)
            _looked[self._place] = time.monotonic()
            if pull is None:
                return None
            self._refuse_others(pull, since)
            landing = self._landing = self._begin(pull, self._number)
        self._enter("planned", landing.number)
        with self._within_time(source, landing.begun):
            for chunk in source.read(landing.pull, landing.state):
                self._require_time()
                with written_to(self.sealed.root):
                    landing.file.add(chunk)
                landing.state = chunk.state
                landing.chunks += 1
                self._enter("chunk", landing.number)
                self._check(landing)
        with written_to(self.sealed.root):
            landing.file.settle()
        self._check(landing)
        if landing.file.rows or self.mode != "incremental":
            with written_to(self.sealed.root):
                landing.closed = landing.file.close()
        self._enter("landed", landing.number)
        return landing.pull

    def seal(self) -> Manifest | None:
        """Seal what was landed; None if nothing was, or another run has sealed this number."""
        landing = self._take()
        if landing is None:
            return None
        if landing.closed is None:  # an empty window: the next one begins where it began
            landing.file.discard()
            return None
        pull = landing.pull
        manifest = Manifest(
            table=str(self.name),
            entity=self.table.entity,
            number=landing.number,
            attempt=landing.attempt,
            mode=self.mode,
            from_=pull.from_,
            to=pull.to,
            files=(landing.closed,),
            rows=landing.file.rows,
            sealed_at=datetime.now(UTC).isoformat(),
            seconds=round(time.monotonic() - landing.begun, 3),
            identity=dict(pull.identity),
            position=pull.position,
            declaration=self.declaration,
        )
        with written_to(self.sealed.root):
            is_ours = self.sealed.seal(manifest)
        if not is_ours:
            logger.info("%s: another run has sealed pull %s", self.name, landing.number)
            landing.file.discard()
            return None
        self._enter("sealed", landing.number)
        self._tidy(manifest)
        logger.info("%s: pull %s has %s rows", self.name, landing.number, f"{manifest.rows:,}")
        return manifest

    @property
    def _tag(self) -> str:
        """How the names of this table's attempts begin: tables of one entity may share a folder."""
        return hashlib.sha256(str(self.name).encode()).hexdigest()[:8]

    def _tidy(self, manifest: Manifest) -> None:
        """Remove what killed attempts of a sealed pull have landed: nobody would ever read or erase it."""
        import fsspec

        for file in manifest.files:
            folder, _, own = f"{self.sealed.root}/{file.path}".rpartition("/")
            fs, path = fsspec.core.url_to_fs(folder)
            fs.invalidate_cache()
            landed: list[str] = []
            with contextlib.suppress(OSError):  # the file may be archived, with its folder
                landed = fs.ls(path, detail=False)
            for found in landed:
                name = found.rpartition("/")[2]
                if name != own and read_name(name) is not None and f"-{self._tag}" in name:
                    with contextlib.suppress(OSError):  # its own run, or one that tidies too, removes it
                        fs.rm_file(found)

    def release(self, *, keep: bool = False) -> None:
        """Close the source; what was landed and not sealed is removed, unless it is to be gone on with."""
        source, self._source = self._source, None
        if source is not None:
            with contextlib.suppress(SourceFault):
                source.close()
            keep = keep and source.capabilities.resumes
        landing = self._landing
        if landing is not None and not (keep and landing.state is not None) and self._take() is not None:
            landing.file.discard()

    def _take(self) -> _Landing | None:
        """Hand out what was landed, once: a thread that seals it may be at work while another releases it."""
        with self._taking:
            landing, self._landing = self._landing, None
            return landing

    def ending(self) -> LakehouseError | None:
        """Why a pull must end: its time is over, or the process is asked to end; None: it may go on."""
        if self._late is not None and self._late.is_set():
            return PullTooLargeError(table=self.name, limit=f"{self.config.limits.time}", number=self._number)
        if self._stopping.is_set():
            return self.explained(TransientFault("this process is asked to end"))
        return None

    def explained(self, fault: SourceFault) -> LakehouseError:
        """The package's error for what a source says."""
        place = self.config.place_of(self.table)
        if isinstance(fault, TransientFault):
            return SourceUnreachableError(table=self.name, place=place, detail=fault.reason)
        kinds: Mapping[type[SourceFault], Any] = {
            SourceChangedFault: SourceChangedError,
            UnstableFault: PullUnstableError,
            InexactFault: TypeNotExactError,
        }
        kind = next((made for known, made in kinds.items() if isinstance(fault, known)), SourceRefusedError)
        found: LakehouseError = kind(table=self.name, place=place, reason=fault.reason, remedy=fault.remedy)
        return found

    def _begin(self, pull: Pull, number: int) -> _Landing:
        if pull.to is None and self.mode != "incremental":
            raise TerminalFault("it does not tell the time of the state that it gives")
        attempt = f"{self._tag}{uuid.uuid4().hex[:8]}"
        folder = self.config.layout.replace("{entity}", self.table.entity).replace("{table}", str(self.name))
        if "%" in folder:
            folder = (time_of(pull.to) if pull.to else datetime.now(UTC)).strftime(folder)
        name = file_name(pull.to, number, attempt, self.config.lands)
        path = f"{folder}/pull={number:06d}/{name}"
        own = snapshot_id(pull.to, number) if self.mode == "snapshot" and pull.to else None
        file = LandingFile(self.sealed.root, path, snapshot=own)
        return _Landing(pull=pull, number=number, attempt=attempt, file=file)

    def _refuse_others(self, pull: Pull, since: Since) -> None:
        """Refuse another source than that of the last pull.

        A full pull does not depend on the ones before, so a table may be made anew.

        Raises:
            SourceChangedFault: It is another one.
        """
        for key, before in since.identity.items():
            now = pull.identity.get(key)
            if now != before and (key != "table" or self.mode == "incremental"):
                raise SourceChangedFault(f"its {key} was {before} at pull {since.number}, and is {now}")
        if since.to and pull.to and time_of(pull.to) < time_of(since.to):
            raise SourceChangedFault(f"its time has gone back from {since.to} to {pull.to}")

    def _check(self, landing: _Landing) -> None:
        limits = self.config.limits
        if limits.rows is not None and landing.file.rows > limits.rows:
            raise PullTooLargeError(table=self.name, limit=f"{limits.rows:,} rows", number=landing.number)
        if landing.file.size > limits.bytes:
            raise PullTooLargeError(table=self.name, limit=f"{limits.bytes:,} bytes", number=landing.number)

    @contextlib.contextmanager
    def _within_time(self, source: PulledSource, begun: float) -> Iterator[None]:
        """Close the source when its time since then is over, or the process is asked to end.

        Raises:
            LakehouseError: That was so: what was asked or read is not whole, however it ended.
        """
        end = begun + self.config.limits.time.total_seconds()
        with watched(source, end=end, stopping=self._stopping) as late:
            self._late = late
            try:
                yield
            except SourceFault:
                self._require_time()
                raise
            else:
                self._require_time()
            finally:
                self._late = None

    def _require_time(self) -> None:
        if (ending := self.ending()) is not None:
            raise ending

    def _enter(self, phase: str, number: int) -> None:
        """Log that a pull has reached a phase, as commits do."""
        facts = {"phase": phase, "table": str(self.name), "stage": "pull", "batch": number}
        _phases.debug("%s pull: %s %s", self.name, number, phase, extra=facts)


def pull_together(
    pulls: Sequence[TablePulls], *, accept: bool = False, retries: Retries | None = None
) -> dict[str, Manifest]:
    """Pull tables, several of them in one state; return the new manifests by table.

    All are landed before the first is sealed. What may pass by itself is tried again within the budget, with
    pauses that grow, or as long as the source asks for.

    Args:
        accept: Whether another source than before will do; all rows are then pulled.
        retries: The pauses; by default those of the declared budget, and the log tells of them.

    Raises:
        SourceUnreachableError: It did not pass within the budget.
        SourceRefusedError, SourceChangedError, PullUnstableError, TypeNotExactError: It will not pass by
            itself; it was tried once.
        PullTooLargeError: A pull is over the declared limits.
    """
    retries = retries or Retries(pulls[0].config.retry.budget)
    while True:
        at_work = pulls[0]
        keep = False
        try:
            shared: Mapping[str, Any] | None = None
            for one in pulls:
                at_work = one
                pull = one.land(accept=accept, shared=shared)
                if pull is not None and len(pulls) > 1:
                    shared = shared or pull.facts
            sealed = {str(one.name): one.seal() for one in pulls}
            return {name: manifest for name, manifest in sealed.items() if manifest is not None}
        except TransientFault as fault:
            ends = at_work._stopping.is_set()  # noqa: SLF001 - the same module
            progress = at_work.progress if len(pulls) == 1 else 0
            pause = None if ends else retries.pause(at_work.name, fault, progress=progress)
            if pause is None:
                raise at_work.explained(fault) from fault
            keep = len(pulls) == 1
        except SourceFault as fault:
            raise at_work.explained(fault) from fault
        finally:
            for one in pulls:
                one.release(keep=keep)
        at_work._stopping.wait(pause)  # noqa: SLF001 - the same module
