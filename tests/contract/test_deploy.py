"""``kedro lakehouse deploy``: what is rendered, as moto's services and cfn-lint read it; see tests/aws."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
import yaml
from cfnlint.api import lint_all
from click.testing import CliRunner
from harness.aws import LAKEHOUSE, LANDING, moto_aws
from harness.deploying import copy_to_deploy, deployed
from harness.project import ROOT

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.deploy.platforms import PLATFORMS
from kedro_lakehouse.project import _Active

pytestmark = [pytest.mark.contract, pytest.mark.aws]

KEY = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alerts"
MONITORING = {
    "notifiers": {
        "chat": {"type": "webhook", "credentials": "chat"}, "ops": {"type": "sns", "topic": TOPIC},
    },
    "lineage": {"url": "https://marquez.example.com", "credentials": "marquez"},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def aws():
    with moto_aws() as address:
        yield address


@pytest.fixture(scope="module")
def folder(tmp_path_factory, aws):
    """The repository's project with a notifier, a lineage server, and files that must not be shipped."""
    folder = tmp_path_factory.mktemp("deploy")
    copy_to_deploy(folder, monitoring=MONITORING)
    for name in ("local/globals.yml", "base/credentials.yml", "aws/credentials_x.yml"):
        path = folder / "conf" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("secret: CANARY\n")
    return folder


@pytest.fixture(scope="module")
def deploy(folder):
    """Render a target once; its folder."""
    done = {}

    def deploy(target, *words):
        if (target, *words) not in done:
            out = folder / "out" / "-".join([target, *words])
            wheel = [] if target == "airflow" else ["--wheel", str(next(folder.glob("*.whl")))]
            env = [] if "--env" in words else ["--env", "aws"]
            told = deployed(folder, "--target", target, "--out", str(out), *env, *wheel, *words)
            if "--json" in words:
                assert {str(file) for file in out.rglob("*.*")} == set(json.loads(told.stdout)["files"])
            done[target, *words] = out
        return done[target, *words]

    return deploy


@pytest.fixture(params=["glue", "emr-serverless"])
def target(request):
    return request.param


@pytest.fixture
def rendered(deploy, target):
    return yaml.safe_load((deploy(target) / "template.yml").read_text())


def policy_of(template, role="JobRole"):
    policies = template["Resources"][role]["Properties"]["Policies"]
    return policies[0]["PolicyDocument"]["Statement"]


def text_of(resource):
    return resource if isinstance(resource, str) else json.dumps(resource)


def test_the_schedule_is_hourly_and_created_disabled(rendered):
    parameters = rendered["Parameters"]
    assert parameters["ScheduleState"]["Default"] == "DISABLED"
    assert parameters["ScheduleExpression"]["Default"] == "rate(1 hour)"
    properties = rendered["Resources"]["Schedule"]["Properties"]
    assert properties["State"] == {"Ref": "ScheduleState"}
    assert properties["ScheduleExpression"] == {"Ref": "ScheduleExpression"}


def test_the_job_reads_landing_writes_its_own_zones_and_nothing_else(rendered):
    allowed = {s["Sid"]: s for s in policy_of(rendered)}
    writes = {sid for sid, s in allowed.items() if any("Put" in a or "Delete" in a for a in s["Action"])}
    assert writes == {"Warehouse", "LogGroup"}
    zones = {text_of(r).partition("lakehouse/")[2].rstrip('*/"}') for r in allowed["Warehouse"]["Resource"]}
    assert zones == {"warehouse", "leases", "logs", "reports"}
    landing = [s for sid, s in allowed.items() if sid.startswith("Landing")]
    assert {a for s in landing for a in s["Action"]} == {"s3:GetObject"}
    assert {text_of(r) for s in landing for r in s["Resource"]} == {
        json.dumps({"Fn::Sub": f"arn:${{AWS::Partition}}:s3:::${{LandingBucket}}/landing/{source}/*"})
        for source in ("dms_sample", "sp500")
    }
    tables = {text_of(r).rpartition(":")[2].rstrip('"}') for r in allowed["Tables"]["Resource"]}
    spaces = ("dms_sample", "sp500", "ops")
    assert tables == {"catalog"} | {f"database/{s}" for s in spaces} | {f"table/{s}/*" for s in spaces}
    assert allowed["Topics"]["Resource"] == [TOPIC]


