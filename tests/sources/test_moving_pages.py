"""Rows that come and go between the requests for pages: what is accepted holds each row that stayed, once."""

from __future__ import annotations

import json
import random

import pytest

pytest.importorskip("httpx2", reason="`make test-sources` installs the extra rest")

from harness.rest_api import WHOLE, RestApi, rest_api, source_of
from harness.soak import soaking

from kedro_lakehouse.pulls.errors import UnstableFault

pytestmark = pytest.mark.sources

RUNS = 500 if soaking() else 40
ROWS = 100


class Moving:
    """Rows of which up to two come or go before each answer."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - not for secrets
        self.ids = set(range(0, ROWS * 10, 10))
        self.stayed = set(self.ids)
        self.rows: list[str] = []
        self.written()

    def written(self) -> None:
        self.rows[:] = [f'{{"id": {one}}}' for one in sorted(self.ids)]

    def move(self) -> None:
        for _ in range(self.chance.choice([0, 0, 0, 1, 1, 2])):
            if self.chance.random() < 0.5:
                gone = self.chance.choice(sorted(self.ids))
                self.ids.discard(gone)
                self.stayed.discard(gone)
            else:
                self.ids.add(self.chance.randrange(ROWS * 10))
        self.written()


def accepted(api, rate, **keys):
    """The ids that one pull accepts; None if it is refused. Rows move at a rate of the requests."""
    moving = Moving(api.seed)
    api.rows = moving.rows
    api.before_answer = lambda: moving.move() if moving.chance.random() < rate else None
    source = source_of(api, **keys)
    try:
        landed = [json.loads(row)["id"] for chunk in source.read(WHOLE, None) for row in chunk.rows]
    except UnstableFault:
        return None
    finally:
        source.close()
    assert set(landed) <= set(range(ROWS * 10))
    return len(landed) == len(set(landed)) and moving.stayed <= set(landed)


@pytest.fixture(scope="module")
def server():
    with rest_api(RestApi([], size=20)) as api:
        yield api


def outcomes(server, paging, **keys):
    server.paging = paging
    found = []
    for seed in range(RUNS):
        server.seed = seed
        found.append(accepted(server, seed % 5 / 10, **keys))
    print({word: found.count(word) for word in (True, False, None)})  # noqa: T201 - `pytest -rP` shows it
    return found


def test_a_cursor_by_key_accepts_no_wrong_rows(server):
    assert outcomes(server, "cursor") == [True] * RUNS


@pytest.mark.parametrize("paging", ["page", "offset"])
def test_two_equal_readings_accept_no_wrong_rows(server, paging):
    found = outcomes(server, paging, stable=False, verify="twice")
    assert False not in found
    assert found.count(None) > RUNS / 4
    assert found.count(True) >= RUNS / 5  # those in which nothing moved


def test_one_reading_of_an_offset_accepts_wrong_rows(server):
    assert False in outcomes(server, "offset")
