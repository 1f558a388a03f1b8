"""Plant each fault into a copy of the package, and run the tests that must find it.

Usage: ``python -m faults [WORD]``. A word chooses the faults whose entry in planted.yml contains it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.project import ROOT

from faults.planted import FAULTS, Fault


def tell(*lines: str) -> None:
    """Print lines at once."""
    for line in lines:
        print(line, flush=True)  # noqa: T201


def is_found(fault: Fault, folder: Path) -> bool:
    """Whether a test fails in a copy of the package that has the fault."""
    package = Path(shutil.copytree(ROOT / "src", folder / "src")) / "kedro_lakehouse"
    file = package / fault.file
    file.write_text(fault.planted_in(file.read_text(encoding="utf-8")), encoding="utf-8")
    env = os.environ | {"KEDRO_LAKEHOUSE_CASES": "beside-rules"}
    # The copy stands in the place of src, which pytest would put before all others.
    path = f"pythonpath={folder / 'src'} tests"
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "-o", path]
    command += ["-m", "not delta"]  # the slow ones and those of AWS, too
    command += fault.found_by.split()
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout[-2000:] + done.stderr[-2000:]
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    tell(*[f"  {line[:150]}" for line in failed[:1]])
    return done.returncode == 1


def main(word: str = "") -> int:
    chosen = [f for f in FAULTS if word in " ".join(vars(f).values())]
    missed = []
    for number, fault in enumerate(chosen, 1):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = is_found(fault, Path(folder))
        outcome = f"{'found' if found else 'MISSED'} ({time.monotonic() - begun:.0f} s)"
        tell(f"{number} of {len(chosen)}: {fault.what}: {outcome}")
        missed += [] if found else [fault.what]
    tell(f"{len(chosen) - len(missed)} of {len(chosen)} faults were found; missed: {missed}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
