"""Hudi keeps what holds of every table format."""

from __future__ import annotations

import pytest
from harness.formats import InOneSession

from kedro_lakehouse.formats.hudi import HudiFormat

pytestmark = [pytest.mark.contract, pytest.mark.spark]


class TestHudi(InOneSession):
    made_by = HudiFormat
    hostile = ("select", "_a", "Mixed_Case9")  # the only kind of names that Avro has
