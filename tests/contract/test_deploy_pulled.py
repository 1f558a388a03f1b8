"""Schedules for sources that are asked for their records, and the metadata service, as they are rendered."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import yaml
from cfnlint.api import lint_all
from harness.aws import moto_aws
from harness.deploying import copy_to_deploy, deployed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.contract, pytest.mark.aws]

API = {
    "type": "rest",
    "base_url": "https://api.example.com",
    "paging": {"type": "none"},
}
SOURCES = {
    "hourly": API | {"path": "${globals:landing}/hourly", "every": "1 h"},
    "often": API | {"path": "${globals:landing}/often", "every": "15 min"},
    "always": API | {"path": "${globals:landing}/always"},
}
TABLES = {
    "shop.item": {"source": "hourly", "keys": ["id"]},
    "crm.person": {"source": "hourly", "keys": ["id"]},
    "shop.price": {"source": "often", "keys": ["id"]},
    "other.thing": {"source": "always", "keys": ["id"]},
}
PLANNER = "arn:aws:iam::123456789012:role/planner"
GRANTS = {"planner": [{"database": "shop"}], "principals": {"planner": PLANNER}}


@pytest.fixture(scope="module", autouse=True)
def aws() -> Iterator[str]:
    with moto_aws() as address:
        yield address


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory, aws: str) -> Callable[..., Path]:
    """Render a target, with these settings of queries; its folder."""

    def render(target: str, *words: str, **query: Any) -> Path:
        folder = tmp_path_factory.mktemp(target)
        of_aws: dict[str, Any] = {"sources": SOURCES, "tables": TABLES, "grants": GRANTS}
        wheel = copy_to_deploy(folder, **of_aws, service={"service": {"query": query}})
        wheels = [] if target == "airflow" else ["--wheel", str(wheel)]
        deployed(folder, "--target", target, "--env", "aws", "--out", str(folder / "out"), *wheels, *words)
        return folder / "out"

    return render


def content(folder: Path) -> dict[str, Any]:
    text = (folder / "template.yml").read_text(encoding="utf-8")
    found = [str(match) for match in lint_all(text) if not match.rule.id.startswith("I")]
    assert found == []
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def statements(template: dict[str, Any], role: str) -> dict[str, dict[str, Any]]:
    policy = template["Resources"][role]["Properties"]["Policies"][0]
    return {one["Sid"]: one for one in policy["PolicyDocument"]["Statement"]}


def words_of(target: str, request: dict[str, Any]) -> dict[str, str]:
    """The arguments of a scheduled request by name."""
    if target == "glue":
        found: dict[str, str] = request["Arguments"]
        return found
    words = request["JobDriver"]["SparkSubmit"]["EntryPointArguments"]
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize("target", ["glue", "emr-serverless"])
def test_each_time_between_pulls_has_a_schedule_of_its_namespaces(
    rendered: Callable[..., Path], target: str
) -> None:
    resources = content(rendered(target))["Resources"]
    found = {}
    for name, one in resources.items():
        if one["Type"] == "AWS::Scheduler::Schedule" and name != "Schedule":
            properties = one["Properties"]
            assert properties["State"] == {"Ref": "ScheduleState"}
            assert properties["Target"]["RoleArn"] == {"Fn::GetAtt": ["ScheduleRole", "Arn"]}
            words = words_of(target, json.loads(properties["Target"]["Input"]["Fn::Sub"]))
            found[properties["ScheduleExpression"]] = (words["--namespaces"], words["--task_id"])
    assert found == {"rate(1 hour)": ("crm,shop", "pull-60m"), "rate(15 minutes)": ("shop", "pull-15m")}
    whole = words_of(target, json.loads(resources["Schedule"]["Properties"]["Target"]["Input"]["Fn::Sub"]))
    assert "--namespaces" not in whole
    if target == "glue":
        assert resources["Job"]["Properties"]["JobRunQueuingEnabled"] is True


def test_moto_takes_the_schedules(rendered: Callable[..., Path]) -> None:
    resources = content(rendered("glue"))["Resources"]
    scheduler = boto3.client("scheduler")
    for number in (15, 60):
        properties = resources[f"PullSchedule{number}"]["Properties"]
        scheduler.create_schedule(
            Name=f"x-{number}",
            ScheduleExpression=properties["ScheduleExpression"],
            State="DISABLED",
            FlexibleTimeWindow=properties["FlexibleTimeWindow"],
            Target={
                "Arn": properties["Target"]["Arn"]["Fn::Sub"].replace("${AWS::Partition}", "aws"),
                "RoleArn": "arn:aws:iam::123456789012:role/schedule",
                "Input": properties["Target"]["Input"]["Fn::Sub"],
            },
        )
    assert len(scheduler.list_schedules()["Schedules"]) == 2


def test_a_loop_needs_no_schedules_of_pulls(rendered: Callable[..., Path]) -> None:
    resources = content(rendered("glue", "--loop", "10 s"))["Resources"]
    schedules = [n for n, one in resources.items() if one["Type"] == "AWS::Scheduler::Schedule"]
    assert schedules == ["Schedule"]


def test_airflow_has_a_graph_for_each_time_between_pulls(rendered: Callable[..., Path]) -> None:
    (file,) = rendered("airflow").glob("*.py")
    text = file.read_text(encoding="utf-8")
    graphs = [
        (ast.unparse(item.context_expr), [ast.unparse(line) for line in node.body])
        for node in ast.parse(text).body
        if isinstance(node, ast.With)
        for item in node.items
    ]
    assert [graph for graph, _ in graphs] == [
        "graph('', '@hourly')",
        "graph('_pull_15m', timedelta(minutes=15))",
        "graph('_pull_60m', timedelta(minutes=60))",
    ]
    assert graphs[2][1] == ["for namespace in ('crm', 'shop'):\n    run(namespace)"]


def test_the_service_reads_the_lake_and_its_tokens_and_writes_nothing(rendered: Callable[..., Path]) -> None:
    folder = rendered("service")
    template = content(folder)
    allowed = statements(template, "TaskRole")
    actions = {action for one in allowed.values() for action in one["Action"]}
    assert actions == {
        "s3:GetObject", "s3:ListBucket", "glue:GetDatabase", "glue:GetDatabases", "glue:GetTable",
        "glue:GetTables", "secretsmanager:GetSecretValue",
    }  # fmt: skip
    (secret,) = allowed["Tokens"]["Resource"]
    assert secret["Fn::Sub"].endswith(":secret:kedro-lakehouse/service_tokens-??????")
    for role in ("TaskRole", "ExecutionRole"):
        for sid, one in statements(template, role).items():
            assert "*" not in one["Resource"] or sid == "LogIn", one
    assert {file.name for file in folder.rglob("*") if file.is_file()} == {
        "template.yml", "service.Dockerfile", "conf.zip", "requirements.txt",
        "kedro_lakehouse-0.1.0-py3-none-any.whl",
    }  # fmt: skip
    needed = (folder / "artifacts/requirements.txt").read_text(encoding="utf-8")
    assert "fastapi==" in needed
    assert "pyspark" not in needed


def test_a_task_has_room_for_its_queries_and_tells_that_it_is_well(rendered: Callable[..., Path]) -> None:
    template = content(rendered("service", memory="3 GiB", at_once=5))
    parameters = template["Parameters"]
    assert (parameters["Cpu"]["Default"], parameters["Memory"]["Default"]) == ("2048", str(16 * 1024))
    assert (parameters["Tasks"]["Default"], parameters["Tasks"]["MaxValue"]) == (0, 1)
    (container,) = template["Resources"]["Task"]["Properties"]["ContainerDefinitions"]
    assert "http://127.0.0.1:8321/health" in container["HealthCheck"]["Command"][-1]
    assert template["Resources"]["Targets"]["Properties"]["HealthCheckPath"] == "/health"
    assert template["Resources"]["Listener"]["Properties"]["Protocol"] == "HTTPS"


def test_on_athena_roles_ask_for_themselves_in_a_workgroup_with_a_limit(
    rendered: Callable[..., Path],
) -> None:
    query = {"engine": "athena", "output": "s3://results/of", "workgroup": "analysts", "scanned": "10 GiB"}
    allowed = statements(content(rendered("service", **query)), "TaskRole")
    assert allowed["RolesThatAsk"]["Resource"] == [PLANNER]
    assert allowed["QueryStates"]["Action"] == ["athena:GetQueryExecution"]
    resources = content(rendered("glue", **query))["Resources"]
    properties = resources["QueryWorkGroup"]["Properties"]
    assert properties["WorkGroupConfiguration"]["BytesScannedCutoffPerQuery"] == 10 * 2**30
    athena = boto3.client("athena")
    athena.create_work_group(Name=properties["Name"], Configuration=properties["WorkGroupConfiguration"])
    made = athena.get_work_group(WorkGroup="analysts")["WorkGroup"]["Configuration"]
    assert made["ResultConfiguration"]["OutputLocation"] == "s3://results/of/"
    assert made["ResultConfiguration"]["EncryptionConfiguration"] == {"EncryptionOption": "SSE_S3"}


@pytest.mark.parametrize(("memory", "at_once"), [("120 GiB", 1), ("30 GiB", 4)])
def test_queries_that_no_task_can_hold_are_refused(
    rendered: Callable[..., Path], memory: str, at_once: int
) -> None:
    with pytest.raises(AssertionError, match="do not fit into a task of Fargate"):
        rendered("service", memory=memory, at_once=at_once)
