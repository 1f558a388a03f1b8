"""Command line: ``kedro lakehouse ...``, and this project's own ``kedro run``."""

import atexit
import gc

from kedro_lakehouse.cli.lakehouse import commands
from kedro_lakehouse.cli.run import cli

# Where a process ends, Python looks for cycles among all objects that are left, to free their memory.
atexit.register(gc.freeze)

__all__ = ["cli", "commands"]
