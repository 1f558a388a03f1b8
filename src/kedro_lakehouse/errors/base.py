"""What can go wrong, as types: each leaf keeps its facts, and says what to do.

A leaf is a keyword-only dataclass: its facts are its constructor's arguments and its attributes, and fill the
two sentences ``summary`` and ``advice``. No fact is ever a value of a row; no message holds a fetched secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, dataclass_transform

from kedro.io import DatasetError

from kedro_lakehouse.redaction import redacted

MAX_MESSAGE: Final = 700  # five examples
MAX_EXAMPLES: Final = 5
MAX_MISTAKES: Final = 10
_MAX_ADVICE: Final = 500
MAX_FACT: Final = 160
_MAX_ITEM: Final = 60
_NAMED_EXTRACTS: Final = 3
_STEP: Final = 1024


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return a sentence that names the allowed word nearest to ``word``, or nothing if none is near.

    Example:
        >>> did_you_mean("key", ["keys", "source"])
        " Did you mean 'keys'?"
    """
    near = nearest(word, allowed)
    return f" Did you mean '{near}'?" if near else ""


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed word nearest to ``word``; None if none is near."""
    near = difflib.get_close_matches(word.lower(), sorted(allowed), n=1, cutoff=0.6)
    return near[0] if near else None


def listed(names: Iterable[object]) -> str:
    """Return at most five of ``names`` as text, and how many are left out.

    Example:
        >>> listed("abcdefg")
        'a, b, c, d, e and 2 more'
    """
    shown = [cut(str(name), _MAX_ITEM) for name in names]
    more = len(shown) - MAX_EXAMPLES
    return ", ".join(shown[:MAX_EXAMPLES]) + (f" and {more} more" if more > 0 else "") or "none"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Example:
        >>> counted(1, "table"), counted(2, "table")
        ('1 table', '2 tables')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def sized(number: float) -> str:
    """Return a number of bytes in the unit in which it is read most easily.

    Example:
        >>> sized(12), sized(2048), sized(3 * 1024**5)
        ('12 B', '2.0 KiB', '3,072.0 TiB')
    """
    if number < _STEP:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= _STEP
        if number < _STEP:
            return f"{number:.1f} {unit}"
    return f"{number / _STEP:,.1f} TiB"


def cut(text: str, limit: int) -> str:
    """Return text of at most so many characters, each of them printable."""
    # Names of files and columns come from outside: a control character could forge a line of the log.
    # Secrets go first: half of one would not be known.
    clean = "".join(char if char.isprintable() else "?" for char in redacted(text))
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def shown(fact: object) -> str:
    """Return a fact as a message shows it."""
    if fact is None:
        return "not known"
    if isinstance(fact, Sequence) and not isinstance(fact, str | bytes):
        return listed(fact)
    if isinstance(fact, float):
        return f"{fact:g}"
    return cut(str(fact), MAX_FACT)


def then(remedy: str, command: str) -> str:
    """Return a remedy with the command that comes after it, unless it names one itself.

    Example:
        >>> then("Declare it.", "kedro run")
        'Declare it. Then `kedro run`.'
    """
    return remedy if "`kedro " in remedy else f"{remedy} Then `{command}`."


@dataclass_transform(kw_only_default=True, eq_default=False)
class LakehouseError(DatasetError):
    """Everything that this package raises on purpose; a leaf has a stable ``code`` and two sentences."""

    code: ClassVar[str] = "LAKEHOUSE"
    summary: ClassVar[str] = ""
    advice: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Make the annotated facts of a leaf its keyword-only arguments."""
        super().__init_subclass__(**kwargs)
        if "__init__" not in cls.__dict__:
            dataclass(kw_only=True, eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        """Make the message from the facts; where it is too long, the advice stays whole."""
        what, advice = self.sentences()
        end = " " + cut(advice, _MAX_ADVICE) if advice else ""
        start = f"[{self.code}] "
        self.args = (start + cut(what, MAX_MESSAGE - len(start) - len(end)) + end,)

    def sentences(self) -> tuple[str, str]:
        """Return what is wrong (where, expected, found), and what to do."""
        facts = {name: shown(fact) for name, fact in vars(self).items()}
        return self.summary.format_map(facts), self.advice.format_map(facts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the error cross a process border with its facts."""
        return (type(self).__new__, (type(self), *self.args), self.__dict__)


class TransientError(LakehouseError):
    """Nothing was written: call again."""


class TerminalError(LakehouseError):
    """Nothing changes by calling again: the input or the declaration must."""


class TableError(TerminalError):
    """The same, about one table."""

    table: object


class UnknownOutcomeError(LakehouseError):
    """The commit may have happened: look for its token, and clean nothing up before the answer is known."""
