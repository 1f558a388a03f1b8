"""Which nodes run when others fail."""

import logging
import threading
import time
from types import SimpleNamespace

import pytest
from kedro.io import DataCatalog, DatasetError, MemoryDataset
from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.errors import RefusedExtractsError, SnapshotEmptyError, UnreadableFileError
from kedro_lakehouse.monitoring.summary import print_summary
from kedro_lakehouse.ops.failures import TablesFailedError, known, message_of
from kedro_lakehouse.runners import ALWAYS, IsolatingThreadRunner, _cause

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_project(monkeypatch):
    monkeypatch.setattr("kedro_lakehouse.runners._retry", lambda _: "")


def test_nodes_after_a_failure_run_only_if_they_always_do():
    ran = []

    def fail(_):
        raise ValueError

    def note(name):
        return lambda *_: ran.append(name) or name

    nodes = [
        Node(fail, "start", "a", name="fail"),
        Node(note("after"), "a", "b", name="after"),
        Node(note("watch"), ["age", "b"], "c", name="watch", tags=[ALWAYS]),
        Node(note("other"), "start", "d", name="other"),
    ]
    catalog = DataCatalog({name: MemoryDataset(1) for name in ("start", "age", "b")})
    with pytest.raises(TablesFailedError) as caught:
        IsolatingThreadRunner().run(Pipeline(nodes), catalog)
    assert sorted(ran) == ["other", "watch"]
    assert set(caught.value.tables) == {"fail"}


def test_a_table_is_finished_before_the_next_one_is_begun():
    ran = []
    nodes = [
        Node(lambda _, n=f"{t}{k}": ran.append(n) or n, before, f"{t}{k}", name=f"{t}{k}")
        for t in "abc"
        for k, before in ((1, "start"), (2, f"{t}1"), (3, f"{t}2"))
    ]
    IsolatingThreadRunner(max_workers=1).run(Pipeline(nodes), DataCatalog({"start": MemoryDataset(1)}))
    assert ran == [f"{t}{k}" for t in "abc" for k in (1, 2, 3)]


@pytest.mark.parametrize("ours", [True, False])
def test_an_error_that_is_its_own_cause_ends_the_run(ours):
    def fail(_):
        own = OSError("lost")
        own.__cause__ = own
        raise UnreadableFileError(table="t", file="f", detail="short") if ours else ValueError from own

    nodes = [Node(fail, "start", "a", name="fail")]
    with pytest.raises(TablesFailedError) as caught:
        IsolatingThreadRunner().run(Pipeline(nodes), DataCatalog({"start": MemoryDataset(1)}))
    assert isinstance(caught.value.tables["fail"], UnreadableFileError if ours else ValueError)


def test_a_long_run_says_how_many_nodes_are_done(monkeypatch, caplog):
    monkeypatch.setattr("kedro_lakehouse.runners._TELL_AFTER_SECONDS", 0.05)
    first = threading.Event()

    def slow(_):
        first.wait(10)
        time.sleep(0.2)
        return 1

    nodes = [
        Node(lambda _: first.set() or 1, "start", "a", name="quick"),
        Node(slow, "start", "b", name="slow"),
        Node(lambda _: 1, "b", "c", name="last"),
    ]
    with caplog.at_level(logging.INFO, logger="kedro_lakehouse.runners"):
        IsolatingThreadRunner().run(Pipeline(nodes), DataCatalog({"start": MemoryDataset(1)}))
    assert "Still at work, 1 of 3 nodes done: slow" in caplog.text


REFUSED = RefusedExtractsError(table="a.b", errors=[SnapshotEmptyError(table="a.b", extract="x.csv")])


