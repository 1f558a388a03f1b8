"""Pulls of collections and views of MongoDB: `_id` as text, and each document in the bytes that were sent."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from kedro_lakehouse.config.mongodb import MongoSourceConfig
from kedro_lakehouse.errors import require
from kedro_lakehouse.pulls.errors import SourceChangedFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.mongodb.faults import faults
from kedro_lakehouse.pulls.protocol import (
    Chunk,
    CrawledEntity,
    Entity,
    EntityColumn,
    Pull,
    PullCapabilities,
    Since,
    window_begin,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName

SCHEMA: Final = pa.schema([("_id", pa.string()), ("document", pa.binary())])
_CHUNK_ROWS: Final = 20_000
_CHUNK_BYTES: Final = 32 * 2**20
_OPTIONS: Final[Mapping[str, Any]] = {"serverSelectionTimeoutMS": 20_000, "appname": "kedro-lakehouse"}
_SAMPLED: Final = 1_000
_AFTER: Final = "after"
_OBJECT_ID_FIRST: Final = b"\x07_id\x00"
"""Behind its length, a document begins so if its first field is `_id`, and that an ObjectId: most do."""
_BRACKETS: Final[tuple[tuple[str, ...], ...]] = (
    ("minKey",),
    ("null",),
    ("int", "long", "double", "decimal"),
    ("symbol", "string"),
    ("object",),
    ("binData",),
    ("objectId",),
    ("bool",),
    ("date",),
    ("timestamp",),
    ("maxKey",),
)
"""Types of `_id` in the order in which MongoDB sorts them; a comparison finds values of one bracket alone."""
_BRACKET_OF: Final[Mapping[str, str]] = {
    "NoneType": "null", "int": "int", "Int64": "int", "float": "int", "Decimal128": "int", "str": "string",
    "dict": "object", "bytes": "binData", "Binary": "binData", "ObjectId": "objectId", "bool": "bool",
    "datetime": "date", "DatetimeMS": "date", "Timestamp": "timestamp", "MinKey": "minKey",
    "MaxKey": "maxKey",
}  # fmt: skip


class MongoDatabase:
    """A database, and what its collections and views are; it connects when it is first asked."""

    def __init__(self, config: MongoSourceConfig, credentials: Mapping[str, Any]) -> None:
        """Keep what is needed to connect.

        Raises:
            UnsupportedError: The extra ``mongodb`` is not installed.
        """
        require("pymongo", what="MongoDB needs pymongo", install="'kedro-lakehouse[mongodb]'")
        self.name, self._credentials = config.database, dict(credentials)
        self._client: Any = None
        self._is_closed = False

    @property
    def client(self) -> Any:
        """The client, connected by `uri` of the credentials; their other entries are its options."""
        if self._is_closed:
            raise TransientFault("its connections were closed")
        if self._client is None:
            from pymongo import MongoClient

            options = dict(self._credentials)
            uri = options.pop("uri", None)
            if not uri:
                raise TerminalFault(
                    "no connection string is given", "Write `uri` into the source's entry of credentials.yml."
                )
            for name, value in _OPTIONS.items():  # what the connection string says counts
                if f"{name}=".lower() not in str(uri).lower():
                    options.setdefault(name, value)
            try:
                self._client = MongoClient(uri, **options)
            except (TypeError, ValueError) as error:  # its text may show the password
                raise TerminalFault(
                    f"the connection string cannot be used ({type(error).__name__})",
                    "Correct `uri` and the options beside it in credentials.yml.",
                ) from None
        return self._client

    def close(self) -> None:
        """Close the connections for good; a read that goes on elsewhere ends with an error."""
        self._is_closed = True
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def raw(self, collection: str) -> Any:
        """A collection whose documents are given as bytes; nothing is decoded on the way."""
        from bson.codec_options import CodecOptions, DatetimeConversion
        from bson.raw_bson import RawBSONDocument

        # A date before year 1 or after 9999 would be an error as a datetime.
        dates = DatetimeConversion.DATETIME_MS
        options: Any = CodecOptions(document_class=RawBSONDocument, datetime_conversion=dates)
        return self.client[self.name].get_collection(collection, codec_options=options)

    def collections(self, **wanted: Any) -> list[Mapping[str, Any]]:
        """What the database says of its collections and views; those of the system are left out."""
        found = self.client[self.name].list_collections(filter=wanted)
        return [one for one in found if not one["name"].startswith("system.")]

    def hello(self) -> Mapping[str, Any]:
        """What the server says of itself."""
        answer: Mapping[str, Any] = self.client.admin.command("hello")
        return answer

    def server(self) -> str:
        """The name of the replica set or, where there is none, the address."""
        hello = self.hello()
        host, port = self.client.address or ("", "")
        return str(
            hello.get("setName") or ("sharded" if hello.get("msg") == "isdbgrid" else f"{host}:{port}")
        )


class MongoSource:
    """One collection or view of a database."""

    config_model: ClassVar[type[MongoSourceConfig]] = MongoSourceConfig
    capabilities: ClassVar[PullCapabilities] = PullCapabilities(
        modes=frozenset({"full", "incremental", "snapshot"}), lands="parquet", resumes=True, crawls=True
    )

    def __init__(
        self, config: MongoSourceConfig, name: TableName, table: TableConfig, credentials: Mapping[str, Any]
    ) -> None:
        """Store the declarations and the secrets; nothing is contacted yet."""
        self._database = MongoDatabase(config, credentials)
        self._config, self._table, self._collection = config, table, table.entity or name.table
        self._cursor = config.pull_of(table).cursor

    @classmethod
    def crawl(
        cls, config: MongoSourceConfig, credentials: Mapping[str, Any], *, whole: bool
    ) -> Generator[CrawledEntity, None, None]:
        """Every collection and view of the database, with documents of each, all or `sample` of them."""
        database, sample = MongoDatabase(config, credentials), 0 if whole else config.sample
        try:
            with faults():
                found = sorted(database.collections(), key=lambda one: str(one["name"]))
            for facts in found:
                yield _crawled(database, facts, sample)
        finally:
            database.close()

    def describe(self) -> Entity:
        """The fields of some documents with their types, and the server's estimate of their number."""
        with faults():
            is_view = self._facts()["type"] == "view"
            collection = self._database.raw(self._collection)
            fields: dict[str, set[str]] = {}
            for document in collection.find(limit=_SAMPLED):
                for name, value in document.items():
                    fields.setdefault(name, set()).add(_kind(value))
            rows = None if is_view else collection.estimated_document_count()
        columns = [
            EntityColumn(
                name=name, type=" or ".join(sorted(kinds)), nullable="null" in kinds or name != "_id"
            )
            for name, kinds in fields.items()
        ]
        return Entity(columns=tuple(columns), keys=("_id",), rows=rows)

    def plan(self, since: Since) -> Pull | None:
        """The whole collection now; or the documents whose cursor lies in the next window, if there are any.

        Raises:
            SourceFault: The database cannot be asked, there is no such collection, or a document could never
                be pulled because its cursor is no date.
        """
        with faults():
            identity = self._identity()
            now = self._database.hello()["localTime"].replace(tzinfo=dt.UTC)
            if since.mode != "incremental":
                return Pull(from_=None, to=now.isoformat(), identity=identity)
            begin = window_begin(since, self._config.pull_of(self._table))
            pull = Pull(from_=begin, to=now.isoformat(), identity=identity)
            self._refuse_other_cursors()
            found = self._database.raw(self._collection).find_one(self._window(pull), {"_id": 1})
            return None if found is None else pull

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """Read documents by `_id`; a view, whose `_id` need not be unique, only from the beginning."""
        with faults():
            self._require_same(pull)
            is_view = self._facts()["type"] == "view"
            conditions = [self._window(pull), after(state[_AFTER]) if state else {}]
            wanted = {"$and": given} if (given := [c for c in conditions if c]) else {}
            # The server sorts a window that it finds by the cursor: maybe more than it keeps in memory.
            on_disk = True if self._cursor is not None else None
            found = self._database.raw(self._collection).find(wanted, allow_disk_use=on_disk)
            empty = state is None
            for texts, documents in _chunked(found if is_view else found.sort("_id", 1)):
                rows = pa.table({"_id": texts, "document": documents}, schema=SCHEMA)
                yield Chunk(rows=rows, state=None if is_view else {_AFTER: texts[-1]})
                empty = False
            if empty:
                yield Chunk(rows=SCHEMA.empty_table())
            # Of a collection that is dropped meanwhile, some servers give the rest, and some an end.
            self._require_same(pull)

    def close(self) -> None:
        """Close the connections; a read that goes on elsewhere ends with an error."""
        self._database.close()

    def _facts(self) -> Mapping[str, Any]:
        """What the database says of the collection.

        Raises:
            TerminalFault: There is none.
        """
        found = self._database.collections(name=self._collection)
        if not found:
            raise TerminalFault(
                f"the database has no collection or view '{self._collection}'",
                "Correct `entity` in tables.yml, or `database` in sources.yml.",
            )
        return found[0]

    def _identity(self) -> dict[str, str]:
        """Which server, database and collection this is; a collection that is made anew has another id."""
        facts = self._facts()
        made = facts.get("info", {}).get("uuid") if facts["type"] != "view" else None
        which = f" {bytes(made).hex()}" if made is not None else ""
        return {
            "server": self._database.server(),
            "database": self._database.name,
            "table": f"{self._collection}{which}",
        }

    def _require_same(self, pull: Pull) -> None:
        """Refuse a collection that is not the one that was planned.

        Raises:
            SourceChangedFault: It was dropped, and may have been made anew.
        """
        if not self._database.collections(name=self._collection):
            raise SourceChangedFault(f"the collection '{self._collection}' was dropped while it was read")
        if self._identity() != dict(pull.identity):
            raise SourceChangedFault(f"the collection '{self._collection}' was made anew while it was read")

    def _window(self, pull: Pull) -> dict[str, Any]:
        """The condition for the documents of a pull's window."""
        if self._cursor is None or pull.to is None:
            return {}
        limits = {"$gte": pull.from_, "$lt": pull.to}
        found = {sign: self._cursor_at(text) for sign, text in limits.items() if text is not None}
        return {self._cursor: found}

    def _cursor_at(self, text: str) -> Any:
        """A time as the cursor has it: a date; of `_id` the first id that was made then."""
        time = dt.datetime.fromisoformat(text)
        if self._cursor != "_id":
            return time
        from bson import ObjectId

        return ObjectId.from_datetime(time)

    def _refuse_other_cursors(self) -> None:
        """Refuse documents that no window would ever hold.

        Raises:
            TerminalFault: There is one.
        """
        kind = "objectId" if self._cursor == "_id" else "date"
        other = {str(self._cursor): {"$not": {"$type": kind}}}
        if self._database.raw(self._collection).find_one(other, {"_id": 1}) is not None:
            raise TerminalFault(
                f"a document has no {kind} in '{self._cursor}': no incremental pull would read it",
                "Give all documents one, or use `pull: {mode: full}`.",
            )


