"""Which of the entries that a format keeps are commits of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kedro_lakehouse.formats.base import commits_of_batches
from kedro_lakehouse.testing import report

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.unit

REPORTS = [report(batch) for batch in range(101)]
TEXTS = [one.to_property() for one in REPORTS]


def test_an_entry_that_repeats_a_bookmark_is_no_commit_of_a_batch() -> None:
    said = {9: TEXTS[2], 7: TEXTS[2], 5: TEXTS[1], 4: TEXTS[1], 3: TEXTS[1], 2: None, 1: None}
    entries = [(bookmark, at) for at, bookmark in said.items()]
    assert list(commits_of_batches(entries)) == [(REPORTS[2], 7), (REPORTS[1], 3)]
    assert list(commits_of_batches([])) == []


def test_the_newest_costs_no_walk_through_all() -> None:
    read = []

    def entries() -> Iterator[tuple[str | None, int]]:
        for at in range(100, 0, -1):
            read.append(at)
            yield TEXTS[at], at

    assert next(commits_of_batches(entries())) == (REPORTS[100], 100)
    assert read == [100, 99]
