"""Command line: ``kedro lakehouse ...``, and this project's own ``kedro run``."""

from kedro_lakehouse.cli.lakehouse import commands
from kedro_lakehouse.cli.run import cli

__all__ = ["cli", "commands"]
