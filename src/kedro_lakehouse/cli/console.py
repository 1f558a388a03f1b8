"""``kedro lakehouse console``: the lake in a browser."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Never

import click

from kedro_lakehouse.cli.options import access_of, env_option, open_project, role_option
from kedro_lakehouse.cli.ports import is_taken
from kedro_lakehouse.private import CONSOLE_ROLE, CONSOLE_TOKEN, private_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE: Final = 10
"""Seconds that the server has to end by itself; then it is killed."""


@click.command()
@env_option
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Port to listen on."
)
@click.option("--browser/--no-browser", default=True, help="Whether a browser is opened.")
@role_option("Show the columns that this role of grants.yml may see, and no page about runs.")
def console(*, port: int, browser: bool, role: str | None) -> None:
    """Search, profiles, health and a map of the columns, as pages in a browser.

    Listens on this machine only (127.0.0.1) until it is stopped by Ctrl-C or SIGTERM, and shows nothing
    without the token in the address that it prints. Needs the extra `console`.
    """
    import webbrowser

    from kedro_lakehouse import errors
    from kedro_lakehouse.project import find_root

    if find_spec("streamlit") is None:
        raise errors.UnsupportedError(
            what="The console needs Streamlit, which is not installed.",
            remedy="`pip install 'kedro-lakehouse[console]'`, then `kedro lakehouse console`.",
        )
    project = open_project()  # a wrong declaration is reported here, not in the browser
    access_of(project, role)
    if is_taken(port):  # whoever listens there must not be shown the token
        raise errors.UnsupportedError(
            what=f"Something else listens on port {port}.",
            remedy="Choose another one: `kedro lakehouse console --port NUMBER`.",
        )
    token = secrets.token_urlsafe(32)
    chosen = os.environ | {"KEDRO_ENV": project.env, CONSOLE_TOKEN: token}
    if role is not None:
        chosen[CONSOLE_ROLE] = role
    with _stopped_by_a_signal(), _server(find_root(), port, chosen) as server:
        with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-") as folder:
            if _answers(server, port):
                address = f"http://127.0.0.1:{port}/?token={token}"
                click.echo(address)
                if browser:
                    webbrowser.open(_redirect(Path(folder), address).as_uri())
            ended = server.wait()
        if ended:
            raise click.exceptions.Exit(ended)


@contextlib.contextmanager
def _stopped_by_a_signal() -> Iterator[None]:
    """Leave the block without an error when Ctrl-C or SIGTERM asks for it."""

    def stop(*_: object) -> Never:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _server(root: Path, port: int, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run Streamlit for as long as the block lasts: it ends with the command, whatever ends that."""
    # On its standard output Streamlit tells an address without the token.
    server = subprocess.Popen(  # noqa: S603 - our own words
        _command(port), cwd=root, env=environment, stdout=subprocess.DEVNULL
    )
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _command(port: int) -> list[str]:
    page = find_spec("kedro_lakehouse.console.app")
    return [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(page.origin if page else ""),
        "--server.address=127.0.0.1",
        f"--server.port={port}",
        "--server.headless=true",
        "--browser.gatherUsageStats=false",
        "--server.fileWatcherType=none",
        "--client.toolbarMode=viewer",
        "--client.showErrorDetails=none",
        "--server.maxUploadSize=100",
        '--theme.headingFontSizes=["2.25rem", "1.5rem", "1.25rem"]',
        "--theme.light.textColor=#000000",  # captions are paler, and must still have contrast enough
    ]


def _answers(server: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the server answers; False where it ended instead."""
    from urllib.request import urlopen

    while server.poll() is None:
        with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5):
            return True
        time.sleep(0.1)
    return False


def _redirect(folder: Path, address: str) -> Path:
    """A page that only its owner can read, and that leads to an address: others see a browser's words."""
    page = private_file(folder / "console.html")
    page.write_text(f'<meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8")
    return page
