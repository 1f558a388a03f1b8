"""Where Delta's log may be written: only where of two writers of one entry the later is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats import delta_store

pytestmark = pytest.mark.unit

CONDITIONAL, PERFORMANCE = "fs.s3a.create.conditional.enabled", "fs.s3a.create.performance.enabled"
BY_CREATE, ONE_DRIVER = (f"io.delta.storage.{name}LogStore" for name in ("GCS", "S3SingleDriver"))


def session_with(settings: dict[str, str]) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: settings))


@pytest.mark.parametrize(
    ("settings", "capabilities"),
    [
        ({}, {CONDITIONAL, PERFORMANCE}),
        ({"spark.delta.logStore.s3a.impl": BY_CREATE}, {CONDITIONAL, PERFORMANCE}),
        ({"spark.delta.logStore.s3.impl": BY_CREATE}, {CONDITIONAL}),
        ({"spark.delta.logStore.s3.impl": BY_CREATE}, {PERFORMANCE}),
        ({"spark.delta.logStore.s3.impl": ONE_DRIVER}, {CONDITIONAL, PERFORMANCE}),
    ],
)  # fmt: skip
def test_a_log_whose_entries_two_could_write_is_refused(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], capabilities: set[str]
) -> None:
    monkeypatch.setattr(delta_store, "has_capability", lambda _session, _place, name: name in capabilities)
    with pytest.raises(UnsupportedError, match=r"logStore\.s3\.impl to .*performance\.flags to create"):
        delta_store.refuse_unsafe_log(session_with(settings), "s3://bucket/lakehouse/warehouse")


@pytest.mark.parametrize(
    ("settings", "capabilities", "place"),
    [
        ({"spark.delta.logStore.s3.impl": BY_CREATE}, {CONDITIONAL, PERFORMANCE}, "s3://bucket/lakehouse"),
        ({"spark.delta.logStore.s3.impl": "io.delta.storage.S3DynamoDBLogStore"}, set(), "s3://bucket/lakehouse"),
        ({}, set(), "/data/lakehouse/warehouse"),
    ],
)  # fmt: skip
def test_a_log_whose_entries_one_can_write_is_written(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], capabilities: set[str], place: str
) -> None:
    monkeypatch.setattr(delta_store, "has_capability", lambda _session, _place, name: name in capabilities)
    delta_store.refuse_unsafe_log(session_with(settings), place)
