"""Send events one after the other, in a thread beside the run: they neither delay nor fail it."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openlineage.client.event_v2 import RunEvent
    from openlineage.client.transport import Transport

    from kedro_lakehouse.config.monitoring import LineageConfig

logger = logging.getLogger(__name__)

_RETRY: Final = {"total": 1, "read": 1, "connect": 1}


class Emitter:
    """Makes events and hands them to a transport, in the order in which they were asked for.

    After the first that fails, the rest of the run's are dropped: a dead server costs one timeout.
    """

    def __init__(self, transport: Transport) -> None:
        """Keep the transport; the thread starts with the first event."""
        self._transport = transport
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lineage")
        self._failed = False

    def emit(self, make: Callable[[], Sequence[RunEvent]]) -> None:
        """Make events in the emitter's own thread, and send them."""
        self._thread.submit(self._send, make)

    def close(self) -> None:
        """Wait until everything was sent."""
        self._thread.shutdown(wait=True)
        self._transport.close()

    def _send(self, make: Callable[[], Sequence[RunEvent]]) -> None:
        if self._failed:
            return
        try:
            for event in make():
                self._transport.emit(event)
        except Exception as error:  # noqa: BLE001 - lineage never fails a run
            self._failed = True
            # Only the kind: an address or a server's answer may hold what no log should.
            logger.warning(
                "Lineage is not sent for the rest of this run: %s. The tables are not concerned.",
                type(error).__name__,
            )


def transport_of(config: LineageConfig, credentials: Callable[[str], Mapping[str, Any]]) -> Transport:
    """The client's transport for a declaration.

    The client itself stays out: it would add facts about the machine and its git checkout to each event.
    """
    from openlineage.client.transport.file import FileConfig, FileTransport
    from openlineage.client.transport.http import (
        ApiKeyTokenProvider,
        HttpConfig,
        HttpTransport,
        TokenProvider,
    )

    if config.file is not None:
        if "://" not in config.file:
            Path(config.file).parent.mkdir(parents=True, exist_ok=True)
        return FileTransport(FileConfig(log_file_path=config.file, append=True))
    key = str(credentials(config.credentials).get("api_key", "")) if config.credentials else ""
    auth = ApiKeyTokenProvider({"api_key": key}) if key else TokenProvider({})
    url = f"{str(config.url).rstrip('/')}/"
    return HttpTransport(
        HttpConfig(
            url=url, endpoint=config.endpoint.lstrip("/"), timeout=config.timeout, auth=auth, retry=_RETRY
        )
    )
