"""The rules alone: random histories of every design, planted faults, and the contract's cases."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from harness.project import environment
from harness.soak import soaking
from property.seeds import SWITCH, the_seed

from kedro_lakehouse.session.line import is_spark3
from rules.cases import CASES
from rules.faults import FAULTS

pytestmark = [
    pytest.mark.property,
    pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4: `make test` runs it"),
]

HISTORIES, IN_SOAK = 40, 2_000
"""Histories a design."""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    number = IN_SOAK if soaking() else HISTORIES
    command = [sys.executable, "-m", "rules.on_sail", str(the_seed()), str(number)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, timeout=3600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_every_design_is_the_models_after_every_batch(found: dict[str, Any]) -> None:
    assert found["differences"] == {}, f"again with {SWITCH}={the_seed()}"


def test_after_an_erasure_every_design_is_the_models_without_the_subjects(found: dict[str, Any]) -> None:
    assert found["erasures"] == {}, f"again with {SWITCH}={the_seed()}"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(found: dict[str, Any], fault: str) -> None:
    assert found["faults"][fault], f"again with {SWITCH}={the_seed()}"


@pytest.mark.parametrize("case", CASES)
def test_a_case_holds_what_it_expects(found: dict[str, Any], case: str) -> None:
    assert found["cases"][case] == []
