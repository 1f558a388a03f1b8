"""What a container of the service runs: the packaged project, with its configuration from S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.deploy.job import parser, unpacked
from kedro_lakehouse.project import Project
from kedro_lakehouse.service.server import serve

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> None:
    """Serve the environment on all addresses until SIGTERM: a balancer before it ends TLS.

    Args:
        words: ``--conf_archive``, ``--package``, ``--env`` and ``--variables`` as a job takes them, and
            ``--port``.
    """
    made = parser()
    made.add_argument("--port", type=int, required=True)
    given = made.parse_args(words)
    with unpacked(given) as folder:
        serve(Project.load(str(folder / "conf"), given.env), "0.0.0.0", given.port)  # noqa: S104 - see above


if __name__ == "__main__":
    main()
