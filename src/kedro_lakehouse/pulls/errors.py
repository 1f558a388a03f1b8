"""How a pulled source says what went wrong: for a while, or until someone mends it."""

from __future__ import annotations


class SourceFault(Exception):  # noqa: N818 - what the source says; the package's error is made of it
    """A source could not be asked. The text holds no secret and no value of a row."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        """Take what happened and, where the source knows it, what mends it."""
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class TransientFault(SourceFault):
    """It may pass by itself: no connection, lost in the middle, too many requests, an error of the server."""

    def __init__(self, reason: str, remedy: str = "", retry_after: float | None = None) -> None:
        """Also take the seconds that the source asks to wait, where it says so."""
        super().__init__(reason, remedy)
        self.retry_after = retry_after


class TerminalFault(SourceFault):
    """It stays until someone mends it: wrong credentials, no right, no such table. It is tried once."""


class SourceChangedFault(TerminalFault):
    """The source is not the one of earlier pulls: another server, a table made anew, a cursor gone back."""


class UnstableFault(TerminalFault):
    """What was read is no state of the source: pages moved while they were read, again and again."""


class InexactFault(TerminalFault):
    """A column has a type whose values would change on their way; the remedy names the cast."""
