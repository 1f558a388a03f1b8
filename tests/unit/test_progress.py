"""What `make run` shows: one line for each step that takes time, and never silence for long."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest
from harness.project import ROOT

sys.path.insert(0, str(ROOT / "bin"))
import progress

pytestmark = pytest.mark.unit

PROGRESS = [sys.executable, str(ROOT / "bin/progress.py")]
WORK = """
echo "WARNING: Using incubator modules: jdk.incubator.vector" >&2
echo "10:00:00 INFO    shop.order current batch 1: 3 inserted" >&2
sleep 2.6
echo "10:00:01 WARNING odd" >&2
echo "10:00:02 INFO    nearly there" >&2
echo table
"""


def on_a_terminal(command):
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        told = b""
        while True:
            try:
                told += os.read(ours, 65536)
            except OSError:  # nobody writes to it any longer
                break
    os.close(ours)
    return process.returncode, told.decode()


def test_a_pipe_gets_one_line_that_grows_and_what_is_not_information():
    done = subprocess.run(
        [*PROGRESS, "--text", "Working ...", "bash", "-c", WORK], capture_output=True, text=True, check=True
    )
    assert done.stdout == "table\n"
    first, warning, last = done.stderr.splitlines()
    assert re.fullmatch(r"Working \.\.\. \.+", first)
    assert warning == "10:00:01 WARNING odd"
    assert re.fullmatch(r"Working \.\.\. +\d+ s\.", last)


def test_a_terminal_has_one_line_rewritten():
    code, told = on_a_terminal([*PROGRESS, "--text", "Working ...", "bash", "-c", WORK])
    assert code == 0
    assert "shop.order current batch 1: 3 inserted" in told
    stays = [line.rpartition("\x1b[K")[2].strip() for line in told.split("\n")]
    assert [re.sub(r"\d+ s\.", "N s.", line) for line in stays if line] == [
        "10:00:01 WARNING odd",
        "Working ... N s.",
        "table",
    ]


def test_a_step_that_says_when_it_begins_and_ends_has_one_line():
    step = "echo 'Fetching a (once) ...' >&2; sleep 2.6; echo 'It is there (3 s).' >&2"
    done = subprocess.run([*PROGRESS, "bash", "-c", step], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"Fetching a \(once\) \.\.\. \.+ It is there \(3 s\)\.\n", done.stderr)


def test_what_fails_is_told_and_so_is_the_exit_code():
    step = "echo 'Error: no such table' >&2; exit 3"
    done = subprocess.run(
        [*PROGRESS, "--text", "Working ...", "bash", "-c", step], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stderr == "Working ... \nError: no such table\n"


def test_nothing_is_shown_where_nothing_is_open():
    screen = io.StringIO()
    line = progress.Progress(screen)
    line.beat(after=0)
    line.close()
    assert screen.getvalue() == ""


def test_a_first_run_fetches_no_jars_of_delta_and_the_tests_do():
    dry = ["make", "--dry-run", "--always-make", "--no-print-directory"]
    run, test = (
        subprocess.run([*dry, target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for target in ("run", "test")
    )
    assert "kedro_lakehouse.cli.jars" in run
    assert "KEDRO_ENV=delta" not in run
    assert "KEDRO_ENV=delta" in test


def test_the_next_steps_are_few_and_told_once():
    assert len((ROOT / "bin/next-steps.txt").read_text().splitlines()) <= 12
    assert "if [ ! -e .cache/next-steps.told ]" in (ROOT / "Makefile").read_text()