def test_secrets_are_read_by_name(rendered):
    (allowed,) = [s for s in policy_of(rendered) if s["Sid"] == "Secrets"]
    names = [text_of(r).rpartition("secret:")[2].rstrip('"}') for r in allowed["Resource"]]
    assert names == ["kedro-lakehouse/chat-??????", "kedro-lakehouse/marquez-??????"]


def test_no_statement_allows_all_of_anything(rendered):
    for role in ("JobRole", "ScheduleRole"):
        for statement in policy_of(rendered, role):
            actions = statement["Action"]
            assert not [a for a in (actions if isinstance(actions, list) else [actions]) if "*" in a]
            resources = statement["Resource"]
            for resource in resources if isinstance(resources, list) else [resources]:
                assert not re.search(r':::\*|"\*"', text_of(resource)), statement


def test_old_logs_and_leases_go_and_no_rule_touches_a_table(rendered):
    rules = rendered["Resources"]["LakehouseStorage"]["Properties"]["LifecycleConfiguration"]["Rules"]
    expiring = {r["Prefix"]: r["ExpirationInDays"] for r in rules if "ExpirationInDays" in r}
    assert expiring == {"lakehouse/logs/": 90, "lakehouse/leases/": 1}
    (unfinished,) = [r for r in rules if "Prefix" not in r]
    assert set(unfinished) == {"Id", "Status", "AbortIncompleteMultipartUpload"}


def rules_of(template, role):
    rules = template["Resources"][f"{role}Storage"]["Properties"]["LifecycleConfiguration"]["Rules"]
    return {r["Prefix"]: r for r in rules if "Prefix" in r}


def test_landed_files_grow_cold_by_default(rendered):
    cold = [{"StorageClass": "GLACIER_IR", "TransitionInDays": 90}]
    rules = rules_of(rendered, "Landing")
    assert {p: r.get("Transitions") for p, r in rules.items()} == {
        "landing/dms_sample/": cold, "landing/sp500/": cold,
    }  # fmt: skip


@pytest.fixture
def lifetimes(folder):
    """Lifetimes that the environment aws declares; the other tests are without."""
    declared = {
        "sources": {
            "dms_sample": {
                "lifetime": {
                    "cold_after": "30 days",
                    "cold_class": "DEEP_ARCHIVE",
                    "delete_after": "999 days",
                },
            },
            "sp500": {"lifetime": {"cold_after": "0 days"}},
        },
        "maintenance": {
            "lifetimes": {"logs": {"delete_after": "400 days"}, "reports": {"cold_after": "7 days"}},
        },
    }
    files = [folder / f"conf/aws/{name}.yml" for name in declared]
    before = {file: file.read_text() for file in files if file.exists()}
    for file, content in zip(files, declared.values(), strict=True):
        file.write_text(yaml.safe_dump(content))
    yield
    for file in files:
        file.unlink()
        if file in before:
            file.write_text(before[file])


@pytest.mark.usefixtures("lifetimes")
def test_the_lifetimes_of_the_environment_are_s3s_rules(folder, target, tmp_path):
    words = ("--target", target, "--env", "aws", "--wheel", str(next(folder.glob("*.whl"))))
    told = told_in(folder, *words, "--out", str(tmp_path))
    assert told.exit_code == 0, told.output
    text = (tmp_path / "template.yml").read_text(encoding="utf-8")
    template = yaml.safe_load(text)
    assert rules_of(template, "Landing") == {
        "landing/dms_sample/": {
            "Id": "landing-1", "Status": "Enabled", "Prefix": "landing/dms_sample/", "ExpirationInDays": 999,
            "Transitions": [{"StorageClass": "DEEP_ARCHIVE", "TransitionInDays": 30}],
        },
    }  # fmt: skip
    lakehouse = rules_of(template, "Lakehouse")
    assert {p: r.get("ExpirationInDays") for p, r in lakehouse.items()} == {
        "lakehouse/logs/": 400, "lakehouse/leases/": 1, "lakehouse/reports/": None,
    }  # fmt: skip
    assert lakehouse["lakehouse/reports/"]["Transitions"][0]["TransitionInDays"] == 7
    assert [str(match) for match in lint_all(text) if not match.rule.id.startswith("I")] == []


