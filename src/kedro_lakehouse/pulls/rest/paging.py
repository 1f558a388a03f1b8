"""Pages: what is asked for at a position, and the position after an answer.

A position is a mapping that can be written as JSON: ``{}`` is the begin, ``END`` is after the last page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from kedro_lakehouse.pulls.errors import TerminalFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kedro_lakehouse.config.rest import RestPaging
    from kedro_lakehouse.pulls.rest.answers import Answer

Position: TypeAlias = "Mapping[str, Any]"
END: Final[Position] = {"end": True}


class Pages:
    """The pages of one resource, by its declared paging."""

    def __init__(
        self, paging: RestPaging, resource: str, parameters: Mapping[str, str], hidden: frozenset[str]
    ) -> None:
        """Keep the declaration; ``hidden`` are parameters with secrets, which no position may hold."""
        self._paging, self._resource, self._parameters, self._hidden = paging, resource, parameters, hidden
        ways: Mapping[str, Callable[[Position, Answer, int], Position]] = {
            "none": lambda _at, _answer, _count: END,
            "page": self._next_page,
            "offset": self._next_offset,
            "cursor": self._next_cursor,
            "link": self._next_link,
        }
        self._after = ways[paging.type]

    def request(self, at: Position) -> tuple[str, list[tuple[str, str]]]:
        """The address and the parameters of the page at a position, without those that log in."""
        if "link" in at:
            parts = urlsplit(urljoin(self._resource, at["link"]))
            return urlunsplit(parts._replace(query="")), parse_qsl(parts.query, keep_blank_values=True)
        parameters = dict(self._parameters)
        if self._paging.type in ("page", "offset"):
            parameters[self._counter] = str(at.get("at", self._first))
        elif "cursor" in at:
            parameters[str(self._paging.parameter)] = at["cursor"]
        return self._resource, list(parameters.items())

    def after(self, at: Position, answer: Answer, count: int) -> Position:
        """The position after an answer with so many records.

        Raises:
            TerminalFault: The next page is the same one, or it is on another server.
        """
        following = self._after(at, answer, count)
        if following == at:
            raise TerminalFault(
                "The API names as the next page the one that it just gave",
                "Look into `paging`: is `next` the path of the next page, and `parameter` the right one?",
            )
        return following

    @property
    def _counter(self) -> str:
        return self._paging.parameter or self._paging.type

    @property
    def _first(self) -> int:
        default = 1 if self._paging.type == "page" else 0
        return default if self._paging.first is None else self._paging.first

    def _next_page(self, at: Position, answer: Answer, count: int) -> Position:
        return self._counted(at.get("at", self._first) + 1, answer, count)

    def _next_offset(self, at: Position, answer: Answer, count: int) -> Position:
        return self._counted(at.get("at", self._first) + count, answer, count)

    def _counted(self, number: int, answer: Answer, count: int) -> Position:
        more = self._paging.more
        is_last = count == 0 if more is None else answer.text(more) is None
        if not is_last and count == 0:
            raise TerminalFault(
                "The API answers with a page without records and says that there are more",
                f"Look whether `more: {more}` is the path of the flag.",
            )
        return END if is_last else {"at": number}

    def _next_cursor(self, _at: Position, answer: Answer, _count: int) -> Position:
        cursor = answer.text(str(self._paging.next))
        return END if cursor is None else {"cursor": cursor}

    def _next_link(self, at: Position, answer: Answer, _count: int) -> Position:
        following = next_link(answer, self._paging.next)
        if following is None:
            return END
        here = urlsplit(self._resource)
        there = urlsplit(urljoin(self.request(at)[0], following))
        if (there.scheme, there.netloc) != (here.scheme, here.netloc):
            raise TerminalFault(
                f"The API at {here.netloc} names a next page on another server, which would get the log-in",
                "Declare the server that it names as `base_url`, if it is to be trusted.",
            )
        pairs = parse_qsl(there.query, keep_blank_values=True)
        query = urlencode([(name, value) for name, value in pairs if name not in self._hidden])
        return {"link": f"{there.path}?{query}" if query else there.path}


def next_link(answer: Answer, path: str | None) -> str | None:
    """The address of the next page, from the body or from the header ``Link``; None if there is none.

    Source:
        RFC 8288, section 3.
    """
    if path is not None:
        return answer.text(path)
    for target, parameters in _links(answer.headers.get("link", "")):
        if "next" in parameters.get("rel", "").lower().split():
            return target
    return None


def _links(header: str) -> list[tuple[str, dict[str, str]]]:
    """The targets of a header ``Link`` with their parameters; a target may hold commas."""
    found = []
    rest = header
    while (start := rest.find("<")) >= 0 and (end := rest.find(">", start)) >= 0:
        target, rest = rest[start + 1 : end], rest[end + 1 :]
        parameters, rest = _parameters(rest)
        found.append((target, parameters))
    return found


def _parameters(text: str) -> tuple[dict[str, str], str]:
    """The parameters behind a target, and what follows the comma after them."""
    found: dict[str, str] = {}
    piece, quoted = "", False
    for number, letter in enumerate(text + ","):
        if letter == '"':
            quoted = not quoted
        elif letter in ",;" and not quoted:
            name, _, value = piece.partition("=")
            found.setdefault(name.strip().lower(), value.strip())
            piece = ""
            if letter == ",":
                return found, text[number + 1 :]
        else:
            piece += letter
    return found, ""
