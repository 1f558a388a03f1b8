"""Tables of DynamoDB, as moto plays them: the contract of pulled sources, values, pages, faults."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from kedro_lakehouse.config.dynamodb import DynamoSourceConfig
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.pulls import PullConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.deploy.access import _scans
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.dynamodb.items import as_key, kept, line_of
from kedro_lakehouse.pulls.dynamodb.source import DynamoSource, faults
from kedro_lakehouse.pulls.errors import TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Since
from kedro_lakehouse.testing.pulls import PulledSourceContract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.unit

NAME = TableName("ref", "item")
FIRST = Since(number=0, to=None)
_number = itertools.count()


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with mock_aws():
        yield


class Items:
    """A table with a number as its key."""

    def __init__(self) -> None:
        self.name, self._client = f"item{next(_number)}", boto3.client("dynamodb")
        self._make()

    def _make(self) -> None:
        self._client.create_table(
            TableName=self.name, BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "N"}],
        )  # fmt: skip

    def put(self, rows: dict[int, str | None]) -> None:
        for some in _cut(rows):
            puts = [
                {"PutRequest": {"Item": {
                    "id": {"N": str(number)}, "name": {"NULL": True} if name is None else {"S": name},
                }}}
                for number, name in some
            ]  # fmt: skip
            self._client.batch_write_item(RequestItems={self.name: puts})

    def remove(self, *ids: int) -> None:
        for number in ids:
            self._client.delete_item(TableName=self.name, Key={"id": {"N": str(number)}})

    def settle(self) -> None:
        """There are no windows."""

    def make_anew(self) -> bool:
        return False  # moto gives no id of a table; DynamoDB does


def _cut(rows: dict[int, str | None]) -> Iterator[list[tuple[int, str | None]]]:
    pairs = list(rows.items())
    return (pairs[at : at + 25] for at in range(0, len(pairs), 25))


def declared(entity: str, folder: str, **keys: Any) -> tuple[DynamoSourceConfig, TableName, TableConfig]:
    mode = keys.pop("mode", "full")
    table = TableConfig(source="s", entity=entity, keys=("id",), pull=PullConfig(mode=mode))
    return DynamoSourceConfig(type="dynamodb", path=folder, **keys), NAME, table


class TestDynamo(PulledSourceContract):
    @pytest.fixture
    def origin(self) -> Items:
        return Items()

    def declared(self, origin: Any, mode: Any, folder: str) -> Any:
        return declared(origin.name, folder, mode=mode)

    def opened(self, origin: Any, mode: Any, folder: str, **credentials: str) -> DynamoSource:
        return DynamoSource(*self.declared(origin, mode, folder), credentials)

    def test_it_describes_its_columns(self, origin: Any, tmp_path: Path) -> None:
        """Only the key has a type."""
        origin.put({1: "a"})
        found = self.opened(origin, "full", str(tmp_path)).describe()
        assert ([(c.name, c.type) for c in found.columns], found.keys, found.rows) == (
            [("id", "N")],
            ("id",),
            1,
        )

    def test_wrong_credentials_are_terminal(self) -> None:
        pytest.skip("moto lets everyone in; the faults of refusals are tested below")


def test_every_page_is_read_and_its_place_is_kept_as_json() -> None:
    table = Items()
    table.put(dict.fromkeys(range(60), "x" * 50_000))  # three megabytes: DynamoDB ends a page at one
    source = DynamoSource(*declared(table.name, "p"), {})
    chunks = list(source.read(source.plan(FIRST), None))
    assert len(chunks) > 2
    read = [json.loads(line)["id"] for chunk in chunks for line in chunk.rows]
    assert sorted(read) == list(range(60))
    state = json.loads(json.dumps(chunks[0].state))
    rest = [json.loads(line)["id"] for chunk in source.read(source.plan(FIRST), state) for line in chunk.rows]
    assert read == [json.loads(line)["id"] for line in chunks[0].rows] + rest


def test_values_keep_their_digits_and_their_shapes() -> None:
    item = {
        "id": {"N": "1"}, "much": {"N": "12345678901234567890123456789012345678"}, "small": {"N": "1E-130"},
        "price": {"N": "1.10"}, "text": {"S": 'é " \\ \n'}, "none": {"NULL": True}, "yes": {"BOOL": True},
        "raw": {"B": b"\xff\x00"}, "deep": {"M": {"list": {"L": [{"N": "2.50"}, {"M": {}}]}}},
        "tags": {"SS": ["b", "a"]}, "sizes": {"NS": ["2", "10"]}, "files": {"BS": [b"b", b"a"]},
    }  # fmt: skip
    found = json.loads(line_of(item), parse_float=Decimal)
    assert found == {
        "id": 1, "much": 12345678901234567890123456789012345678, "small": Decimal("1E-130"),
        "price": Decimal("1.10"), "text": 'é " \\ \n', "none": None, "yes": True, "raw": "/wA=",
        "deep": {"list": [Decimal("2.50"), {}]}, "tags": ["a", "b"], "sizes": [10, 2],
        "files": ["YQ==", "Yg=="],
    }  # fmt: skip
    assert b"1.10" in line_of(item)
    key = {"id": {"B": b"\xff"}, "at": {"N": "7"}}
    assert as_key(json.loads(json.dumps(kept(key)))) == key


def answer(code: str, status: int = 400) -> ClientError:
    facts: Any = {
        "Error": {"Code": code, "Message": "arn:secret"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(facts, "Scan")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (answer("ProvisionedThroughputExceededException"), TransientFault, "no answer now"),
        (answer("InternalServerError", 500), TransientFault, "no answer now"),
        (EndpointConnectionError(endpoint_url="secret"), TransientFault, "not reached"),
        (answer("AccessDeniedException"), TerminalFault, "refuses"),
        (answer("UnrecognizedClientException"), TerminalFault, "refuses"),
        (answer("ResourceNotFoundException"), TerminalFault, "no such table"),
    ],
)
def test_what_aws_says_becomes_a_fault_without_its_text(error: Exception, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words) as found, faults():
        raise error
    assert "secret" not in f"{found.value} {found.value.remedy} {found.value.__cause__}"


def test_a_table_that_is_not_there_is_terminal(tmp_path: Path) -> None:
    source = DynamoSource(*declared("none", str(tmp_path)), {})
    with pytest.raises(TerminalFault, match="no such table"):
        source.plan(FIRST)


def test_windows_are_refused() -> None:
    table = {"source": "s", "keys": ["id"], "pull": {"mode": "incremental", "cursor": "at"}}
    with pytest.raises(ConfigurationError, match="does not tell when an item was last changed") as found:
        load_declarations(
            {"s": {"type": "dynamodb", "path": "p"}}, {"ref.item": table}, {"dynamodb": DynamoSourceConfig}
        )
    assert found.value.key == "ref.item.pull.mode"


def test_a_job_may_read_its_tables_and_no_others() -> None:
    (right,) = _scans([("", "lookup"), ("us-east-1", "other")])
    assert right["Action"] == ["dynamodb:DescribeTable", "dynamodb:Scan"]
    assert [one["Fn::Sub"].partition("dynamodb:")[2] for one in right["Resource"]] == [
        "${AWS::Region}:${AWS::AccountId}:table/lookup", "us-east-1:${AWS::AccountId}:table/other",
    ]  # fmt: skip
    assert _scans([]) == []
