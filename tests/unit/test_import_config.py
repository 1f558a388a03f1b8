"""``kedro lakehouse import-config``: AWS's own sample becomes declarations, or its key is refused."""

import json

import boto3
import pytest
import yaml
from click.testing import CliRunner
from moto import mock_aws

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig

pytestmark = pytest.mark.unit

# The published shape: keys and partitions are lists with commas, and an empty list means none.
SAMPLE = {
    "dms_sample.mlb_data": {"primaryKey": "mlb_id", "domain": "sports", "partitionCols": ""},
    "dms_sample.nfl_stadium_data_upd": {"primaryKey": "team, sport_location_id", "domain": "sports"},
    "dms_sample.sporting_event": {
        "primaryKey": "id", "domain": "sports", "partitionCols": "sport_type_name,bucket(8, id)",
    },
    "dbo.PayeeRelationship": {"primaryKey": "PayeeId", "domain": "payments", "partitionCols": ""},
}  # fmt: skip
DECLARED = {
    "sports.mlb_data": {"source": "dms_task", "entity": "dms_sample/mlb_data", "keys": ["mlb_id"]},
    "sports.nfl_stadium_data_upd": {
        "source": "dms_task", "entity": "dms_sample/nfl_stadium_data_upd",
        "keys": ["team", "sport_location_id"],
    },
    "sports.sporting_event": {
        "source": "dms_task", "entity": "dms_sample/sporting_event", "keys": ["id"],
        "partition_by": ["sport_type_name", "bucket(8, id)"],
    },
    "payments.payeerelationship": {
        "source": "dms_task", "entity": "dbo/PayeeRelationship", "keys": ["PayeeId"],
    },
}  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words, content=SAMPLE):
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "tables.json").write_text(text)
        return CliRunner().invoke(lakehouse, ["import-config", *words])

    return run


@pytest.fixture
def aws(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with mock_aws():
        yield


def test_a_file_becomes_tables_that_are_accepted(run):
    told = run("tables.json")
    assert told.exit_code == 0, told.output
    tables = yaml.safe_load(told.stdout)
    assert tables == DECLARED
    load_declarations({"dms_task": {"type": "dms", "path": "x"}}, tables, {"dms": DmsSourceConfig})


def test_the_source_that_they_need_is_told(run):
    told = run("tables.json", "--source", "oltp").stdout
    source = "".join(line.removeprefix("# ") for line in told.splitlines(keepends=True) if line[0] == "#")
    assert yaml.safe_load(source.partition("\n")[2])["oltp"]["timestamp_column"] == "last_update_time"


def test_history_and_the_samples_own_names_are_options(run):
    told = json.loads(run("tables.json", "--history", "--with-schema", "--json").stdout)
    assert next(iter(told)) == "sports.dms_sample_mlb_data"
    assert all(table["history"] is True for table in told.values())


def test_a_parameter_and_a_secret_are_read_by_name(run, aws):
    text = json.dumps(SAMPLE)
    ssm = boto3.client("ssm", "eu-west-1")
    ssm.put_parameter(Name="/lake/tables", Value=text, Type="SecureString")
    boto3.client("secretsmanager", "eu-west-1").create_secret(Name="lake/tables", SecretString=text)
    for origin in ("ssm:/lake/tables", "secretsmanager:lake/tables"):
        assert json.loads(run(origin, "--json").stdout) == DECLARED


@pytest.mark.parametrize(
    ("origin", "reason"),
    [("ssm:missing", "ParameterNotFound"), ("secretsmanager:missing", "ResourceNotFoundException")],
)
def test_what_is_not_there_is_told_with_its_reason(run, aws, origin, reason):
    told = run(origin)
    assert told.exit_code == 1
    assert "AWS_REFUSED" in told.output
    assert reason in told.output


def test_a_file_is_written_once_and_never_over_another(run, tmp_path):
    assert run("tables.json", "--out", "tables_imported.yml").exit_code == 0
    written = (tmp_path / "tables_imported.yml").read_text()
    assert yaml.safe_load(written) == DECLARED
    again = run("tables.json", "--out", "tables_imported.yml")
    assert again.exit_code == 1
    assert "nothing was written" in again.output
    assert (tmp_path / "tables_imported.yml").read_text() == written


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "line 1, column 2"),
        ([], "no object with tables"),
        ({"item": {"primaryKey": "id", "domain": "shop"}}, "not of the form schema.table"),
        ({"s.item": {"domain": "shop"}}, "s.item.primaryKey"),
        ({"s.item": {"primaryKey": "id"}}, "s.item.domain"),
        ({"s.item": {"primarykey": "id", "domain": "shop"}}, "Did you mean 'primaryKey'?"),
        ({"s.item": {"primaryKey": "id", "domain": "shop", "partitionCols": "weeks(x)"}}, "partition_by"),
        ({"s.item": {"primaryKey": "id", "domain": "ops"}}, "'ops'"),
        (
            {f"{s}.item": {"primaryKey": "id", "domain": "shop"} for s in ("crm", "sales")},
            "stands for crm/item already",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_key(run, content, told):
    refused = run("tables.json", content=content)
    assert refused.exit_code == 1
    assert told in refused.output


def test_a_file_that_is_not_there_is_told(run):
    assert "no file with text" in run("elsewhere.json").output