def _crawled(database: MongoDatabase, facts: Mapping[str, Any], sample: int) -> CrawledEntity:
    is_view, raw = facts["type"] == "view", database.raw(facts["name"])
    with faults():
        rows = None if is_view else int(raw.estimated_document_count())
    made = facts.get("info", {}).get("uuid")
    return CrawledEntity(
        name=str(facts["name"]),
        kind="view" if is_view else "collection",
        entity=Entity(rows=rows),
        id="" if is_view or made is None else bytes(made).hex(),
        documents=lambda: _sampled(raw, sample, rows),
    )


def _sampled(collection: Any, sample: int, rows: int | None) -> Iterator[bytes]:
    """Raw documents: all of them; or the oldest and the newest, so that a second crawl sees what it saw."""
    parts = ((1, sample - sample // 2), (-1, sample // 2))
    asked: list[dict[str, Any]] = [{"sort": [("_id", way)], "limit": count} for way, count in parts if count]
    if not sample or (rows is not None and rows <= sample):
        asked = [{}]
    elif rows is None:
        asked = [{"limit": sample}]
    with faults():
        for options in asked:
            for one in collection.find({}, **options):
                yield one.raw


def _kind(value: Any) -> str:
    """MongoDB's own name of a value's type, in small letters."""
    name = type(value).__name__
    known = {"str": "string", "float": "double", "Int64": "long", "list": "array", "NoneType": "null"}
    more = {"DatetimeMS": "date", "RawBSONDocument": "object", "bytes": "binary", "Decimal128": "decimal"}
    return (known | more).get(name, name.lower())


def after(text: str) -> dict[str, Any]:
    """The condition for all documents behind an `_id`, in the order of MongoDB, whatever their types.

    Example:
        >>> after('{"$oid": "65a000000000000000000000"}')["$or"][1]["_id"]["$type"][:2]
        ['bool', 'date']
    """
    from bson import json_util

    value = json_util.loads(text, json_options=json_util.CANONICAL_JSON_OPTIONS)
    own = _BRACKET_OF[type(value).__name__]
    place = next(number for number, bracket in enumerate(_BRACKETS) if own in bracket)
    later = [kind for bracket in _BRACKETS[place + 1 :] for kind in bracket]
    same = [{"_id": {"$gt": value}}] if own not in ("minKey", "null", "maxKey") else []
    return {"$or": [*same, {"_id": {"$type": later}}]} if later else {"_id": {"$in": []}}


def id_text(document: Any) -> str | None:
    """The `_id` of a raw document as canonical extended JSON; None where a view leaves it out."""
    raw: bytes = document.raw
    if raw.startswith(_OBJECT_ID_FIRST, 4):
        return f'{{"$oid": "{raw[9:21].hex()}"}}'
    import bson
    from bson import json_util

    if "_id" not in document:
        return None
    value = document["_id"]
    inner = getattr(value, "raw", None)
    return str(
        json_util.dumps(bson.decode(inner) if inner else value, json_options=json_util.CANONICAL_JSON_OPTIONS)
    )


def _chunked(documents: Iterable[Any]) -> Iterator[tuple[list[str | None], list[bytes]]]:
    """Texts of `_id` and bytes of documents, in parts of a bounded size."""
    texts: list[str | None] = []
    found: list[bytes] = []
    size = 0
    for document in documents:
        texts.append(id_text(document))
        found.append(document.raw)
        size += len(document.raw)
        if len(found) >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
            yield texts, found
            texts, found, size = [], [], 0
    if found:
        yield texts, found