def test_what_would_be_refused_again_is_not_tried_again(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr("kedro_lakehouse.runners.active_project", lambda: SimpleNamespace(env_option=""))

    def fail_with(error):
        def fail(_):
            raise error

        return fail

    broken = UnreadableFileError(table="a.c", file="f", detail="short")
    refused = Node(fail_with(REFUSED), "start", "a", name="refuse", namespace="a.b")
    failing = Node(fail_with(broken), "start", "b", name="fail", namespace="a.c")
    for nodes, retry in (([refused], ""), ([refused, failing], "kedro run --namespaces=a.c")):
        with pytest.raises(TablesFailedError) as caught:
            IsolatingThreadRunner().run(Pipeline(nodes), DataCatalog({"start": MemoryDataset(1)}))
        assert caught.value.retry == retry


def test_what_needs_a_failed_table_is_tried_again_with_it(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr("kedro_lakehouse.runners.active_project", lambda: SimpleNamespace(env_option=""))

    def fail(_):
        raise UnreadableFileError(table="a.c", file="f", detail="short")

    nodes = [
        Node(fail, "start", "a", name="fail", namespace="a.c"),
        Node(lambda _: 1, "a", "b", name="derive", namespace="a.derived"),
        Node(lambda _: 1, "start", "c", name="other", namespace="a.other"),
    ]
    with pytest.raises(TablesFailedError) as caught:
        IsolatingThreadRunner().run(Pipeline(nodes), DataCatalog({"start": MemoryDataset(1)}))
    assert caught.value.retry == "kedro run --namespaces=a.c,a.derived"


def test_the_summary_counts_only_tables_that_were_looked_at(capsys):
    project = SimpleNamespace(
        declarations=SimpleNamespace(tables=["a.b", "a.c", "a.d", "a.e"]), reports=[], run_id="r"
    )
    error = TablesFailedError(tables={"a.b": ValueError("broken")}, retry="kedro run --namespaces=a.b")
    print_summary(project, error, {"a.b", "a.c"}, {"a.d"})
    shown = capsys.readouterr().out
    assert "1 table had nothing new." in shown
    assert "Not reached, as a table that they need failed: a.d." in shown
    print_summary(project, None, {"a.b", "a.c", "a.d", "a.e"}, set())
    assert "4 tables had nothing new." in capsys.readouterr().out


class JvmError(Exception):
    """An error as Py4J makes it: it asks the JVM for its text."""

    __module__ = "py4j.protocol"

    def __init__(self, text):
        super().__init__("An error occurred while calling o17.save.")
        self.text = text

    def __str__(self):
        if self.text is None:
            raise ConnectionError
        return self.text


def test_a_jvm_without_memory_is_told_with_what_helps():
    raised = DatasetError("Failed while saving data")
    raised.__cause__ = JvmError("An error occurred.\n: java.lang.OutOfMemoryError: Java heap space\n\tat x")
    found = _cause(raised)
    assert found.code == "OUT_OF_MEMORY"
    said = message_of(raised)
    for part in ("(OutOfMemoryError: Java heap space)", "driver_memory in globals.yml", "max_bytes"):
        assert part in said


def test_a_wrong_regular_expression_is_told_as_such():
    said = message_of(
        JvmError("x\n: java.util.regex.PatternSyntaxException: Unclosed character class near index 2\n[a-\n")
    )
    assert (
        "[UNSUPPORTED] A regular expression is none of Java's: Unclosed character class near index 2." in said
    )
    assert "Correct it in the expectation, the check or the query." in said


def test_sql_that_fails_at_a_value_is_told_without_the_value():
    said = message_of(JvmError("[CAST_INVALID_INPUT] The value 'CANARY' cannot be cast. SQLSTATE: 22018"))
    assert said.startswith("[SQL_VALUE] Its SQL cannot be computed for some value (CAST_INVALID_INPUT). Use")
    assert "CANARY" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Caused by: java.io.FileNotFoundException: /a b/x.json (Permission denied)",
            "/a b/x.json: permission",
        ),
        ("java.io.FileNotFoundException: /a/x (No space left on device)\n\tat x", "/a/x: no space is left"),
        ("java.nio.file.AccessDeniedException: /a/x\n\tat x", "/a/x: permission denied"),
        ("java.io.IOException: Mkdirs failed to create file:/a/x (exists=false)", "/a/x: the folder cannot"),
    ],
)
def test_a_place_that_java_cannot_use_is_named(text, said):
    assert f"[PLACE_UNUSABLE] {said}" in message_of(JvmError(f"An error occurred.\n: {text}"))


@pytest.mark.parametrize("text", [None, "org.apache.spark.SparkException: Job aborted"])
def test_another_error_of_the_jvm_stays_what_it_is(text):
    assert known(JvmError(text)) is None
    assert message_of(JvmError(text)) == "JvmError: see the log at level DEBUG"


def test_a_nodes_own_words_about_memory_are_not_sparks():
    assert known(ValueError("OutOfMemoryError")) is None