def test_the_configuration_is_shipped_without_what_is_secret_or_ones_own(deploy, target):
    with zipfile.ZipFile(deploy(target) / "artifacts/conf.zip") as archive:
        names = archive.namelist()
        assert {"conf/base/tables.yml", "conf/aws/spark.yml", "conf/logging.yml"} <= set(names)
        assert not [name for name in names if "credentials" in name or "local" in name]
        assert not [name for name in names if b"CANARY" in archive.read(name)]


def test_the_same_project_renders_the_same_files(deploy):
    first, again = deploy("glue"), deploy("glue", "--json")
    for name in ("template.yml", "artifacts/conf.zip", "artifacts/main.py", "artifacts/requirements.txt"):
        assert (first / name).read_bytes() == (again / name).read_bytes()


def test_what_aws_needs_is_pinned(deploy):
    needed = (deploy("glue") / "artifacts/requirements.txt").read_text().split()
    names = {name.partition("==")[0] for name in needed}
    assert names >= {"aiobotocore", "boto3", "great-expectations", "s3fs"}
    assert not names & {"pyspark", "pytest", "streamlit"}
    assert all("==" in name for name in needed)


def test_the_jars_are_the_platforms_or_ours(deploy, folder):
    arguments = yaml.safe_load((deploy("glue") / "template.yml").read_text())
    given = arguments["Resources"]["Job"]["Properties"]["DefaultArguments"]
    assert given["--datalake-formats"] == "iceberg,delta"
    refused = told_in(folder, "--target", "glue", "--env", "aws", "--jars", "ours")
    assert refused.exit_code == 1
    assert "not here yet" in refused.output
    assert "`make jars-aws`" in refused.output
    resolved = [f"{folder}/jars/{jar}.jar" for jar in ("iceberg-runtime", "delta-spark", "hadoop-aws")]
    conf = yaml.safe_load((folder / "conf/aws/spark.yml").read_text())
    own_jars(folder, conf, resolved)
    ours = yaml.safe_load((deploy("glue", "--jars", "ours") / "template.yml").read_text())
    given = ours["Resources"]["Job"]["Properties"]["DefaultArguments"]
    shipped = [jar.rpartition("/")[2] for jar in given["--extra-jars"]["Fn::Sub"].split(",")]
    assert shipped == ["iceberg-runtime.jar", "delta-spark.jar"]
    assert "--datalake-formats" not in given


def own_jars(folder, conf, resolved):
    """Jars of these names as an earlier start left them: fetched, and checked."""
    from kedro_lakehouse.session.jars import _facts, resolved_jars

    listed = resolved_jars({k: v for k, v in conf.items() if v} | {"spark.jars.ivy": f"{folder}/.cache/ivy"})
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text("\n".join(resolved))
    for jar in map(Path, resolved):
        jar.parent.mkdir(exist_ok=True)
        jar.touch()
    listed.with_suffix(".checked").write_text("\n".join(map(_facts, resolved)))


def told_in(folder, *words):
    """What the command tells, and how it ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(_Active, "project", None)
        return CliRunner().invoke(lakehouse, ["deploy", *words])


def defaults(template):
    return {name: given.get("Default") for name, given in template["Parameters"].items()}


def test_spark_41_is_that_of_the_newest_platforms_with_iceberg_and_delta(deploy):
    glue, emr = (yaml.safe_load((deploy(t) / "template.yml").read_text()) for t in ("glue", "emr-serverless"))
    assert (defaults(glue)["GlueVersion"], defaults(emr)["ReleaseLabel"]) == ("6.0", "emr-spark-8.1.0")
    delta = "/usr/share/aws/delta/lib/delta-{}.jar"
    # Iceberg is on the class path there.
    assert defaults(emr)["PlatformJars"].split(",") == [delta.format("spark"), delta.format("storage")]
    assert "iceberg, delta" in emr["Parameters"]["PlatformJars"]["Description"]


@pytest.fixture(scope="module")
def hudi_jars(folder):
    """The names of jars as Ivy resolves them for ``aws_hudi``, those of AWS's SDK among them."""
    resolved = [
        "org.apache.iceberg_iceberg-spark-runtime-3.5_2.12-1.11.0.jar",
        "org.apache.hudi_hudi-spark3.5-bundle_2.12-1.2.0.jar",
        "org.apache.hadoop_hadoop-aws-3.3.4.jar", "com.amazonaws_aws-java-sdk-bundle-1.12.262.jar",
    ]  # fmt: skip
    conf = {
        key: value
        for env in ("base", "aws_hudi")
        for key, value in yaml.safe_load((folder / f"conf/{env}/spark.yml").read_text()).items()
    }
    own_jars(folder, conf, [f"{folder}/jars/{jar}" for jar in resolved])
    return resolved[:2]


