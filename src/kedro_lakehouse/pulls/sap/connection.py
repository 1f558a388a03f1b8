"""The connection to SAP by PyRFC, and what its errors mean. No text of the SDK is repeated."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.pulls.errors import SourceFault, TerminalFault, TransientFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

logger = logging.getLogger(__name__)

_CLOCK: Final = re.compile(r"Date:\s*(\d{8})\s+Time:\s*(\d{2}):?(\d{2}):?(\d{2})")
_SUMMER: Final = 3_600
_CHECK: Final = "Check table and fields: `entity`, `pull.fields`, `pull.where`."
_RIGHTS: Final = "Grant S_RFC for the functions' groups and S_TABU_NAM for the table."
_ANSWERS: Final[Mapping[str, tuple[str, str]]] = {
    "TABLE_NOT_AVAILABLE": ("no data: there is no such table", _CHECK),
    "TABLE_WITHOUT_DATA": ("no data: it is no table with rows of its own", _CHECK),
    "FIELD_NOT_VALID": ("no data: there is no such field", _CHECK),
    "OPTION_NOT_VALID": ("no data: SAP does not understand the condition", _CHECK),
    "NOT_AUTHORIZED": ("the user has no right to read the table", _RIGHTS),
    "DATA_BUFFER_EXCEEDED": ("a row is longer than an answer", "List fewer fields, or lower `width`."),
}
"""What the exceptions of RFC_READ_TABLE say, and what mends it."""


class CanCall(Protocol):
    """What is asked of PyRFC's connection."""

    def call(self, func_name: str, **params: Any) -> Mapping[str, Any]:
        """Call a function; returns what it exports, with its tables."""


class BufferExceeded(TerminalFault):
    """The fields of a call are wider than an answer."""


def connect(connection: Mapping[str, str], credentials: Mapping[str, Any]) -> CanCall:
    """Log in.

    Raises:
        UnsupportedError: PyRFC or SAP's SDK is not installed.
        TransientFault: There is no connection.
        TerminalFault: SAP does not let the user in.
    """
    for key in ("user", "passwd"):
        if not credentials.get(key) and not {"mysapsso2", "x509cert", "snc_partnername"} & set(credentials):
            raise TerminalFault(f"The source's credentials have no `{key}`", f"Add `{key}` to them.")
    try:
        import pyrfc
    except ImportError as error:
        raise UnsupportedError(
            what="A source of type sap needs the package pyrfc.",
            remedy='Run `pip install "kedro-lakehouse[sap]"`, and install SAP\'s NW RFC SDK.',
        ) from error
    server = connection.get("ashost") or connection.get("mshost") or "the declared server"
    try:
        with answered(f"cannot connect to {server}"):
            made: CanCall = pyrfc.Connection(**{**connection, **credentials})
    except Exception as error:
        if type(error).__name__ == "SdkNotFoundError":
            raise UnsupportedError(
                what="SAP's NW RFC SDK is not installed, or SAPNWRFC_HOME does not name its folder.",
                remedy="Download it from SAP: see docs/how-to/pull-from-sap.md.",
            ) from error
        raise
    logger.info("Connected to SAP at %s, client %s", server, connection.get("client"))
    return made


@contextlib.contextmanager
def answered(what: str) -> Iterator[None]:
    """Turn errors of PyRFC into faults; the names of their classes say which.

    The texts of the SDK may hold users, hosts and values: they are not repeated.
    """
    try:
        yield
    except SourceFault:
        raise
    except Exception as error:
        names = {kind.__name__ for kind in type(error).__mro__}
        key = str(getattr(error, "key", "") or "")
        if "ABAPApplicationError" in names:
            reason, remedy = _ANSWERS.get(key, (f"SAP refuses the call ({key or 'no reason given'})", _CHECK))
            kind = BufferExceeded if key == "DATA_BUFFER_EXCEEDED" else TerminalFault
            raise kind(f"{what}: {reason}", remedy) from None
        if names & {"LogonError", "ExternalAuthorizationError"}:
            raise TerminalFault(
                f"{what}: SAP does not let the user in", "Check `user`, `passwd` and `client`."
            ) from None
        if "RFC_NO_AUTHORITY" in key or "AUTHORIZATION" in key:
            raise TerminalFault(f"{what}: the user has no right to call it", _RIGHTS) from None
        if names & {"CommunicationError", "ABAPRuntimeError", "ExternalRuntimeError", "RFCLibError"}:
            raise TransientFault(f"{what} ({key or type(error).__name__})") from None
        raise


def clock(connection: CanCall) -> tuple[dt.datetime, dt.timedelta, str]:
    """SAP's own time in UTC, by how much its local time differs, and the system's identity.

    Raises:
        TerminalFault: The user may not ask, or the answer holds no time.
    """
    with answered("STFC_CONNECTION"):
        clock = _CLOCK.search(str(connection.call("STFC_CONNECTION", REQUTEXT="").get("RESPTEXT", "")))
    with answered("RFC_SYSTEM_INFO"):
        system = connection.call("RFC_SYSTEM_INFO").get("RFCSI_EXPORT", {})
    if clock is None:
        raise TerminalFault("SAP does not tell its time", "Ask whether STFC_CONNECTION was changed.")
    seconds = int(str(system.get("RFCTZONE", "")).strip() or 0)
    ahead = dt.timedelta(seconds=seconds + (_SUMMER if str(system.get("RFCDAYST", "")).strip() else 0))
    local = dt.datetime.strptime("".join(clock.groups()), "%Y%m%d%H%M%S").replace(tzinfo=dt.UTC)
    return local - ahead, ahead, str(system.get("RFCSYSID", "")).strip()
