"""Pulls of collections and views of MongoDB: `_id` as text, and each document in the bytes that were sent."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from kedro_lakehouse.config.mongodb import MongoSourceConfig
from kedro_lakehouse.errors import require
from kedro_lakehouse.pulls.errors import SourceChangedFault, TerminalFault
from kedro_lakehouse.pulls.mongo_errors import faults
from kedro_lakehouse.pulls.protocol import Chunk, Entity, EntityColumn, Pull, PullCapabilities, Since

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pymongo import MongoClient

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName

SCHEMA: Final = pa.schema([("_id", pa.string()), ("document", pa.binary())])
_CHUNK_ROWS: Final = 20_000
_CHUNK_BYTES: Final = 32 * 2**20
_SECONDS: Final = 20
_SAMPLED: Final = 1_000
_AFTER: Final = "after"
_BRACKETS: Final = (
    ("minKey",),
    ("undefined", "null"),
    ("int", "long", "double", "decimal"),
    ("symbol", "string"),
    ("object",),
    ("array",),
    ("binData",),
    ("objectId",),
    ("bool",),
    ("date",),
    ("timestamp",),
    ("regex",),
    ("dbPointer",),
    ("javascript",),
    ("javascriptWithScope",),
    ("maxKey",),
)
"""The types of values in the order in which MongoDB sorts them; a comparison stays within one of these."""


class MongoSource:
    """One collection or view of a database."""

    config_model: ClassVar[type[MongoSourceConfig]] = MongoSourceConfig
    capabilities: ClassVar[PullCapabilities] = PullCapabilities(
        modes=frozenset({"full", "incremental", "snapshot"}), lands="parquet", resumes=True
    )

    def __init__(
        self,
        config: MongoSourceConfig,
        name: TableName,
        table: TableConfig,
        credentials: Mapping[str, Any],
    ) -> None:
        """Store the declarations and the secrets; nothing is contacted yet.

        Raises:
            UnsupportedError: The extra ``mongodb`` is not installed.
        """
        require("pymongo", what="MongoDB needs pymongo", install="'kedro-lakehouse[mongodb]'")
        self._config, self._name, self._table = config, name, table
        self._credentials = dict(credentials)
        self._client: MongoClient[Any] | None = None

    @property
    def _collection(self) -> str:
        return self._table.entity or self._name.table

    def describe(self) -> Entity:
        """The fields of some documents, and the database's estimate of how many documents there are."""
        from kedro_lakehouse.pulls.mongo_documents import kinds_of_fields

        with faults():
            self._facts()
            some = self._raw().find(limit=_SAMPLED)
            fields = kinds_of_fields(document.raw for document in some)
            rows = None if self._is_view() else self._database()[self._collection].estimated_document_count()
        columns = (EntityColumn(name=name, type=" or ".join(kinds)) for name, kinds in fields.items())
        return Entity(columns=tuple(columns), keys=("_id",), rows=rows)

    def plan(self, since: Since) -> Pull | None:
        """The whole collection now; or the documents whose cursor lies in the next window.

        Raises:
            SourceFault: The database cannot be asked, there is no such collection, or a document could never
                be pulled as its cursor is no date.
        """
        with faults():
            identity, now = self._identity(), self._now()
            if self._cursor is None:
                return Pull(from_=None, to=now.isoformat(), identity=identity)
            begin = None if since.to is None else dt.datetime.fromisoformat(since.to) - self._overlap
            pull = Pull(from_=begin and begin.isoformat(), to=now.isoformat(), identity=identity)
            self._refuse_other_cursors()
            if self._raw().find_one(self._window(pull), {"_id": 1}) is None:
                return None
        return pull

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """Read documents by `_id`; a view, whose `_id` need not be unique, only from the beginning."""
        with faults():
            self._require_same(pull)
            is_view = self._is_view()
            wanted = self._window(pull)
            if state is not None:
                wanted = {"$and": [wanted, after(state[_AFTER])]} if wanted else after(state[_AFTER])
            found = self._raw().find(wanted, sort=None if is_view else [("_id", 1)])
            for texts, documents in _chunks(found):
                rows = pa.table({"_id": texts, "document": documents}, schema=SCHEMA)
                yield Chunk(rows=rows, state=None if is_view else {_AFTER: texts[-1]})
            # What is dropped while it is read ends early, and without an error on some servers.
            self._require_same(pull)

    def close(self) -> None:
        """Close the connections; a read that goes on elsewhere ends with an error."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
