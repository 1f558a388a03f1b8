"""service.yml says how the service listens and what its queries may take; a mistake is named."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kedro_lakehouse.config.service import load_service
from kedro_lakehouse.errors import ConfigurationError

pytestmark = pytest.mark.unit


def test_without_the_file_there_are_defaults() -> None:
    found = load_service({}, [])
    assert (found.port, found.credentials, found.rate) == (8321, "service_tokens", 50)
    assert (found.query.engine, found.query.output, found.query.memory) == (
        "local",
        "data/results",
        2 * 2**30,
    )
    assert found.query.time == dt.timedelta(minutes=5)


def test_sizes_rates_and_times_are_written_with_units() -> None:
    query = {"engine": "local", "output": "data/results", "memory": "512 MiB", "time": "5 min"}
    raw = {"port": 8000, "rate": "20/s", "query": query, "keep": {"shop.order": 30}}
    found = load_service({"service": raw}, ["shop.order"])
    assert (found.rate, found.query.memory, found.keep) == (20, 2**29, {"shop.order": 30})


MISTAKES = {
    "key": ({"prot": 1}, r"service\.prot.*Did you mean 'port'"),
    "query": ({"query": {"memroy": "1 GiB"}}, r"service\.query\.memroy.*Did you mean 'memory'"),
    "engine": ({"query": {"engine": "spark"}}, r"service\.query\.engine"),
    "athena": ({"query": {"engine": "athena"}}, r"service\.query\.output.*S3"),
    "local": ({"query": {"output": "s3://bucket/results"}}, r"service\.query\.output.*folder"),
    "memory": ({"query": {"memory": "12"}}, r"service\.query\.memory"),
    "time": ({"query": {"time": "soon"}}, r"service\.query\.time.*duration"),
    "rate": ({"rate": "50/min"}, r"service\.rate.*50/s"),
    "port": ({"port": 70000}, r"service\.port.*at most 65535"),
    "keep": ({"keep": {"shop.odrer": 3}}, r"service\.keep\.shop\.odrer.*Did you mean 'shop.order'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_key(name: str) -> None:
    raw, message = MISTAKES[name]
    given: dict[str, Any] = {"service": raw}
    with pytest.raises(ConfigurationError, match=f"(?s)service.yml.*{message}"):
        load_service(given, ["shop.order"])