HUDI = ("--env", "aws_hudi")


def test_hudi_is_rendered_for_spark_35_with_its_own_jars(deploy, target, hudi_jars):
    template = yaml.safe_load((deploy(target, *HUDI, "--jars", "ours") / "template.yml").read_text())
    version = {"glue": ("GlueVersion", "5.1"), "emr-serverless": ("ReleaseLabel", "emr-7.14.0")}
    name, expected = version[target]
    assert defaults(template)[name] == expected
    assert "Spark 3.5" in template["Parameters"][name]["Description"]
    assert "PlatformJars" not in template["Parameters"]
    if target == "glue":
        given = template["Resources"]["Job"]["Properties"]["DefaultArguments"]
        assert "--datalake-formats" not in given
        assert given["--env"] == "aws_hudi"
        shipped = given["--extra-jars"]["Fn::Sub"]
    else:
        request = json.loads(template["Resources"]["Schedule"]["Properties"]["Target"]["Input"]["Fn::Sub"])
        submitted = request["JobDriver"]["SparkSubmit"]["SparkSubmitParameters"]
        shipped = re.search(r"spark\.jars=(\S+)", submitted)[1]
    assert [jar.rpartition("/")[2] for jar in shipped.split(",")] == hudi_jars


def test_cfn_lint_finds_nothing_in_what_is_rendered_for_hudi(deploy, target, hudi_jars):
    found = lint_all((deploy(target, *HUDI, "--jars", "ours") / "template.yml").read_text(encoding="utf-8"))
    assert [str(match) for match in found if not match.rule.id.startswith("I")] == []  # I: for information


def test_the_platforms_older_hudi_is_refused_before_anything_is_written(folder, target, tmp_path):
    out = tmp_path / "out"
    told = told_in(folder, "--target", target, *HUDI, "--out", str(out))
    assert told.exit_code == 1
    assert "Hudi 1.0.2" in told.output
    assert "--jars ours" in told.output
    assert not out.exists()


def test_a_platform_with_our_hudi_is_told_its_formats_and_jars(deploy, target, monkeypatch):
    newer = replace(PLATFORMS["spark35"], hudi="1.2.0")
    monkeypatch.setitem(PLATFORMS, "spark35", newer)
    template = yaml.safe_load((deploy(target, *HUDI) / "template.yml").read_text())
    if target == "glue":
        given = template["Resources"]["Job"]["Properties"]["DefaultArguments"]
        assert given["--datalake-formats"] == "iceberg,hudi"
    else:
        assert defaults(template)["PlatformJars"].split(",") == [
            "/usr/share/aws/iceberg/lib/iceberg-spark3-runtime.jar", "/usr/lib/hudi/hudi-spark-bundle.jar",
        ]  # fmt: skip


@pytest.fixture(scope="module")
def streams(folder):
    """An environment whose tables read a topic in Avro and two streams of Kinesis."""
    made = folder / "conf" / "streams"
    shutil.copytree(folder / "conf/aws", made)
    kafka = {
        "type": "kafka", "bootstrap_servers": "b-1:9096",
        "credentials": "shop_kafka", "schema_registry": "main",
    }  # fmt: skip
    clicks = {
        "type": "kinesis", "region": "eu-west-3", "decoder": "dms-json", "raw": "s3://copies/of/clicks",
    }  # fmt: skip
    written = {
        "sources": {"shop": kafka, "clicks": clicks},
        "registries": {"main": {"type": "glue", "credentials": "schemas"}},
        "tables": {
            "shop.item": {"source": "shop", "keys": ["id"]},
            "clicks.made": {"source": "clicks", "keys": ["id"]},
            "clicks.seen": {"source": "clicks", "entity": "seen-items", "keys": ["id"]},
        },
    }
    for name, content in written.items():
        (made / f"{name}.yml").write_text(yaml.safe_dump(content))
    return ("--env", "streams")


