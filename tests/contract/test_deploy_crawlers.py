"""Crawlers of Glue for places of discovery.yml: rendered, and made on moto with what was rendered.

cfn-lint reads them in tests/aws/test_deployed.py. moto forgets the configuration of Lake Formation; boto3
compares it with the API's shapes before it is sent.
"""

from __future__ import annotations

import boto3
import pytest
import yaml
from harness.aws import moto_aws
from harness.deploying import copy_to_deploy, deployed
from harness.places import CRAWLED, OTHER_ACCOUNT

pytestmark = [pytest.mark.contract, pytest.mark.aws]


@pytest.fixture(scope="module", autouse=True)
def aws():
    with moto_aws() as address:
        yield address


@pytest.fixture(scope="module")
def text(tmp_path_factory, aws):
    """The rendered template."""
    folder = tmp_path_factory.mktemp("crawlers")
    wheel = copy_to_deploy(folder, discovery=CRAWLED)
    out = str(folder / "out")
    deployed(folder, "--target", "glue", "--env", "aws", "--out", out, "--wheel", str(wheel))
    return (folder / "out/template.yml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def resources(text):
    return yaml.safe_load(text)["Resources"]


def crawlers(resources):
    return {n: r["Properties"] for n, r in resources.items() if r["Type"] == "AWS::Glue::Crawler"}


def test_there_is_a_crawler_for_files_and_for_each_format(resources):
    found = {name: one["Targets"] for name, one in crawlers(resources).items()}
    assert found == {
        "Crawler1Files": {"S3Targets": [{"Path": "s3://acme-lake/raw", "Exclusions": ["archive/**"]}]},
        "Crawler1Delta": {
            "DeltaTargets": [{
                "DeltaTables": ["s3://acme-lake/raw/stock/", "s3://acme-lake/raw/sales/orders/"],
                "CreateNativeDeltaTable": True, "WriteManifest": False,
            }],
        },
        "Crawler1Iceberg": {"IcebergTargets": [
            {"Paths": ["s3://acme-lake/raw"], "MaximumTraversalDepth": 10, "Exclusions": ["archive/**"]}]},
        "Crawler1Hudi": {"HudiTargets": [
            {"Paths": ["s3://acme-lake/raw"], "MaximumTraversalDepth": 10, "Exclusions": ["archive/**"]}]},
        "Crawler2Iceberg": {"IcebergTargets": [
            {"Paths": ["s3://partner-lake/shared"], "MaximumTraversalDepth": 10, "Exclusions": []}]},
    }  # fmt: skip
    prefixes = {name: one["TablePrefix"] for name, one in crawlers(resources).items() if one["TablePrefix"]}
    assert prefixes == {"Crawler1Delta": "delta_"}


def test_they_read_by_lake_formation_alone(resources):
    for name, one in crawlers(resources).items():
        account = {"Ref": "AWS::AccountId"} if name.startswith("Crawler1") else OTHER_ACCOUNT
        wanted = {"UseLakeFormationCredentials": True, "AccountId": account}
        assert one["LakeFormationConfiguration"] == wanted, name
        assert one["Role"] == {"Fn::GetAtt": ["CrawlerRole", "Arn"]}
    role = resources["CrawlerRole"]["Properties"]
    assert "ManagedPolicyArns" not in role  # AWSGlueServiceRole would bring rights on S3
    (policy,) = role["Policies"]
    given = [s["Action"] for s in policy["PolicyDocument"]["Statement"]]
    actions = {action for one in given for action in ([one] if isinstance(one, str) else one)}
    assert {action.partition(":")[0] for action in actions} == {"glue", "lakeformation", "logs"}
    assert "lakeformation:GetDataAccess" in actions


def test_the_job_reads_the_places_that_it_discovers(resources):
    (policy, *_) = resources["JobRole"]["Properties"]["Policies"]
    allowed = {s["Sid"]: s for s in policy["PolicyDocument"]["Statement"]}
    read = {sid: s["Resource"] for sid, s in allowed.items() if sid.startswith("Discovery")}
    objects = "arn:${AWS::Partition}:s3:::"
    assert read == {
        "Discovery1": [{"Fn::Sub": f"{objects}acme-lake/raw/*"}],
        "Discovery2": [{"Fn::Sub": f"{objects}partner-lake/shared/*"}],
        "Discovery3": [{"Fn::Sub": f"{objects}acme-lake/not-crawled/*"}],
    }
    assert all(allowed[sid]["Action"] == ["s3:GetObject"] for sid in read)


def test_a_place_of_this_account_is_registered_and_granted(resources):
    places = {n: r["Properties"] for n, r in resources.items() if r["Type"] == "AWS::LakeFormation::Resource"}
    arn = {"Fn::Sub": "arn:${AWS::Partition}:s3:::acme-lake/raw"}
    assert places == {"CrawledPlace1": {"ResourceArn": arn, "UseServiceLinkedRole": True}}
    granted = resources["CrawledPlace1Permissions"]["Properties"]
    assert granted["Permissions"] == ["DATA_LOCATION_ACCESS"]
    assert granted["Principal"] == {"DataLakePrincipalIdentifier": {"Fn::GetAtt": ["CrawlerRole", "Arn"]}}
    assert set(resources["Crawler1Files"]["DependsOn"]) == {
        "CrawledPlace1Permissions",
        "CrawledDatabase1Permissions",
    }


def test_moto_makes_every_crawler_as_it_is_rendered(resources, aws):
    glue, wanted = boto3.client("glue"), crawlers(resources)
    for name, one in wanted.items():
        arguments = dict(one)
        schedule = arguments.pop("Schedule").get("ScheduleExpression")
        account = arguments["LakeFormationConfiguration"]["AccountId"]
        filled = account if isinstance(account, str) else "123456789012"
        arguments["LakeFormationConfiguration"] = one["LakeFormationConfiguration"] | {"AccountId": filled}
        database = resources[one["DatabaseName"]["Ref"]]["Properties"]["DatabaseInput"]["Name"]
        arguments |= {
            "Name": name,
            "Role": "arn:aws:iam::123456789012:role/crawler",
            "DatabaseName": database,
        }
        glue.create_crawler(**arguments, **({"Schedule": schedule} if schedule else {}))
    made = {one["Name"]: one for one in glue.get_crawlers()["Crawlers"]}
    assert set(made) == set(wanted)
    for name, one in wanted.items():
        told = made[name]["Targets"]
        assert {key: value for key, value in told.items() if value} == one["Targets"]
    assert made["Crawler1Files"]["Schedule"]["ScheduleExpression"] == "cron(0 5 * * ? *)"
