"""The context of a log line: the run (one per process), and the node, table and batch (per thread)."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FACTS: Final = ("node", "table", "batch")
"""What a thread is working on; each is None where there is no such thing."""

_facts: ContextVar[Mapping[str, object]] = ContextVar("kedro_lakehouse.facts", default=MappingProxyType({}))


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """A run as its log lines name it; ``correlation_id`` is the scheduler's, or else the run's own id."""

    run_id: str
    correlation_id: str
    pipeline: str

    def fields(self) -> dict[str, str]:
        """The fields of a line that all lines of the run share."""
        return asdict(self)


def at_work_on() -> dict[str, object]:
    """What this thread is working on: always all of ``FACTS``."""
    return dict.fromkeys(FACTS) | dict(_facts.get())


def turn_to(**facts: object) -> None:
    """Replace the facts in this thread's lines by these; without any, lines name the run alone."""
    _facts.set(facts)


@contextlib.contextmanager
def working_on(**facts: object) -> Iterator[None]:
    """Add these facts to this thread's lines while the block runs."""
    before = _facts.set({**_facts.get(), **facts})
    try:
        yield
    finally:
        _facts.reset(before)
