"""Queries on Athena: how far each is, whose it is, and where its result lies. moto runs no SQL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from harness.aws import REGION, moto_aws
from harness.served import GRANTS, ServedLake, served_lake

from kedro_lakehouse.config.service import QueryConfig
from kedro_lakehouse.deploy.workgroup import workgroup_resources
from kedro_lakehouse.query.athena import AthenaQueries
from kedro_lakehouse.query.errors import QueryError, QueryNotFoundError, QueryOutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.sources

PLACE = "s3://results-bucket/results"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ServedLake]:
    made = served_lake(tmp_path, pulls=1, query={"engine": "athena", "output": PLACE})
    role = "arn:aws:iam::123456789012:role/planner"
    made.project._grants = lambda: GRANTS | {"principals": {"planner": role}}
    with moto_aws():
        yield made


def test_a_query_ends_where_its_role_finds_it(lake: ServedLake) -> None:
    queries = AthenaQueries(lake.project)
    number = queries.start("select 1", "csv", "weekly/orders", "planner")
    done = queries.wait(number)
    assert (done.state, done.role, done.query) == ("done", "planner", "select 1")
    assert done.location.startswith(f"{PLACE}/planner/weekly/orders/")
    assert queries.wait(queries.start("select 2", "csv")).role is None
    assert queries.cancel(number).state in ("done", "cancelled")


def test_what_athena_does_not_do_here_is_refused(lake: ServedLake) -> None:
    queries = AthenaQueries(lake.project)
    cases: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"format": "parquet"}, QueryError),
        ({"format": "csv", "output": "../x"}, QueryOutputError),
        ({"format": "csv", "snapshots": {"shop.order": "1"}}, QueryError),
        ({"format": "csv", "role": "analyst"}, QueryError),
    ]
    for words, error in cases:
        with pytest.raises(error):
            queries.start("select 1", **words)


def test_queries_of_others_are_not_there(lake: ServedLake) -> None:
    queries = AthenaQueries(lake.project)
    elsewhere = {"OutputLocation": "s3://elsewhere/x/"}
    athena = boto3.client("athena", region_name=REGION)
    other = athena.start_query_execution(QueryString="select 1", ResultConfiguration=elsewhere)
    for number in (other["QueryExecutionId"], "0" * 32, "../x"):
        with pytest.raises(QueryNotFoundError):
            queries.get(number)


def test_a_workgroup_is_rendered_and_linted(tmp_path: Path) -> None:
    own = QueryConfig(engine="athena", output=PLACE, workgroup="analysts")
    resources = workgroup_resources(own)
    settings = resources["QueryWorkGroup"]["Properties"]["WorkGroupConfiguration"]
    assert settings["ResultConfiguration"]["OutputLocation"] == f"{PLACE}/"
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"Resources": resources}), encoding="utf-8")
    linted = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), "--region", REGION, "--", template],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout
    assert workgroup_resources(QueryConfig(engine="athena", output=PLACE)) == {}
    assert workgroup_resources(QueryConfig()) == {}
