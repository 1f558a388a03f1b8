"""Resources of dlt as a source that is asked for its items: without dlt's pipeline, state and telemetry."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib import import_module
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from kedro_lakehouse.config.base import Name  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.pulls.errors import InexactFault, SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Chunk, CrawledEntity, Entity, EntityColumn, Pull, PullCapabilities

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from kedro_lakehouse.pulls.protocol import Since

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"  # before dlt is imported
AT_ONCE = 5_000
BUSY = (408, 425, 429)


class DltConfig(PulledSourceConfig):
    """A function that makes a source or resource of dlt; a table's `entity` is a resource of it."""

    lands: ClassVar[Any] = "json"
    source: Name
    """The function, as `module:name`; it gets `arguments`, and the entry of credentials, by their names."""
    arguments: Mapping[str, Any] = {}
    """What the function is called with, beside the credentials."""


class DltSource:
    """The items of one resource, as JSON lines; nothing tells which are new, so each pull reads all."""

    config_model: ClassVar = DltConfig
    capabilities: ClassVar = PullCapabilities(
        modes=frozenset({"full", "snapshot"}), lands="json", crawls=True
    )

    def __init__(self, config: DltConfig, name: Any, table: Any, credentials: Mapping[str, Any]) -> None:
        """Store the declarations; the function is not called yet."""
        self._config, self._entity, self._credentials = config, table.entity, credentials
        self._begun: Iterator[bytes] | None = None
        self._closed = threading.Event()

    @classmethod
    def crawl(
        cls, config: DltConfig, credentials: Mapping[str, Any], *, whole: bool
    ) -> Generator[CrawledEntity, None, None]:
        """Every resource, with the columns and keys that it declares; none is read, so `whole` is nothing."""
        del whole
        for name, resource in resources(config, credentials).items():
            yield CrawledEntity(name=name, entity=described(resource))

    def describe(self) -> Entity:
        """The columns and keys that the resource declares."""
        return described(self._resource())

    def plan(self, since: Since) -> Pull:
        """Ask for the first items, so that what is wrong is told before anything lands."""
        lines = self._lines()
        self._begun = chain(list(islice(lines, 1)), lines)
        identity = {"source": self._config.source, "table": self._entity}
        return Pull(from_=None, to=datetime.now(UTC).isoformat(), identity=identity)

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """Go on with what was begun, or begin again."""
        lines, self._begun = self._begun or self._lines(), None
        while some := list(islice(lines, AT_ONCE)):
            yield Chunk(rows=some)

    def close(self) -> None:
        """End a read after the item in hand."""
        self._closed.set()

    def _resource(self) -> Any:
        found = resources(self._config, self._credentials)
        if self._entity not in found:
            known = ", ".join(sorted(found))
            raise TerminalFault(f"there is no resource '{self._entity}'", f"Set `entity` to one of: {known}.")
        return found[self._entity]

    def _lines(self) -> Iterator[bytes]:
        with faults():
            for item in self._resource():
                if self._closed.is_set():
                    raise TransientFault("the read was ended")
                yield from map(line_of, item.to_pylist() if hasattr(item, "to_pylist") else [item])


def resources(config: DltConfig, credentials: Mapping[str, Any]) -> Mapping[str, Any]:
    """The resources that the declared function makes, by name."""
    module, _, name = config.source.partition(":")
    with faults():
        made = getattr(import_module(module), name)(**config.arguments, **credentials)
    found: Mapping[str, Any] = made.resources if hasattr(made, "resources") else {made.name: made}
    return found


def described(resource: Any) -> Entity:
    """What a resource declares of its items."""
    columns = resource.compute_table_schema().get("columns", {})
    return Entity(
        columns=tuple(
            EntityColumn(name=name, type=one.get("data_type", "unknown"), nullable=one.get("nullable", True))
            for name, one in columns.items()
        ),
        keys=tuple(name for name, one in columns.items() if one.get("primary_key")),
    )


def line_of(item: Any) -> bytes:
    """An item as a line of JSON: decimals, times and ids as texts that lose nothing."""
    if not isinstance(item, Mapping):
        raise InexactFault(f"an item is no object ({type(item).__name__})", "Let the resource give objects.")
    try:
        return json.dumps(item, default=text_of, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        raise InexactFault("an item holds what JSON has not", "Map it to text in the resource.") from None


def text_of(value: Any) -> str:
    """A value that JSON has not, as text."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError


@contextmanager
def faults() -> Iterator[None]:
    """Say what may pass by itself, and what someone must mend, by kinds alone: texts may hold secrets."""
    try:
        yield
    except SourceFault:
        raise
    except Exception as error:  # noqa: BLE001 - the resource is anyone's code
        raise fault_of(error) from None


def fault_of(error: Exception) -> SourceFault:
    """The fault of an error of a resource, by the answer or the connection that it is about."""
    found = list(causes(error))
    for one in found:
        status = getattr(getattr(one, "response", None), "status_code", None)
        if status is not None:
            kind = TransientFault if status in BUSY or status >= 500 else TerminalFault  # noqa: PLR2004
            return kind(f"the API answers {status}")
    kinds = [type(one).__name__ for one in found]
    if any(
        isinstance(one, ConnectionError | TimeoutError) or "Connect" in type(one).__name__ for one in found
    ):
        return TransientFault(f"there is no connection ({kinds[-1]})")
    return TerminalFault(f"the resource failed ({kinds[-1]})", "Run it by itself, as dlt's documents show.")


def causes(error: BaseException | None) -> Iterable[BaseException]:
    """An error and those that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
