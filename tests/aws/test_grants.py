"""Lake Formation gets the rights of grants.yml, and loses those that it says no longer; moto plays AWS."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
import pyarrow as pa
import pytest
from botocore.validate import ParamValidator
from click.testing import CliRunner
from harness.aws import LAKEHOUSE, ProjectOnAws, moto_aws
from harness.granted import TABLES

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.errors import AwsRefusedError, ConfigurationError
from kedro_lakehouse.grants.lake_formation import EVERYBODY, GrantPlan, LakeFormation, Step
from kedro_lakehouse.preview.plan import plan_run
from kedro_lakehouse.project import Project, _Active

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.aws

ACCOUNT = "123456789012"
ANALYST, READER, OTHER = (f"arn:aws:iam::{ACCOUNT}:role/{name}" for name in ("analyst", "reader", "jobs"))
COLUMNS = {
    "customer": ["id", "email", "name", "phone", "card", "born", "salary", "region", "_order"],
    "customer_history": [
        "id",
        "email",
        "name",
        "phone",
        "card",
        "born",
        "salary",
        "region",
        "effective_from",
    ],
    "secret": ["id", "word"],
    "staff": ["id", "name", "desk"],
}
GRANTS: dict[str, Any] = {
    "principals": {"analyst": ANALYST, "reader": READER},
    "analyst": [
        {"database": "shop", "can": "describe"},
        {"table": "shop.customer", "columns": {"exclude": ["email"]}},
        {"table": "shop.staff", "can": "describe"},
        {"tag": "open"},
    ],
    "reader": [{"database": "shop"}, {"table": "shop.staff", "columns": {"include": ["id", "desk"]}}],
    "here": [{"tag": "money"}],
}
BY_ROWS = {"table": "shop.customer", "columns": {"exclude": ["email"]}, "rows": "salary < 10"}


@pytest.fixture
def aws() -> Iterator[Any]:
    """Glue with the stored tables of one database, on which everybody has all rights, as by default."""
    with moto_aws():
        glue, formation = boto3.client("glue"), boto3.client("lakeformation")
        glue.create_database(DatabaseInput={"Name": "shop"})
        glue.create_database(DatabaseInput={"Name": "other"})
        for name, columns in COLUMNS.items():
            described = {"Columns": [{"Name": column, "Type": "string"} for column in columns]}
            glue.create_table(DatabaseName="shop", TableInput={"Name": name, "StorageDescriptor": described})
        for resource in (
            {"Database": {"Name": "shop"}}, {"Table": {"DatabaseName": "shop", "Name": "secret"}},
            {"Database": {"Name": "other"}},
        ):  # fmt: skip
            give(EVERYBODY, resource, "ALL")
        give(OTHER, {"Database": {"Name": "shop"}}, "ALL")
        give(ANALYST, {"Database": {"Name": "other"}}, "DESCRIBE")
        yield formation


def give(principal: str, resource: dict[str, Any], permission: str, **more: Any) -> None:
    boto3.client("lakeformation").grant_permissions(
        Principal={"DataLakePrincipalIdentifier": principal},
        Resource=resource,
        Permissions=[permission],
        **more,
    )


def project(**grants: Any) -> Project:
    """A project in Glue, with these grants over those above."""
    tables = TABLES | {"shop.gone": {"source": "shop", "keys": ["id"]}}
    declared = load_declarations({"shop": {"type": "dms", "path": "x"}}, tables, {"dms": DmsSourceConfig})
    lake = "spark.sql.catalog.lake."
    given = GRANTS | grants
    return Project(
        env="aws", declarations=declared, lakehouse=f"s3://{LAKEHOUSE}/lakehouse",
        spark_conf={f"{lake}type": "glue", f"{lake}warehouse": f"s3://{LAKEHOUSE}/lakehouse/warehouse"},
        _grants=lambda: given,
    )  # fmt: skip


def applied(**grants: Any) -> GrantPlan:
    """The plan of a project with these grants, after it was applied."""
    formation = LakeFormation(project(**grants))
    plan = formation.plan()
    formation.apply(plan)
    return plan


def rights(formation: Any) -> set[tuple[str, str, str]]:
    """What Lake Formation lists: principal, resource and permission."""
    listed = formation.list_permissions()["PrincipalResourcePermissions"]
    return {
        (one["Principal"]["DataLakePrincipalIdentifier"], json.dumps(one["Resource"]), permission)
        for one in listed
        for permission in one["Permissions"]
    }


def on(kind: str, **named: Any) -> str:
    return json.dumps({kind: named})


def some(name: str, **choice: Any) -> str:
    return on("TableWithColumns", DatabaseName="shop", Name=name, **choice)


def all_but(name: str, *hidden: str) -> str:
    return some(name, ColumnWildcard={"ExcludedColumnNames": list(hidden)} if hidden else {})


OPEN = {"ResourceType": "TABLE", "Expression": [{"TagKey": "kedro-lakehouse:open", "TagValues": ["yes"]}]}
FOREIGN = {
    (EVERYBODY, on("Database", Name="other"), "ALL"),
    (OTHER, on("Database", Name="shop"), "ALL"),
    (ANALYST, on("Database", Name="other"), "DESCRIBE"),
}
EXPECTED = FOREIGN | {
    (ANALYST, on("Database", Name="shop"), "DESCRIBE"),
    (ANALYST, all_but("customer", "_order", "card", "email", "name"), "SELECT"),
    (ANALYST, all_but("customer_history", "card", "email", "name"), "SELECT"),
    (ANALYST, on("Table", DatabaseName="shop", Name="staff"), "DESCRIBE"),
    (ANALYST, on("LFTagPolicy", **OPEN), "SELECT"),
    (READER, on("Database", Name="shop"), "DESCRIBE"),
    (READER, all_but("customer", "_order", "card", "name"), "SELECT"),
    (READER, all_but("customer_history", "card", "name"), "SELECT"),
    (READER, all_but("secret"), "SELECT"),
    *((READER, on("Table", DatabaseName="shop", Name=name), "DESCRIBE")
      for name in ("customer", "customer_history", "secret")),
    (READER, some("staff", ColumnNames=["desk", "id"]), "SELECT"),
}  # fmt: skip


def test_apply_gives_what_the_file_says_and_a_second_one_changes_nothing(aws: Any) -> None:
    plan = applied()
    assert rights(aws) == EXPECTED
    settings = aws.get_data_lake_settings()["DataLakeSettings"]
    assert settings["CreateDatabaseDefaultPermissions"] == settings["CreateTableDefaultPermissions"] == []
    registered = [one["ResourceArn"] for one in aws.list_resources()["ResourceInfoList"]]
    assert registered == [f"arn:aws:s3:::{LAKEHOUSE}/lakehouse"]
    assert tags_of(aws, "customer") == {"region": ["kedro-lakehouse:open"]}
    assert tags_of(aws, "staff") == {"desk": ["kedro-lakehouse:open"]}
    assert plan.ends_iam_only
    assert plan.absent == ["shop.secret_history", "hr.person", "shop.gone"]
    assert plan.local == ["here"]
    again = applied()
    assert (again.steps, again.ends_iam_only) == ([], False)


def tags_of(formation: Any, table: str) -> dict[str, list[str]]:
    columns = {"DatabaseName": "shop", "Name": table, "ColumnNames": COLUMNS[table]}
    answer = formation.get_resource_lf_tags(Resource={"TableWithColumns": columns})
    return {
        one["Name"]: sorted(tag["TagKey"] for tag in one["LFTags"])
        for one in answer.get("LFTagsOnColumns", ())
        if one["LFTags"]
    }


def test_a_plan_changes_nothing(aws: Any) -> None:
    before = rights(aws)
    assert LakeFormation(project()).plan().steps
    assert rights(aws) == before
    assert aws.list_lf_tags()["LFTags"] == aws.list_resources()["ResourceInfoList"] == []


def test_what_is_taken_out_of_the_file_is_revoked_one_by_one(aws: Any) -> None:
    applied()
    rest = [one for one in GRANTS["analyst"] if one.get("table") != "shop.customer"]
    steps = applied(analyst=rest).steps
    assert {step.operation for step in steps} == {"revoke_permissions"}
    assert len(steps) == 2
    gone = {one for one in EXPECTED if one[0] == ANALYST and "customer" in one[1]}
    assert rights(aws) == EXPECTED - gone
    applied(analyst=[])
    assert rights(aws) == {one for one in EXPECTED if one[0] != ANALYST} | FOREIGN
    assert tags_of(aws, "customer") == {}


def test_another_choice_of_columns_takes_the_place_of_the_one_before(aws: Any) -> None:
    applied()
    steps = applied(analyst=[{"table": "shop.customer", "columns": {"include": ["id", "region"]}}]).steps
    assert [s.operation for s in steps if "grant" in s.operation] == ["grant_permissions"] * 2
    kinds = [step.operation for step in steps]
    assert kinds.index("grant_permissions") > max(n for n, k in enumerate(kinds) if k == "revoke_permissions")
    assert {one for one in rights(aws) if one[0] == ANALYST} - FOREIGN == {
        (ANALYST, some("customer", ColumnNames=["id", "region"]), "SELECT"),
        (ANALYST, some("customer_history", ColumnNames=["effective_from", "id", "region"]), "SELECT"),
    }


def test_a_right_that_could_be_passed_on_is_given_anew_without_that(aws: Any) -> None:
    give(ANALYST, {"Database": {"Name": "shop"}}, "DESCRIBE", PermissionsWithGrantOption=["DESCRIBE"])
    words = f"revoke DESCRIBE with grant option on database shop from {ANALYST}"
    assert words in [step.words for step in applied().steps]
    assert rights(aws) == EXPECTED
    assert applied().steps == []


def test_select_on_a_whole_table_is_select_on_all_its_columns(aws: Any) -> None:
    applied()
    resource = json.loads(all_but("secret"))
    aws.revoke_permissions(
        Principal={"DataLakePrincipalIdentifier": READER}, Resource=resource, Permissions=["SELECT"]
    )
    give(READER, {"Table": {"CatalogId": ACCOUNT, "DatabaseName": "shop", "Name": "secret"}}, "SELECT")
    assert applied().steps == []


def test_a_column_that_glue_does_not_know_is_refused_before_any_call(aws: Any) -> None:
    before = rights(aws)
    with pytest.raises(ConfigurationError, match=r"one\[0\].*no column 'emial'.*Did you mean 'email'"):
        applied(
            one=[{"table": "shop.customer", "columns": {"exclude": ["emial"]}}], principals={"one": ANALYST}
        )
    assert rights(aws) == before


def test_a_refusal_of_aws_is_told_by_its_code(aws: Any) -> None:
    formation = LakeFormation(project())
    step = Step(
        words="register nothing", operation="deregister_resource", arguments={"ResourceArn": "arn:none"}
    )
    with pytest.raises(AwsRefusedError, match="leave to register nothing: EntityNotFound"):
        formation.apply(replace(formation.plan(), steps=[step]))


def test_the_command_shows_the_plan_and_applies_it(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kedro_lakehouse.cli.grants.open_project", project)
    planned = CliRunner().invoke(lakehouse, ["grants", "plan"])
    assert planned.exit_code == 0, planned.output
    assert f"grant SELECT on shop.staff (desk, id) to {READER}\n" in planned.output
    assert f"revoke ALL on database shop from {EVERYBODY}\n" in planned.output
    assert "the role of your jobs too" in planned.output
    asked = CliRunner().invoke(lakehouse, ["grants", "apply"])
    assert "add --yes" in asked.output
    assert rights(aws) != EXPECTED
    done = CliRunner().invoke(lakehouse, ["grants", "apply", "--yes"])
    assert done.exit_code == 0, done.output
    assert rights(aws) == EXPECTED
    assert "has what grants.yml says" in CliRunner().invoke(lakehouse, ["grants", "plan"]).output
    as_json = json.loads(CliRunner().invoke(lakehouse, ["grants", "plan", "--json"]).stdout)
    assert (as_json["steps"], as_json["applied"]) == ([], False)


def test_a_plan_of_a_run_tells_what_apply_then_does(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kedro_lakehouse.cli.grants.open_project", project)
    only = ["hr.person"]  # the tables in Glue are described, and there is no table of Iceberg behind them
    foreseen = plan_run(project(), only).grants
    assert foreseen is not None
    done = CliRunner().invoke(lakehouse, ["grants", "apply", "--yes", "--json"])
    assert done.exit_code == 0, done.output
    applied = json.loads(done.stdout)
    assert applied["applied"]
    assert foreseen["steps"] == [step["words"] for step in applied["steps"]] != []
    assert rights(aws) == EXPECTED
    assert plan_run(project(), only).grants == foreseen | {"steps": []}


def test_every_call_fits_the_published_shapes(aws: Any) -> None:
    """Also those that moto does not play: filters of rows."""
    steps = list(LakeFormation(project()).plan().steps)
    applied()
    steps += LakeFormation(project(analyst=[BY_ROWS], principals={"analyst": ANALYST})).plan().steps
    steps += LakeFormation(project(analyst=[], reader=[])).plan().steps
    service = botocore.session.get_session().get_service_model("lakeformation")
    names = {botocore.xform_name(name): name for name in service.operation_names}
    for step in steps:
        shape = service.operation_model(names[step.operation]).input_shape
        assert not ParamValidator().validate(step.arguments, shape).has_errors(), step
    assert {"create_data_cells_filter", "remove_lf_tags_from_resource"} <= {step.operation for step in steps}


def test_rows_are_filtered_by_a_data_cells_filter(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = project(analyst=[BY_ROWS], principals={"analyst": ANALYST})
    made = [
        s.arguments for s in LakeFormation(found).plan().steps if s.operation == "create_data_cells_filter"
    ]
    names = {"TableCatalogId": ACCOUNT, "DatabaseName": "shop", "Name": "kedro_lakehouse_analyst"}
    hidden = {"customer": ["_order", "card", "email", "name"], "customer_history": ["card", "email", "name"]}
    assert made == [
        {
            "TableData": names | {
                "TableName": table, "RowFilter": {"FilterExpression": "salary < 10"},
                "ColumnWildcard": {"ExcludedColumnNames": columns},
            }
        }
        for table, columns in hidden.items()
    ]  # fmt: skip
    granted = {s.words for s in LakeFormation(found).plan().steps if s.operation == "grant_permissions"}
    assert f"grant SELECT on shop.customer by filter kedro_lakehouse_analyst to {ANALYST}" in granted

    # What AWS would list after that; moto makes no filter.
    listed = [one["TableData"] | {"VersionId": "1"} for one in made]
    listed[1] = listed[1] | {"RowFilter": {"FilterExpression": "salary < 9"}}
    listed.append(listed[0] | {"TableName": "secret"})
    listed.append(listed[0] | {"Name": "of_somebody_else"})
    call = LakeFormation._call
    monkeypatch.setattr(
        LakeFormation,
        "_call",
        lambda self, service, operation, what, **arguments: (
            {"DataCellsFilters": listed}
            if operation == "list_data_cells_filter"
            else call(self, service, operation, what, **arguments)
        ),
    )
    steps = [s for s in LakeFormation(found).plan().steps if s.operation.endswith("data_cells_filter")]
    assert [step.words for step in steps] == [
        "change filter kedro_lakehouse_analyst on shop.customer_history",
        "delete filter kedro_lakehouse_analyst on shop.secret",
    ]
    assert steps[1].arguments == names | {"TableName": "secret"}


def test_all_pages_of_a_list_are_read(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moto gives all rights on one page."""
    applied()
    call = LakeFormation._call

    def paged(self: Any, service: Any, operation: str, what: str, **arguments: Any) -> dict[str, Any]:
        token = int(arguments.pop("NextToken", "0"))
        answer = call(self, service, operation, what, **arguments)
        if operation != "list_permissions":
            return answer
        whole = answer["PrincipalResourcePermissions"]
        more = {"NextToken": str(token + 1)} if token + 1 < len(whole) else {}
        return {"PrincipalResourcePermissions": whole[token : token + 1]} | more

    monkeypatch.setattr(LakeFormation, "_call", paged)
    assert LakeFormation(project()).plan().steps == []


