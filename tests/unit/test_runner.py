"""Which nodes run when others fail."""

import pytest
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.ops.failures import TablesFailedError
from kedro_lakehouse.runners import ALWAYS, IsolatingThreadRunner

pytestmark = pytest.mark.unit


def test_nodes_after_a_failure_run_only_if_they_always_do(monkeypatch):
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
    monkeypatch.setattr("kedro_lakehouse.runners._retry", lambda _: "")
    catalog = DataCatalog({name: MemoryDataset(1) for name in ("start", "age", "b")})
    with pytest.raises(TablesFailedError) as caught:
        IsolatingThreadRunner().run(Pipeline(nodes), catalog)
    assert sorted(ran) == ["other", "watch"]
    assert set(caught.value.tables) == {"fail"}