def test_streams_are_read_by_name_and_nothing_more(deploy, target, streams):
    out = deploy(target, *streams, "--loop", "10 s")
    allowed = {s["Sid"]: s for s in policy_of(yaml.safe_load((out / "template.yml").read_text()))}
    read = [text_of(r).rpartition("kinesis:")[2].rstrip('"}') for r in allowed["Streams"]["Resource"]]
    assert read == [f"eu-west-3:${{AWS::AccountId}}:stream/{name}" for name in ("made", "seen-items")]
    assert not [action for action in allowed["Streams"]["Action"] if "Put" in action or "*" in action]
    assert allowed["RawCopies1"]["Action"] == ["s3:PutObject"]
    (copies,) = map(text_of, allowed["RawCopies1"]["Resource"])
    assert "s3:::copies/of/clicks/*" in copies
    assert allowed["ListRawCopies1"]["Action"] == ["s3:ListBucket"]
    assert allowed["Schemas"]["Action"] == ["glue:GetSchemaVersion"]
    secrets = " ".join(map(text_of, allowed["Secrets"]["Resource"]))
    assert "kedro-lakehouse/shop_kafka-??????" in secrets
    assert "kedro-lakehouse/schemas-??????" in secrets
    assert not [
        r
        for sid, s in allowed.items()
        if sid.startswith("Landing")
        for r in s["Resource"]
        if "b-1" in text_of(r)
    ]
    assert "confluent-kafka==" in (out / "artifacts/requirements.txt").read_text()


def test_files_of_persons_may_be_written_anew(deploy, folder, target):
    made = folder / "conf" / "persons"
    if not made.exists():
        shutil.copytree(folder / "conf/aws", made)
        files = {"type": "changes", "pattern": "*.csv", "file_format": "csv"}
        written = {
            "sources": {
                "crm": files | {"path": "s3://landing-test/crm"},
                "tills": files | {"path": "s3://landing-test/tills"},
                "seen": {"type": "kinesis", "decoder": "dms-json", "raw": "s3://copies/of/seen"},
            },
            "tables": {
                "crm.customer": {"source": "crm", "keys": ["id"], "order_by": ["n"], "subject": "id"},
                "tills.till": {"source": "tills", "keys": ["id"], "order_by": ["n"]},
                "seen.item": {"source": "seen", "keys": ["id"], "subject": "customer"},
            },
        }
        for name, content in written.items():
            (made / f"{name}.yml").write_text(yaml.safe_dump(content))
    out = deploy(target, "--env", "persons")
    allowed = {s["Sid"]: s for s in policy_of(yaml.safe_load((out / "template.yml").read_text()))}
    erased = [s for sid, s in allowed.items() if sid.startswith("Erasures")]
    anew = {text_of(r).partition("s3:::")[2].rstrip('"}') for s in erased for r in s["Resource"]}
    assert anew == {"copies/of/seen/*", "${LandingBucket}/crm/*"}
    assert {"s3:GetObject", "s3:PutObject"} <= {a for s in erased for a in s["Action"]}
    assert not [a for s in erased for a in s["Action"] if "Delete" in a]
    assert len(allowed["Versions"]["Resource"]) == 3


def test_the_loop_is_a_streaming_job_without_an_end(deploy, target, streams):
    template = yaml.safe_load((deploy(target, *streams, "--loop", "10 s") / "template.yml").read_text())
    request = json.loads(template["Resources"]["Schedule"]["Properties"]["Target"]["Input"]["Fn::Sub"])
    if target == "glue":
        job = template["Resources"]["Job"]["Properties"]
        assert job["Command"]["Name"] == "gluestreaming"
        assert job["DefaultArguments"]["--stream"] == "10 s"
        assert job["Timeout"] == {"Ref": "AWS::NoValue"}
    else:
        assert request["Mode"] == "STREAMING"
        assert "ExecutionTimeoutMinutes" not in request
        words = request["JobDriver"]["SparkSubmit"]["EntryPointArguments"]
        assert words[words.index("--stream") + 1] == "10 s"
    found = lint_all(yaml.safe_dump(template))
    assert [str(match) for match in found if not match.rule.id.startswith("I")] == []


def test_a_loop_is_asked_for_by_a_length_of_time(folder, target):
    refused = told_in(folder, "--target", target, "--env", "aws", "--loop", "often")
    assert refused.exit_code == 2
    assert "such as '10 s'" in refused.output


