"""A table of Amazon DynamoDB as a source that is asked for its items."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro_lakehouse.aws import client, code_of, is_unanswered
from kedro_lakehouse.config.dynamodb import DynamoSourceConfig
from kedro_lakehouse.pulls.dynamodb.items import as_key, kept, line_of
from kedro_lakehouse.pulls.errors import TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Chunk, Entity, EntityColumn, Pull, PullCapabilities

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.pulls.protocol import Since

_BUSY: Final = frozenset({"ProvisionedThroughputExceededException", "LimitExceededException"})
_GONE: Final = frozenset({"ResourceNotFoundException"})


class DynamoSource:
    """One table, scanned page by page with consistent reads; the scan goes on after any page.

    A scan is no state of one moment. An item that is there from its begin to its end is read once; one that
    is changed meanwhile as it was before or after.
    """

    config_model: ClassVar[type[DynamoSourceConfig]] = DynamoSourceConfig
    capabilities: ClassVar[PullCapabilities] = PullCapabilities(
        modes=frozenset({"full", "snapshot"}), lands="json", resumes=True
    )

    def __init__(
        self, config: DynamoSourceConfig, name: TableName, table: TableConfig, credentials: Mapping[str, Any]
    ) -> None:
        """Store the declarations and the client's arguments; nothing is contacted yet."""
        del name
        self._config, self._entity, self._credentials = config, table.entity, credentials
        self._closed = threading.Event()

    def describe(self) -> Entity:
        """The key, whose types alone a table has, and the number of items of some hours ago."""
        found = self._asked("describe_table")["Table"]
        types = {one["AttributeName"]: one["AttributeType"] for one in found["AttributeDefinitions"]}
        keys = tuple(one["AttributeName"] for one in found["KeySchema"])
        columns = tuple(EntityColumn(name=name, type=types[name], nullable=False) for name in keys)
        return Entity(columns=columns, keys=keys, rows=found.get("ItemCount"))

    def plan(self, since: Since) -> Pull:
        """Ask which table it is, and what time it is there."""
        del since
        answer = self._asked("describe_table")
        found = answer["Table"]
        time = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
        identity = {"table": found["TableArn"], "id": found.get("TableId", "")}
        return Pull(from_=None, to=time.isoformat(), identity=identity)

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """Read page after page until one names no next one."""
        del pull
        place: Mapping[str, Any] | None = state
        while place is None or place.get("key"):
            begin = {"ExclusiveStartKey": as_key(place["key"])} if place else {}
            page = self._asked("scan", ConsistentRead=True, Limit=self._config.page, **begin)
            place = {"key": kept(page.get("LastEvaluatedKey") or {})}
            yield Chunk(rows=[line_of(item) for item in page["Items"]], state=place)

    def close(self) -> None:
        """End a read after the page in hand; boto3's client holds nothing that must be given back."""
        self._closed.set()

    @cached_property
    def _client(self) -> Any:
        return client("dynamodb", region=self._config.region, **self._credentials)

    def _asked(self, operation: str, **arguments: Any) -> Any:
        if self._closed.is_set():
            raise TransientFault("the read was ended")
        with faults():
            return getattr(self._client, operation)(TableName=self._entity, **arguments)


@contextmanager
def faults() -> Iterator[None]:
    """Raise errors of AWS as faults, by their codes alone: a text may hold names or an identity.

    Raises:
        TransientFault: No answer came, or the table is asked for more than it may give.
        TerminalFault: There is no such table, or no right; or anything else.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = code_of(error)
        if code in _BUSY or is_unanswered(error):
            raise TransientFault(f"DynamoDB gives no answer now ({code})") from None
        if code in _GONE:
            raise TerminalFault("there is no such table", "Correct `entity` or `region`.") from None
        remedy = "Give the role dynamodb:DescribeTable and dynamodb:Scan on the table."
        raise TerminalFault(f"DynamoDB refuses ({code})", remedy) from None
    except BotoCoreError as error:
        if is_unanswered(error):
            raise TransientFault(f"DynamoDB was not reached ({type(error).__name__})") from None
        raise TerminalFault(f"the client gave up ({type(error).__name__})") from None
