"""What pymongo raises, as faults of a source: without its texts, which may hold names, hosts and values."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.pulls.errors import SourceFault, TerminalFault, TransientFault

if TYPE_CHECKING:
    from collections.abc import Iterator

_REFUSED: Final = {
    13: ("the user may not do this", "Give the user the role `read` on the database."),
    18: ("the credentials were refused", "Correct `uri` in credentials.yml; it was tried once."),
    8000: ("the credentials were refused", "Correct `uri` in credentials.yml; it was tried once."),
}
_PASSING: Final = frozenset(
    {6, 7, 43, 50, 89, 91, 134, 175, 189, 202, 237, 262, 9001, 10107, 11600, 11602, 13435}
)
"""Codes of the server for what may pass: hosts that are not reached, elections, cursors that are gone."""


@contextmanager
def faults() -> Iterator[None]:
    """Raise the driver's errors as faults.

    Raises:
        TransientFault: No connection, lost in the middle, an election, a cursor that the server gave up.
        TerminalFault: Credentials or rights that are wrong, a connection string that is none, anything else.
    """
    from pymongo import errors

    try:
        yield
    except SourceFault:
        raise
    except errors.OperationFailure as error:
        raise _of_server(error) from None
    except errors.ConnectionFailure as error:
        raise TransientFault(
            f"no server answers, or the connection was lost ({type(error).__name__})"
        ) from None
    except (errors.InvalidURI, errors.ConfigurationError) as error:
        raise TerminalFault(
            f"the connection string cannot be used ({type(error).__name__})",
            "Correct `uri` in credentials.yml; a name of mongodb+srv:// must be in DNS.",
        ) from None
    except errors.PyMongoError as error:
        raise TerminalFault(f"the driver gave up ({type(error).__name__})") from None


def _of_server(error: object) -> SourceFault:
    from pymongo.errors import OperationFailure

    assert isinstance(error, OperationFailure)  # noqa: S101 - the caller looked
    code = error.code or 0
    if code in _REFUSED:
        return TerminalFault(*_REFUSED[code])
    if code in _PASSING or error.has_error_label("RetryableReadError"):
        return TransientFault(f"the server ended the request (code {code})")
    return TerminalFault(f"the server refused the request (code {code})")
