"""The lease in S3 while the line to S3 is bad, and while its holder is stopped; against moto."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from itertools import pairwise

import boto3
import pytest
from harness.aws import LAKEHOUSE, moto_aws
from harness.lossy import FaultyS3, served

from kedro_lakehouse.aws import client
from kedro_lakehouse.errors import AwsRefusedError, LeaseLostError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops import object_lease as module
from kedro_lakehouse.ops.lease import held_leases
from kedro_lakehouse.ops.object_lease import object_lease

pytestmark = [pytest.mark.contract, pytest.mark.aws]

ITEM = TableName("shop", "item")
LEASES = f"s3://{LAKEHOUSE}/leases"
KEY = "leases/shop.item.current.lease"
BEAT, DEAD_AFTER = 0.05, 3.0


@pytest.fixture(scope="module", autouse=True)
def aws():
    with moto_aws() as address:
        yield address


@pytest.fixture
def line(aws):
    with served(FaultyS3(aws)) as line:
        yield line


_over: ContextVar[str] = ContextVar("_over")
_making = threading.Lock()


@pytest.fixture(autouse=True)
def clients_over_lines(monkeypatch):
    """A lease's client speaks over the line that its thread has named, where it has named one."""

    def over_line(service, **options):
        # A client keeps the address that it is made with; the environment is everybody's.
        with _making, pytest.MonkeyPatch.context() as patch:
            if address := _over.get(""):
                patch.setenv("AWS_ENDPOINT_URL_S3", address)
            return client(service, **options)

    monkeypatch.setattr(module, "client", over_line)


@contextmanager
def held_over(line, *, beat=BEAT, dead_after=DEAD_AFTER, **options):
    """The lease, as a run has it whose every request goes over a line."""
    with ExitStack() as stack:
        named = _over.set(line.address)
        try:
            lease = object_lease(LEASES, ITEM, "current", beat=beat, dead_after=dead_after, **options)
            held = stack.enter_context(lease)
        finally:
            _over.reset(named)
        yield held


def stored():
    found = boto3.client("s3").list_objects_v2(Bucket=LAKEHOUSE, Prefix=KEY)
    return [entry["Key"] for entry in found.get("Contents", ())]


@pytest.fixture
def quick_time_outs(monkeypatch):
    """Requests are given up after a fifth of a second."""
    monkeypatch.setattr(module, "_SHORTEST_TIMEOUT", 0.2)
    monkeypatch.setattr(module, "_TIMEOUTS", 1000)


@pytest.mark.usefixtures("quick_time_outs")
@pytest.mark.parametrize("fault", ["request", "answer", "reset", "throttled", "unauthorised", "silence"])
def test_beats_that_are_not_answered_do_not_end_a_lease(line, fault):
    with held_over(line, dead_after=30) as held:
        line.faults = fault
        line.wait_for(fault, 3)
        held.check()
        line.faults = "nothing"
        line.wait_for("nothing", 3)
        held.check()
        held.confirm()
    assert stored() == []


def test_a_run_beats_sooner_until_it_is_answered_again(line):
    with held_over(line, beat=1.0, dead_after=60) as held:
        line.faults = "throttled"
        line.wait_for("throttled", 1)
        begun = time.monotonic()
        line.wait_for("throttled", 4)
        assert time.monotonic() - begun < 3  # four of a second each, if it went on as before
        line.faults = "nothing"
        held.confirm()


def test_a_lease_that_was_applied_without_an_answer_is_ours(line, aws):
    line.faults, line.on = "answer", frozenset({"PUT"})
    begun = threading.Event()

    def answer_later():
        begun.set()
        line.wait_for("answer", 1)
        line.faults = "nothing"

    waiting = threading.Thread(target=answer_later)
    waiting.start()
    assert begun.wait(5)
    started = time.monotonic()
    with held_over(line, dead_after=60) as held:  # nobody waits until the lease of a dead run is free
        assert time.monotonic() - started < 30
        held.confirm()
    waiting.join()
    assert stored() == []


@pytest.mark.parametrize("fault", ["request", "throttled", "reset"])
def test_a_run_that_gets_no_answer_asks_again_for_its_lease(line, fault):
    line.faults = fault

    def answer_later():
        line.wait_for(fault, 2)
        line.faults = "nothing"

    waiting = threading.Thread(target=answer_later)
    waiting.start()
    with held_over(line) as held:
        held.confirm()
    waiting.join()


def test_a_run_that_is_never_answered_ends(line):
    line.faults = "throttled"
    with (
        pytest.raises(AwsRefusedError, match=r"no answer for 0.5 seconds \(SlowDown\)"),
        held_over(line, patience=0.5),
    ):
        pass
    line.faults = "unauthorised"
    with pytest.raises(AwsRefusedError, match="ExpiredToken"), held_over(line):
        pass


