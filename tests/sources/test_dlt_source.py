"""The example plug-in for dlt keeps the contract of pulled sources, and does nothing beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("dlt", reason="`make test-sources` installs dlt")
from harness.project import ROOT, environment, script

if TYPE_CHECKING:
    from typing import Any

EXAMPLE = Path(ROOT / "examples/dlt-source")
sys.path += [str(EXAMPLE / "src"), str(EXAMPLE / "tests")]

pytestmark = pytest.mark.sources
_tests: Any = script(EXAMPLE / "tests/test_dlt_source.py")
TestDlt = _tests.TestDlt
test_values = _tests.test_values_that_json_has_not_are_texts_or_refused

ALONE = """
import socket, sys
def refuse(*_, **__):
    raise AssertionError("a connection")
socket.socket.connect = refuse
import dlt
from lakehouse_dlt import DltConfig, DltSource
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.pulls.protocol import Since
sys.modules["alone"] = sys.modules[__name__]
numbers = dlt.resource([{"id": n} for n in range(3)], name="numbers")
config = DltConfig(type="dlt", path=sys.argv[1], source="alone:made")
made = lambda: numbers
source = DltSource(config, None, TableConfig(source="s", entity="numbers", keys=("id",)), {})
chunks = source.read(source.plan(Since(number=0, to=None)), None)
print(sum(len(chunk.rows) for chunk in chunks), dlt.config["runtime.dlthub_telemetry"])
"""


def test_a_resource_is_read_without_state_files_and_telemetry(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    surroundings = environment() | {"HOME": str(home)}
    surroundings["PYTHONPATH"] = f"{EXAMPLE / 'src'}:{surroundings.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path)],
        cwd=home, env=surroundings, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["3", "False"]
    assert list(home.rglob("*")) == []