def test_airflow_is_told_the_kedro_of_spark_35(folder, tmp_path):
    words = ("--target", "airflow", "--out", str(tmp_path))
    told = told_in(folder, *words, *HUDI)
    assert told.exit_code == 0, told.output
    (dag,) = tmp_path.glob("*.py")
    assert dag.name == "kedro_lakehouse_aws_hudi_dag.py"
    assert "run --env=aws_hudi" in dag.read_text()
    assert "kedro_lakehouse_kedro to .venv-spark35/bin/kedro" in told.output
    assert ".venv" not in told_in(folder, *words, "--env", "aws").output


def test_what_is_shipped_for_python_is_in_the_lock_of_either_line(deploy):
    needed = (deploy("glue") / "artifacts/requirements.txt").read_text().split()
    for line in PLATFORMS:
        locked = (ROOT / f"requirements/{line}.txt").read_text()
        assert set(needed) <= set(re.findall(r"^\S+==\S+", locked, re.MULTILINE))


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"spark.kedro_lakehouse.line": "spark40"}, "`spark.kedro_lakehouse.line: spark40`"),
        ({"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.2"}, "names no table format"),
    ],
)
def test_what_aws_cannot_be_asked_for_is_refused(folder, setting, told):
    made = folder / "conf" / "odd"
    shutil.copytree(folder / "conf/aws", made, dirs_exist_ok=True)
    conf = yaml.safe_load((made / "spark.yml").read_text()) | setting
    (made / "spark.yml").write_text(yaml.safe_dump(conf))
    refused = told_in(folder, "--target", "glue", "--env", "odd")
    shutil.rmtree(made)
    assert refused.exit_code == 1
    assert told in refused.output


