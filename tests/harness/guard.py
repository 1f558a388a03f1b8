"""Keep a Python process away from Spark, Java and the network, and tell of each attempt on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ATTEMPT = "GUARD:"
_SPARK = ("pyspark", "py4j")
_NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
_PROCESS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if event == "import" and str(args[0]).partition(".")[0] in _SPARK:
        sys.stderr.write(f"{ATTEMPT} {event} {args[0]}\n")
        raise ModuleNotFoundError(f"No module named '{args[0]}'", name=str(args[0]))
    if event in _NETWORK or (event in _PROCESS and "java" in str(args)):
        sys.stderr.write(f"{ATTEMPT} {event} {args}\n")
        raise PermissionError(event)


def guard() -> None:
    """From now on, in this process and those that it forks, refuse Spark's import, Java and the network."""
    sys.addaudithook(_watch)


def guarded(
    *code: str, cwd: Path, python: str = sys.executable, path: Sequence[str | Path] = ()
) -> subprocess.CompletedProcess[str]:
    """Run lines of Python in a guarded process of its own; ``path`` goes before what it imports from."""
    lines = ["from harness.guard import guard", "guard()", *code]
    here = Path(__file__).resolve().parents[1]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [*path, here])), "DO_NOT_TRACK": "1"}
    command = [python, "-c", "\n".join(lines)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def kedro(*words: str) -> str:
    """The line of Python that runs a ``kedro`` command."""
    return f"from kedro.framework.cli.cli import main; import sys; sys.argv = {['kedro', *words]!r}; main()"
