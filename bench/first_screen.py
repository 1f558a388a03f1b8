"""What the first `make run` shows: how many lines, and for how long nothing.

Usage: ``python3 bench/first_screen.py [--terminal] [--again] [--keep FOLDER]`` (some three minutes).

Clones this repository's last commit into a new folder and runs ``make run`` there, through a pipe or, with
``--terminal``, on a terminal of its own, where a line of progress may be rewritten. Prints how many lines
stay on the screen, the longest silences with the line before each, and the disk that the folder then takes.
With ``--again`` it runs a second time, which must be short and must not repeat what the first one said.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 3
GIT, DU, MAKE = (str(shutil.which(name)) for name in ("git", "du", "make"))


def shown(folder: Path, *, terminal: bool) -> tuple[str, list[tuple[float, str]], float]:
    """Run `make run`: what it wrote, each silence with the line before it, the seconds of the whole."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    begun = heard = time.monotonic()
    command = [MAKE, "--no-print-directory", "run"]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written, silences = "", []
    while True:
        select.select([ours], [], [])
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # a terminal whose last writer has gone
            chunk = b""
        now = time.monotonic()
        last = written.rstrip("\r\n").replace("\r", "\n").rpartition("\n")[2]
        silences.append((now - heard, last))
        heard = now
        if not chunk:
            break
        written += chunk.decode("utf-8", "replace")
    os.close(ours)
    if process.wait():
        sys.exit(f"make run failed:\n{written}")
    return written, sorted(silences, reverse=True), time.monotonic() - begun


def main() -> None:
    """Print lines, silences and disk."""
    parser = argparse.ArgumentParser(description="Count the lines and the silences of a first `make run`.")
    parser.add_argument("--terminal", action="store_true", help="run it on a terminal instead of a pipe")
    parser.add_argument("--again", action="store_true", help="run a second time")
    parser.add_argument("--keep", metavar="FOLDER", help="a new folder for the clone, which then stays")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(chosen.keep or temporary, "kedro-lakehouse").resolve()
        subprocess.run([GIT, "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
        for which in ("first", "second") if chosen.again else ("first",):
            written, silences, seconds = shown(folder, terminal=chosen.terminal)
            lines = written.splitlines() if not chosen.terminal else written.replace("\r\n", "\n").split("\n")
            (folder.parent / f"{which}.txt").write_text(written, encoding="utf-8")
            print(f"{which} run: {len(lines)} lines in {seconds:.0f} s")
            for silence, last in silences[:LONGEST]:
                print(f"  {silence:5.1f} s of silence after: {last}")
        for part in (".venv", ".cache", "data", ""):
            used = subprocess.run([DU, "-sk", folder / part], capture_output=True, text=True, check=True)
            print(f"disk: {int(used.stdout.split()[0]) / 1024:7.0f} MB in {part or 'the whole folder'}")
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
