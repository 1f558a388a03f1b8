"""``kedro lakehouse serve``: the metadata service over HTTP."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

import click

from kedro_lakehouse.cli.options import env_option, no_roles, open_project

_MODULES: Final = ("fastapi", "uvicorn")


@click.command()
@env_option
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port to listen on; default: `service.port` of service.yml."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. What leaves this machine needs TLS in front: tokens are sent as they are.",
)
@click.option(
    "--new-token",
    metavar="ROLE",
    help="Print a new token for a role of grants.yml, and the hash to write into credentials.yml; then end.",
)
@no_roles("Each token has its own role:")
def serve(*, port: int | None, host: str, new_token: str | None) -> None:
    """Serve datasets, their snapshots, and queries over HTTP, without Spark.

    Each request shows a token, and sees what its role of grants.yml may see. Listens until it is stopped by
    Ctrl-C or SIGTERM. Needs the extra `service`.

    \b
    Examples:
      kedro lakehouse serve --new-token analyst
      kedro lakehouse serve --port 8321
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse import errors
    from kedro_lakehouse.cli.ports import is_taken

    project = open_project()
    if new_token is not None:
        from kedro_lakehouse.service.tokens import hash_of_token
        from kedro_lakehouse.service.tokens import new_token as made

        project.grants.of(new_token)  # refuses a role that is not declared
        token = made()
        click.echo(token)
        click.echo(
            f"It is shown once. Write its hash into conf/local/credentials.yml:\n"
            f"{project.service.credentials}:\n  {new_token}: {hash_of_token(token)}",
            err=True,
        )
        return
    if any(find_spec(name) is None for name in _MODULES):
        raise errors.UnsupportedError(
            what="The service needs FastAPI and uvicorn, which are not installed.",
            remedy="`pip install 'kedro-lakehouse[service]'`, then `kedro lakehouse serve`.",
        )
    chosen = port or project.service.port
    if is_taken(chosen, host):
        raise errors.UnsupportedError(
            what=f"Something else listens on port {chosen}.",
            remedy="Choose another one: `kedro lakehouse serve --port NUMBER`.",
        )
    from kedro_lakehouse.service.server import serve as run

    click.echo(f"http://{host}:{chosen}/v1/datasets")
    run(project, host, chosen)