def test_a_run_ends_well_when_its_lease_cannot_be_given_back(line, caplog):
    with held_over(line, dead_after=0.5) as held:
        held.confirm()
        line.faults = "reset"
    assert "the next run waits 0.5 seconds" in caplog.text
    assert stored() == [KEY]
    boto3.client("s3").delete_object(Bucket=LAKEHOUSE, Key=KEY)


def test_a_stalled_holder_learns_that_another_run_took_over(line):
    with held_over(line) as held:
        line.faults = "throttled"
        with object_lease(LEASES, ITEM, "current", beat=BEAT, dead_after=DEAD_AFTER) as other:
            with pytest.raises(LeaseLostError, match=r"shop\.item"):
                held.check()  # by its own clock: it has heard nothing
            with pytest.raises(LeaseLostError):
                held.confirm()  # no answer is no confirmation
            line.faults = "nothing"
            with pytest.raises(LeaseLostError):
                held.confirm()  # another run's object stands there
            other.confirm()
            with pytest.raises(LeaseLostError):
                held.check()
        with pytest.raises(LeaseLostError):
            held.confirm()  # and it stays lost when the other run is done
    assert stored() == []


def test_a_holder_knows_that_it_may_have_lost_its_lease_before_another_run_can_have_it(line):
    with held_over(line) as held:
        line.faults = "throttled"
        got = threading.Event()

        def take_over():
            with object_lease(LEASES, ITEM, "current", beat=BEAT, dead_after=DEAD_AFTER):
                got.set()

        waiting = threading.Thread(target=take_over)
        waiting.start()
        doubted_first = False
        while not got.is_set():
            try:
                held.check()
            except LeaseLostError:
                doubted_first = not got.is_set() or doubted_first
        waiting.join()
        assert doubted_first


def test_a_lease_whose_object_was_deleted_is_lost(line):
    with held_over(line, beat=60, dead_after=90) as held:
        boto3.client("s3").delete_object(Bucket=LAKEHOUSE, Key=KEY)
        held.check()
        with pytest.raises(LeaseLostError):
            held.confirm()
        with pytest.raises(LeaseLostError):
            held.check()


_HOLD = """
import sys
from kedro_lakehouse.errors import LeaseLostError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.object_lease import object_lease

with object_lease(sys.argv[1], TableName("shop", "item"), "current", beat=0.05, dead_after=3.0) as held:
    print("held", flush=True)
    for call in sys.stdin:
        try:
            getattr(held, call.strip())()
            print("ours", flush=True)
        except LeaseLostError:
            print("lost", flush=True)
"""


@contextmanager
def another_process():
    """A process that holds the lease, and what it says when it is asked `check` or `confirm`."""
    command = [sys.executable, "-c", _HOLD, LEASES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"

        def ask(call):
            process.stdin.write(f"{call}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield process, ask
        process.stdin.close()
        process.wait(30)


@pytest.mark.parametrize("call", ["check", "confirm"])
def test_a_process_that_was_stopped_has_lost_its_lease_when_it_goes_on(call):
    with another_process() as (process, ask):
        assert ask(call) == "ours"
        process.send_signal(signal.SIGSTOP)
        with object_lease(LEASES, ITEM, "current", beat=BEAT, dead_after=DEAD_AFTER) as held:
            process.send_signal(signal.SIGCONT)
            assert ask(call) == "lost"
            held.confirm()
    assert stored() == []


@pytest.mark.usefixtures("quick_time_outs")
def test_two_holders_never_both_confirm(aws):
    """Three runs take the lease from each other: each is stalled until another run has confirmed it."""
    spans: dict[tuple[int, int], list[float]] = defaultdict(list)  # of each holding: when it was confirmed
    taken = threading.Condition()

    def confirm(held, holding):
        asked = time.monotonic()
        with suppress(LeaseLostError):
            held.confirm()
            with taken:
                spans[holding] += [asked, time.monotonic()]
                taken.notify_all()

    def run(number):
        with served(FaultyS3(aws)) as line:
            for turn in range(2):
                line.faults = "nothing"
                with held_over(line, beat=0.02, dead_after=0.4, patience=60) as held:
                    confirm(held, (number, turn))
                    line.faults = "throttled"
                    with taken:
                        others = len(spans)
                        taken.wait_for(lambda: len(spans) > others, timeout=3)  # noqa: B023
                    line.faults = "nothing"
                    confirm(held, (number, turn))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))
    held_for = sorted(
        (times[1], times[-2]) for times in spans.values()
    )  # from the first answer to the last question
    assert len(held_for) > 4
    assert [second for first, second in pairwise(held_for) if second[0] < first[1]] == []


def test_who_looks_sees_which_leases_are_held(line, monkeypatch):
    with held_over(line):
        assert held_leases(LEASES) == {f"{ITEM}.current"}
        monkeypatch.setattr(module, "DEAD_AFTER", -1.0)
        assert held_leases(LEASES) == set()  # its holder has not written for too long
    monkeypatch.undo()
    assert held_leases(LEASES) == set()
