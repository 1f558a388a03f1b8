"""A resource of a REST API as a pulled source."""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from kedro_lakehouse.config.rest import RestSourceConfig
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.pulls.protocol import (
    Chunk,
    Entity,
    EntityColumn,
    Pull,
    PullCapabilities,
    Since,
    window_begin,
)
from kedro_lakehouse.pulls.rest.client import RestClient
from kedro_lakehouse.pulls.rest.paging import END, Pages
from kedro_lakehouse.pulls.rest.readings import read_once, read_twice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.pulls.rest.paging import Position

_KINDS: Final[Mapping[bytes, str]] = {
    b'"': "string",
    b"{": "object",
    b"[": "array",
    b"t": "boolean",
    b"f": "boolean",
}


class RestSource:
    """The records of one resource of an API."""

    config_model: ClassVar[type[RestSourceConfig]] = RestSourceConfig
    capabilities: ClassVar[PullCapabilities] = PullCapabilities(
        modes=frozenset({"full", "incremental", "snapshot"}), lands="json", resumes=True
    )

    def __init__(
        self, config: RestSourceConfig, name: TableName, table: TableConfig, credentials: Mapping[str, Any]
    ) -> None:
        """Keep the declarations and the secrets."""
        self._config, self._name, self._table, self._credentials = config, name, table, credentials
        self._resource = config.resource(table)
        self._path = urlsplit(self._resource).path
        self._given: RestClient | None = None

    def describe(self) -> Entity:
        """An API has no catalog: the fields of the records on the first page, and their kinds in JSON."""
        pages = self._pages(Pull(from_=None, to=None))
        return Entity(columns=_fields(next(iter(self._from(pages, {})))[0]))

    def plan(self, since: Since) -> Pull | None:
        """A window up to the server's own time, or everything as it is at that time."""
        now = self._client.clock(self._resource, where=self._path)
        parts = urlsplit(self._resource)
        identity = {"server": f"{parts.scheme}://{parts.netloc}", "table": parts.path}
        if self._mode != "incremental":
            return Pull(from_=None, to=_iso(now), identity=identity)
        if since.to is not None and now <= _time(since.to):
            return None
        begin = window_begin(since, self._config.pull_of(self._table))
        return Pull(from_=None if begin is None else _iso(_time(begin)), to=_iso(now), identity=identity)

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """The records of a window, page after page, in the bytes of the answers."""
        pages = self._pages(pull)
        reading = read_twice if self._config.verify == "twice" else read_once
        return reading(lambda at: self._from(pages, at), state)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._given is not None:
            self._given.close()

    @cached_property
    def _client(self) -> RestClient:
        require_packages()
        self._given = RestClient(self._config, self._credentials)
        return self._given

    @property
    def _mode(self) -> str:
        return self._config.mode_of(self._table)

    def _pages(self, pull: Pull) -> Pages:
        auth = self._config.auth
        hidden = {auth.name} if auth and auth.type == "api_key" and auth.in_ == "query" else set()
        parameters = {name: str(value) for name, value in self._config.parameters.items()}
        return Pages(
            self._config.paging, self._resource, {**parameters, **self._window(pull)}, frozenset(hidden)
        )

    def _window(self, pull: Pull) -> dict[str, str]:
        """The parameters of a pull's window."""
        window = self._config.window
        if window is None or self._mode != "incremental":
            return {}
        ends = {window.from_: pull.from_}
        if window.to is not None:
            ends[window.to] = pull.to
        return {name: _written(_time(text), window.format) for name, text in ends.items() if text is not None}

    def _from(self, pages: Pages, at: Position) -> Iterator[tuple[Sequence[bytes], Position]]:
        """The records of each page from a position on, with the position after it."""
        while at != END:
            url, parameters = pages.request(at)
            answer = self._client.get(url, parameters, where=self._path)
            records = answer.records(self._config.records)
            at = pages.after(at, answer, len(records))
            yield records, at


def require_packages() -> None:
    """Refuse to go on without the packages of the extra ``rest``.

    Raises:
        UnsupportedError: One is not installed.
    """
    try:
        import httpx2  # noqa: F401
        import msgspec  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            what=f"A source of type rest needs the package {error.name}.",
            remedy='Run `pip install "kedro-lakehouse[rest]"`.',
        ) from error


def _fields(records: Sequence[bytes]) -> tuple[EntityColumn, ...]:
    import msgspec

    kinds: dict[str, set[str]] = {}
    for record in records:
        for name, value in msgspec.json.decode(record, type=dict[str, msgspec.Raw]).items():
            text = bytes(value)
            kinds.setdefault(name, set()).add("null" if text == b"null" else _KINDS.get(text[:1], "number"))
    return tuple(
        EntityColumn(
            name=name, type=" or ".join(sorted(found - {"null"})) or "null", nullable="null" in found
        )
        for name, found in kinds.items()
    )


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _iso(time: dt.datetime) -> str:
    return time.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _written(time: dt.datetime, form: str) -> str:
    if form == "iso":
        return _iso(time)
    seconds = int(time.timestamp())
    return str(seconds * 1000 if form == "unix_ms" else seconds)
