"""How a commit that loses races waits: growing pauses, and an end."""

import pytest

from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.ops.patience import Patience

pytestmark = pytest.mark.unit

LOST = CommitConflictError(table="shop.item", attempts=1)


class Time:
    """A clock that goes on by sleeping alone."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += max(seconds, 0.01)


def patience(time, deadline):
    return Patience("shop.item", deadline, clock=lambda: time.now, sleep=time.sleep)


def test_pauses_grow_and_end_at_the_deadline():
    time = Time()
    waiting = patience(time, 60.0)

    def lose_for_ever():
        while True:
            waiting.pause(LOST)

    with pytest.raises(CommitConflictError) as raised:
        lose_for_ever()
    assert raised.value.__cause__ is LOST
    assert raised.value.attempts == len(time.slept) + 1
    assert 60 <= time.now <= 70
    assert max(time.slept[:3]) <= 0.4
    assert max(time.slept) > 1


def test_after_a_success_the_time_begins_anew():
    time = Time()
    waiting = patience(time, 5.0)
    for _ in range(50):
        waiting.pause(LOST)
        waiting.succeeded()
        time.now += 1
    assert time.now > 50
