"""``kedro lakehouse console``: the lake in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import click

from kedro_lakehouse.cli.options import env_option, open_project


@click.command()
@env_option
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Port to listen on."
)
@click.option("--browser/--no-browser", default=True, help="Whether a browser is opened.")
def console(*, port: int, browser: bool) -> None:
    """Search, profiles, health and a map of the columns, as pages in a browser.

    Listens on this machine only (127.0.0.1) until it is stopped by Ctrl-C. Needs the extra `console`.
    """
    from kedro_lakehouse import errors
    from kedro_lakehouse.project import find_root

    if find_spec("streamlit") is None:
        raise errors.UnsupportedError(
            what="The console needs Streamlit, which is not installed.",
            remedy="`pip install 'kedro-lakehouse[console]'`, then `kedro lakehouse console`.",
        )
    project = open_project()  # a wrong declaration is told here, not in the browser
    page = find_spec("kedro_lakehouse.console.app")
    command = [
        sys.executable, "-m", "streamlit", "run", str(page.origin if page else ""),
        "--server.address=127.0.0.1", f"--server.port={port}",
        f"--server.headless={str(not browser).lower()}",
        "--browser.gatherUsageStats=false", "--server.fileWatcherType=none", "--client.toolbarMode=viewer",
        "--client.showErrorDetails=none",
        "--server.maxUploadSize=100",
    ]  # fmt: skip
    chosen = os.environ | {"KEDRO_ENV": project.env}
    ended = subprocess.run(command, cwd=find_root(), env=chosen, check=False)  # noqa: S603 - our own words
    if ended.returncode:
        raise click.exceptions.Exit(ended.returncode)