def test_moto_makes_the_stacks_buckets_role_and_logs(deploy, target):
    """Its CloudFormation knows these types; Glue, EMR and the scheduler are asked by themselves below."""
    stack = f"stack-{target}"
    template = yaml.safe_load((deploy(target) / "template.yml").read_text())
    known = ("LakehouseStorage", "LandingStorage", "JobRole", "Logs")
    template["Resources"] = {name: template["Resources"][name] for name in known}
    parameters = {
        "Name": target, "KmsKeyArn": KEY,
        "LakehouseBucket": f"made-{target}", "LandingBucket": f"landed-{target}",
    }  # fmt: skip
    cloudformation = boto3.client("cloudformation")
    cloudformation.create_stack(
        StackName=stack,
        TemplateBody=json.dumps(template),
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    made = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
    found = {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in made}
    assert set(found) == set(known)
    s3 = boto3.client("s3")
    encrypted = s3.get_bucket_encryption(Bucket=parameters["LakehouseBucket"])
    (rule,) = encrypted["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    iam = boto3.client("iam")
    names = iam.list_role_policies(RoleName=found["JobRole"])["PolicyNames"]
    assert names == ["lakehouse", "key"]
    stored = iam.get_role_policy(RoleName=found["JobRole"], PolicyName="lakehouse")["PolicyDocument"]
    policy = ast.literal_eval(stored) if isinstance(stored, str) else stored  # moto keeps it as Python's text
    resources = [r for s in policy["Statement"] for r in s["Resource"]]
    assert f"arn:aws:s3:::made-{target}/lakehouse/warehouse/*" in resources
    assert not [r for r in resources if "${" in text_of(r) or "Fn::" in text_of(r)]


def filled(value, **more):
    """A template's value with CloudFormation's functions carried out."""
    known = {
        "AWS::Partition": "aws", "AWS::Region": "eu-west-1", "AWS::AccountId": "123456789012",
        "Name": "kedro-lakehouse", "LakehouseBucket": LAKEHOUSE, "LandingBucket": LANDING, "KmsKeyArn": "",
        "JobRole.Arn": "arn:aws:iam::123456789012:role/job",
        "ScheduleRole.Arn": "arn:aws:iam::123456789012:role/schedule",
        "ScheduleState": "DISABLED", "ScheduleExpression": "rate(1 hour)", "PlatformJars": "iceberg.jar",
        "GlueVersion": "6.0", "WorkerType": "G.1X", "Workers": 2,
        "ReleaseLabel": "emr-7.14.0",  # moto does not know the labels of EMR 8
    } | more  # fmt: skip
    match value:
        case {"Ref": name}:
            return known[name]
        case {"Fn::GetAtt": [name, attribute]}:
            return known[f"{name}.{attribute}"]
        case {"Fn::Sub": text}:
            return re.sub(r"\$\{([^}]+)\}", lambda found: str(known[found[1]]), text)
        case dict():
            return {key: filled(inner, **more) for key, inner in value.items()}
        case list():
            return [filled(inner, **more) for inner in value]
    return value


def test_glue_takes_the_job_and_the_scheduled_request(deploy):
    resources = yaml.safe_load((deploy("glue") / "template.yml").read_text())["Resources"]
    glue = boto3.client("glue")
    glue.create_job(**filled(resources["Job"]["Properties"]))
    request = json.loads(
        filled(resources["Schedule"]["Properties"]["Target"]["Input"], Job="kedro-lakehouse")
    )
    assert request["Arguments"] == {
        "--dag_name": "kedro-lakehouse", "--task_id": "run",
        "--correlation_id": "<aws.scheduler.execution-id>",
    }  # fmt: skip
    run = glue.start_job_run(**request)
    assert glue.get_job_run(JobName="kedro-lakehouse", RunId=run["JobRunId"])["JobRun"]
    arguments = glue.get_job(JobName="kedro-lakehouse")["Job"]["DefaultArguments"]
    assert arguments["--conf_archive"] == f"s3://{LAKEHOUSE}/artifacts/kedro-lakehouse/conf.zip"
    assert arguments["--variables"].startswith(f"LAKEHOUSE_BUCKET={LAKEHOUSE},LANDING_BUCKET={LANDING},")


def lower(value):
    """The words of a universal target's request as the service's own API spells them."""
    if isinstance(value, dict):
        return {key[0].lower() + key[1:]: lower(inner) for key, inner in value.items()}
    return value


def test_emr_serverless_takes_the_application_and_the_scheduled_request(deploy):
    resources = yaml.safe_load((deploy("emr-serverless") / "template.yml").read_text())["Resources"]
    emr = boto3.client("emr-serverless")
    properties = lower(filled(resources["Application"]["Properties"]))
    made = emr.create_application(**properties, clientToken="t")["applicationId"]
    request = lower(
        json.loads(filled(resources["Schedule"]["Properties"]["Target"]["Input"], Application=made))
    )
    started = emr.start_job_run(**request)
    assert started["applicationId"] == made
    submit = request["jobDriver"]["sparkSubmit"]
    given = submit["entryPointArguments"]
    named = dict(zip(given[::2], given[1::2], strict=True))
    assert (named["--dag_name"], named["--task_id"]) == ("kedro-lakehouse", "run")
    assert named["--correlation_id"] == "<aws.scheduler.execution-id>"
    logs = request["configurationOverrides"]["monitoringConfiguration"]["s3MonitoringConfiguration"]
    assert logs["logUri"].endswith("/logs/emr/kedro-lakehouse/run/<aws.scheduler.execution-id>/")


def test_the_scheduler_takes_the_schedule(deploy, target):
    schedule = yaml.safe_load((deploy(target) / "template.yml").read_text())["Resources"]["Schedule"]
    scheduler = boto3.client("scheduler")
    properties = filled(schedule["Properties"], Name=target, Job="job", Application="application")
    scheduler.create_schedule(**properties)
    assert scheduler.get_schedule(Name=target)["State"] == "DISABLED"


def test_the_dag_has_a_task_a_namespace_and_starts_paused(deploy):
    (dag,) = deploy("airflow").glob("*.py")
    text = dag.read_text()
    ast.parse(text)
    assert dag.name == "kedro_lakehouse_aws_dag.py"
    assert "is_paused_upon_creation=True" in text
    assert 'with graph("", "@hourly"):' in text
    assert 'for namespace in ("dms_sample", "sp500", "ops", )' in text
    assert 'tasks["dms_sample"] >> tasks["ops"]' in text


def test_a_lakehouse_on_this_machine_is_no_jobs(folder):
    (folder / "conf/plain").mkdir()
    told = told_in(folder, "--target", "glue", "--env", "plain")
    assert told.exit_code == 1
    assert "not in S3" in told.output
    assert "--env aws" in told.output
