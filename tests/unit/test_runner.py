"""Which nodes run when others fail."""

import pytest
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.errors import UnreadableFileError
from kedro_lakehouse.ops.failures import TablesFailedError
from kedro_lakehouse.runners import ALWAYS, IsolatingThreadRunner

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
