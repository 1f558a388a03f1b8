"""Serve a project with uvicorn until a signal ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import uvicorn

from kedro_lakehouse.service.app import made_app

if TYPE_CHECKING:
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.service.gate import Gate

_LARGEST_HEADERS: Final = 32 * 1024
_MOST_AT_ONCE: Final = 200
_PATIENCE: Final = 5


def serve(project: Project, host: str, port: int) -> None:
    """Answer requests until SIGINT or SIGTERM; queries that run then end with it.

    Raises:
        ConfigurationError: Something is wrong in service.yml, grants.yml or the tokens.
    """
    uvicorn.Server(settings(made_app(project), host, port)).run()


def settings(app: Gate, host: str, port: int) -> uvicorn.Config:
    """How uvicorn runs the service: no web sockets, no words about itself, bounded headers."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http="h11",
        h11_max_incomplete_event_size=_LARGEST_HEADERS,
        limit_concurrency=_MOST_AT_ONCE,
        timeout_graceful_shutdown=_PATIENCE,
        server_header=False,
        access_log=False,
        log_config=None,
        ws="none",
    )
