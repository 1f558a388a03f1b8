"""A topic of Kafka without Kafka's client: the error says what installs it."""

from __future__ import annotations

import sys

import pytest

from kedro_lakehouse.config.sources import KafkaSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.kafka import KafkaSource

pytestmark = pytest.mark.unit


def test_a_missing_extra_is_said_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    config = KafkaSourceConfig(type="kafka", bootstrap_servers="nowhere:1")
    table = TableConfig(source="shop", entity="item", keys=("id",))
    source = KafkaSource(config, TableName("shop", "item"), table)
    for look in (source.after, source.lag):
        with pytest.raises(UnsupportedError, match=r"kedro-lakehouse\[kafka\]"):
            look([])
