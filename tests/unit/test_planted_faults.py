"""The planted faults of ``tests/faults`` fit the package as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.planted import FAULTS, Fault
from harness.project import ROOT

import kedro_lakehouse

pytestmark = pytest.mark.unit

PACKAGE = Path(kedro_lakehouse.__file__).parent


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_fits_one_line_and_names_tests_that_are_there(fault: Fault) -> None:
    text = (PACKAGE / fault.file).read_text(encoding="utf-8")
    compile(fault.planted_in(text), fault.file, "exec")
    assert all((ROOT / place).exists() for place in fault.found_by.split())
