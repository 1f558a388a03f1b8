"""Hudi keeps what holds of every table format."""

from __future__ import annotations

import pytest
from harness.formats import LooksUp
from py4j.protocol import Py4JError

from kedro_lakehouse.formats.hudi import commit as hudi_commit
from kedro_lakehouse.formats.hudi.format import HudiFormat
from kedro_lakehouse.formats.hudi.table import HudiTable
from kedro_lakehouse.formats.turn import no_turn

pytestmark = [pytest.mark.contract, pytest.mark.spark]


class TestHudi(LooksUp):
    made_by = HudiFormat
    purge_ends_stages = False  # a stage has files of its own alone
    hostile = ("select", "_a", "Mixed_Case9")  # the only kind of names that Avro has
    commits, looks_up = (HudiTable, "write"), (HudiTable, "timeline")
    error = Py4JError("no answer")

    @pytest.fixture
    def no_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a writer has whose lease in S3 is another's already."""
        monkeypatch.setattr(hudi_commit, "one_writer", lambda table, _: no_turn(table.name))