DECLARED = """
principals: {analyst: "${oc.env:ANALYST_ROLE_ARN}"}
analyst:
  - {table: dms_sample.person, columns: {exclude: [email]}, mask: {last_name: hide}}
  - {table: dms_sample.seat_type}
"""


def test_a_project_grants_real_tables_and_a_role_asks_for_them(
    aws: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user has it: files, commands, and Iceberg tables in Glue and S3, which pyiceberg writes here."""
    ran = ProjectOnAws.make(tmp_path / "project")
    monkeypatch.setenv("ANALYST_ROLE_ARN", ANALYST)
    (ran.path / "conf/aws/grants.yml").write_text(DECLARED, encoding="utf-8")
    catalog = ran.opened().catalog
    catalog.ensure_namespace("dms_sample")
    person = {
        "id": 7,
        "full_name": "A B",
        "last_name": "B",
        "first_name": "A",
        "email": "a@b.c",
        "_order": "x",
    }
    for name, row in {
        "person": person, "person_history": person | {"is_current": True}, "seat_type": {"name": "box"},
        "seat_type_history": {"name": "box"},
    }.items():  # fmt: skip
        rows = pa.Table.from_pylist([row])
        catalog.catalog.create_table(f"dms_sample.{name}", schema=rows.schema).append(rows)
    monkeypatch.chdir(ran.path)
    monkeypatch.setattr(_Active, "project", None)

    def printed(*words: str) -> Any:
        done = CliRunner().invoke(lakehouse, [*words, "--env", "aws", "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert printed("grants", "apply", "--yes")["applied"]
    listed = [
        one
        for one in aws.list_permissions()["PrincipalResourcePermissions"]
        if one["Principal"]["DataLakePrincipalIdentifier"] == ANALYST and "dms_sample" in json.dumps(one)
    ]
    granted = {json.dumps(one["Resource"]): one["Permissions"] for one in listed}
    by_table = {
        one["Resource"]["TableWithColumns"]["Name"]: one["Resource"]["TableWithColumns"]["ColumnWildcard"]
        for one in listed
        if "TableWithColumns" in one["Resource"]
    }
    hidden = set(by_table["person"]["ExcludedColumnNames"])
    assert hidden == {"email", "last_name", "first_name", "full_name", "_order"}
    assert set(by_table) == {"person", "person_history", "seat_type", "seat_type_history"}
    assert granted['{"Table": {"DatabaseName": "dms_sample", "Name": "seat_type"}}'] == ["DESCRIBE"]
    assert printed("grants", "plan")["steps"] == []
    expected = {"id": 7, "full_name": "****", "last_name": None, "first_name": "****"}
    assert printed("sql", "from dms_sample.person limit 1", "--as", "analyst") == [expected]
