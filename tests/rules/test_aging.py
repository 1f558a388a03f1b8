"""Rows that grow old leave their table, and come back: both tables together are the model's at any moment."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from harness.project import environment
from harness.soak import soaking
from property.seeds import SWITCH, the_seed

from kedro_lakehouse.session.line import is_spark3

pytestmark = [
    pytest.mark.property,
    pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4: `make test` runs it"),
]

HISTORIES, IN_SOAK = 30, 2_000
"""Histories a design."""


def test_two_tables_are_the_models_and_planted_faults_are_found() -> None:
    number, designs = (IN_SOAK, "all") if soaking() else (HISTORIES, "some")
    command = [sys.executable, "-m", "rules.aging_on_sail", str(the_seed()), str(number), designs]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, timeout=3600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["differences"] == {}, f"again with {SWITCH}={the_seed()}"
    assert found["back"] > 0, "no row came back to its table"
    assert found["faults"] == {"rows that left": True, "touched keys": True}
