"""The processes of Sail end with the process that started them, also if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from harness.project import environment

from kedro_lakehouse.session.line import is_spark3

pytestmark = [
    pytest.mark.property,
    pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4: `make test` runs it"),
]

PROGRAM = """
import os, time
from kedro_lakehouse.session.sail import on_sail
print(*on_sail(lambda session: (os.getpid(), session.range(2).count())), flush=True)
time.sleep(60)
"""


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_of_a_killed_one(number: int) -> None:
    program = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment()) as started:
        assert started.stdout is not None
        worker, rows = map(int, started.stdout.readline().split())
        assert rows == 2
        assert is_there(worker)
        started.send_signal(number)
        # A process that is left would keep its end of the pipe open.
        assert started.communicate(timeout=15)[0] == ""
    until = time.monotonic() + 15
    while is_there(worker) and time.monotonic() < until:
        time.sleep(0.1)
    assert not is_there(worker)
