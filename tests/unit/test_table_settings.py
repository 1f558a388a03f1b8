"""Settings of tables in Systems Manager and Secrets Manager are merged over tables.yml, on moto."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import yaml
from harness.project import TemporaryProject
from moto import mock_aws

from kedro_lakehouse.config.table_settings import merged_over
from kedro_lakehouse.deploy.access import table_settings as rights
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.unit

SOURCES = {"s": {"type": "changes", "path": "${globals:landing}", "file_format": "csv"}}
TABLES: dict[str, Any] = {
    "shop.item": {"source": "s", "keys": ["id"], "order_by": ["n"], "history": {"track": {"exclude": ["x"]}}}
}


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        yield


def loaded(folder: Path, settings: str | None) -> Project:
    made = TemporaryProject.make(folder / "p", SOURCES, TABLES)
    if settings is not None:
        path = made.path / "conf/base/globals.yml"
        path.write_text(
            path.read_text(encoding="utf-8") + f"\ntable_settings: {settings}\n", encoding="utf-8"
        )
    return Project.load(str(made.path / "conf"), None)


def store(service: str, blocks: dict[str, str]) -> str:
    """Store blocks, and others beside them that are not meant; return where they are."""
    client: Any = boto3.client(service)  # type: ignore[call-overload]
    if service == "ssm":
        for name, text in {**{f"/lake/tables/{n}": t for n, t in blocks.items()}, "/lake/other": "x"}.items():
            client.put_parameter(Name=name, Value=text, Type="SecureString")
        return "ssm:/lake/tables"
    for name, text in {**{f"lake/tables/{n}": t for n, t in blocks.items()}, "lake/tables2/a/b": "x"}.items():
        client.create_secret(Name=name, SecretString=text)
    return "secretsmanager:lake/tables"


@pytest.mark.parametrize("service", ["ssm", "secretsmanager"])
def test_a_block_changes_a_table_adds_one_and_removes_a_key(tmp_path: Path, service: str) -> None:
    new = {"source": "s", "keys": ["no"], "order_by": ["n"]}
    blocks = {
        "shop/item": yaml.safe_dump(
            {"history": {"view": {"name": "items"}}, "order_by": ["m"], "keys": ["id"]}
        ),
        **{f"shop/t{number}": json.dumps(new) for number in range(15)},  # more than one page of parameters
    }
    tables = loaded(tmp_path, store(service, blocks)).declarations.tables
    assert len(tables) == 16
    assert tables[TableName("shop", "t14")].keys == ("no",)
    item = tables[TableName("shop", "item")]
    assert item.order_by == ("m",)
    assert item.history is not None
    assert item.history.track is not None  # of tables.yml
    assert item.history.view is not None  # of the block


def test_a_null_removes_a_key_of_the_file(tmp_path: Path) -> None:
    where = store("ssm", {"shop/item": "history: null"})
    assert loaded(tmp_path, where).declarations.tables[TableName("shop", "item")].history is None


def test_without_the_global_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kedro_lakehouse.aws.client", lambda *_, **__: pytest.fail("AWS was asked"))
    assert len(loaded(tmp_path, None).declarations.tables) == 1


@pytest.mark.parametrize("where", ["tables", "s3:/lake", "ssm:", "ssm:/"])
def test_a_place_that_is_none_is_refused(tmp_path: Path, where: str) -> None:
    with pytest.raises(ConfigurationError, match="names no place of settings") as found:
        loaded(tmp_path, f"'{where}'")
    assert found.value.key == "table_settings"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("item", "keys: [id]", "<namespace>/<table>"),
        ("a/b/c", "keys: [id]", "<namespace>/<table>"),
        ("a/b", "just text", "no mapping"),
        ("a/b", "keys: [id", "no mapping"),
        ("a/b", "source: 'AKIAIOSFODNN7EXAMPLE'", "looks like a secret"),
        ("a/b", "properties: {x: 'jdbc://u:hunter2@db'}", "looks like a secret"),
        ("a/b", "checks: {x: ['-----BEGIN RSA PRIVATE KEY-----']}", "looks like a secret"),
        ("a/b", "source: eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.x", "looks like a secret"),
    ],
)
def test_a_block_that_is_none_is_refused_by_its_name_and_not_shown(name: str, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as found:
        merged_over({}, {name: text}, store="Systems Manager", below="/lake/tables/")
    assert str(found.value).startswith("[CONFIGURATION] Systems Manager: '/lake/tables/")
    for shown in ("hunter2", "AKIA", "BEGIN", "eyJ", "just text"):
        assert shown not in str(found.value)


def test_a_wrong_key_of_a_block_is_refused_like_one_of_the_file(tmp_path: Path) -> None:
    where = store("ssm", {"shop/item": "kes: [id]"})
    with pytest.raises(ConfigurationError, match="Did you mean 'keys'") as found:
        loaded(tmp_path, where)
    assert found.value.key == "shop.item.kes"


def test_a_job_may_read_what_is_declared_and_no_more() -> None:
    (right,) = rights("ssm:/lake/tables")
    assert right["Action"] == ["ssm:GetParametersByPath"]
    assert [one["Fn::Sub"].rpartition(":")[2] for one in right["Resource"]] == [
        "parameter/lake/tables", "parameter/lake/tables/*",
    ]  # fmt: skip
    read, listed = rights("secretsmanager:lake/tables")
    assert [one["Fn::Sub"].rpartition(":")[2] for one in read["Resource"]] == ["lake/tables/*"]
    assert listed["Action"] == ["secretsmanager:ListSecrets"]
