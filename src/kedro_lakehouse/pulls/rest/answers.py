"""Answers in JSON: the records' own bytes, and what stands beside them. Numbers are never parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import listed
from kedro_lakehouse.pulls.errors import TerminalFault, TransientFault

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_VALUE: Final = frozenset({b"", b"null", b"false", b'""'})
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


class Answer:
    """The body of an answer, and its headers.

    Raises:
        TransientFault: The text is no whole JSON, as after a lost connection; ``where`` tells of what.
    """

    def __init__(self, body: bytes, headers: Mapping[str, str], *, where: str) -> None:
        """Look whether the text is UTF-8; it is parsed when something is asked for."""
        self._body, self.headers, self._where = body.removeprefix(b"\xef\xbb\xbf"), headers, where
        try:
            self._body.decode()
        except UnicodeDecodeError:
            raise TerminalFault(
                f"{where} answers with a text that is not UTF-8", "Ask the API's owner for JSON in UTF-8."
            ) from None

    def records(self, path: str) -> list[bytes]:
        """The records at a path, each on one line as the source wrote it.

        Raises:
            TerminalFault: There is no list of objects.
        """
        import msgspec

        found = self._at(path)
        if found is None or not found.startswith(b"["):
            raise TerminalFault(
                f"{self._where} answers without a list at {f'`{path}`' if path else 'its top'}",
                f"Set `records` to the path of the list. {self._keys()}",
            )
        # A line end in JSON always stands between tokens: within a text it is an escape.
        lines = [
            bytes(one).translate(_LINE_ENDS) for one in msgspec.json.decode(found, type=list[msgspec.Raw])
        ]
        if any(not line.startswith(b"{") for line in lines):
            raise TerminalFault(
                f"{self._where} answers with records that are no JSON objects",
                "Set `records` to the path of a list of objects.",
            )
        return lines

    def text(self, path: str) -> str | None:
        """The text or number at a path, with every digit; None if it is null, false, empty or missing."""
        import msgspec

        found = self._at(path)
        if found is None or found in _NO_VALUE:
            return None
        return msgspec.json.decode(found, type=str) if found.startswith(b'"') else found.decode()

    def _at(self, path: str) -> bytes | None:
        """What stands at a path; None if the path does not lead to anything."""
        import msgspec

        found = self._body.strip()
        try:
            if not path:
                return bytes(msgspec.json.decode(found, type=msgspec.Raw))
            for step in path.split("."):
                if not found.startswith(b"{"):
                    msgspec.json.decode(found, type=msgspec.Raw)
                    return None
                held = msgspec.json.decode(found, type=dict[str, msgspec.Raw])
                if step not in held:
                    return None
                found = bytes(held[step])
        except msgspec.DecodeError:
            raise TransientFault(f"{self._where} answers with what is no whole JSON") from None
        return found

    def _keys(self) -> str:
        """The keys at the top of an answer; never their values."""
        import msgspec

        if not self._body.lstrip().startswith(b"{"):
            return "The answer is no object."
        keys = list(msgspec.json.decode(self._body, type=dict[str, msgspec.Raw]))
        return f"The answer has {listed(sorted(keys)[:5])}." if keys else "The answer has no keys."
