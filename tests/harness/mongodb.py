"""Documents of every kind, as MongoDB holds them, and the rows that they must become."""

from __future__ import annotations

import contextlib
import datetime as dt
import random
import tempfile
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bson import Binary, Decimal128, Int64, ObjectId
from pymongo import MongoClient
from secantus import SecantusDBServer

if TYPE_CHECKING:
    from collections.abc import Iterator

CODES = ("eur", "usd", "jpy", "gbp", "chf")
BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
MISFIT_EVERY = 97
MISFITS: tuple[dict[str, Any], ...] = (
    {"count": "many"},
    {"price": Int64(2**53 + 1)},
    {"address": "Main Street 1"},
    {"tags": [1, 2]},
    {"at": "yesterday"},
    {"lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": "two"}]},
    {"amount": Decimal128("NaN")},
)
"""What one field of some documents is instead: of another kind than most, at every depth."""


USER, PASSWORD = "puller", "pulled-well"


@contextlib.contextmanager
def mongodb_server(*, auth: bool = False) -> Iterator[str]:
    """A server of MongoDB's protocol in this process; gives its address.

    With ``auth`` it lets ``USER`` in, with ``PASSWORD``, and nobody else.
    """
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-mongodb-") as folder:
        if auth:
            with _running(folder) as open_to_all, client_of(open_to_all) as client:
                client.admin.command("createUser", USER, pwd=PASSWORD, roles=["readWriteAnyDatabase"])
        with _running(folder, require_auth=auth) as uri:
            yield uri


@contextlib.contextmanager
def _running(folder: str, **settings: Any) -> Iterator[str]:
    server = SecantusDBServer(port=0, storage_path=folder, **settings)
    server.start()
    try:
        yield server.uri
    finally:
        server.stop()


@contextlib.contextmanager
def client_of(uri: str, **options: Any) -> Iterator[MongoClient[Any]]:
    """A client that is closed."""
    client: MongoClient[Any] = MongoClient(uri, tz_aware=True, **options)
    try:
        yield client
    finally:
        client.close()


def documents(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Documents of all kinds of values; some fields are null, or missing."""
    rng = random.Random(seed)  # noqa: S311 - made-up data
    return [_document(number, rng) for number in range(count)]


def is_misfit(number: int) -> bool:
    """Whether a document has a value that its column does not hold."""
    return number % MISFIT_EVERY == MISFIT_EVERY // 2


def misfits(count: int) -> int:
    """How many documents have one."""
    return sum(map(is_misfit, range(count)))


def _document(number: int, rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {
        "_id": ObjectId(number.to_bytes(12, "big")),
        "name": f"name {number}",
        "count": number,
        "big": Int64(2**40 + number),
        "price": number if number % 3 == 0 else number / 4,
        "amount": Decimal128(f"{number}.10"),
        "at": BEGIN + dt.timedelta(seconds=number, milliseconds=number % 1000),
        "ok": number % 2 == 0,
        "blob": number.to_bytes(4, "big"),
        "key": Binary(number.to_bytes(16, "big"), 4),
        "owner": ObjectId(bytes(12)),
        "tags": [f"t{n}" for n in range(number % 4)],
        "address": {"street": f"street {number}", "geo": {"lat": rng.random(), "lon": rng.random()}},
        "rates": {code: {"rate": rng.random()} for code in rng.sample(CODES, number % 3)},
        "lines": [{"sku": f"s{n}", "n": n} for n in range(number % 3)],
        "empty": None,
    }
    if number % 5 == 0:
        found["address"] = None
    if number % 7 == 0:
        found["address"] = {"geo": {"lat": 1.0}}
    if number % 11 == 0:
        del found["name"]
    if is_misfit(number):
        found |= MISFITS[number // MISFIT_EVERY % len(MISFITS)]
    return found


def row_of(document: dict[str, Any]) -> dict[str, Any]:
    """The row of a document that fits: see ``plain``."""
    row = dict(document) | {
        "_id": str(document["_id"]),
        "owner": str(document["owner"]),
        "key": str(document["key"].as_uuid()),
        "price": float(document["price"]),
        "amount": Decimal(str(document["amount"])),
    }
    return dict(plain(row))


def plain(value: Any) -> Any:
    """A value without what is null, and with the entries of maps by their keys: as it is compared."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return plain(dict(value))
    if isinstance(value, dict):
        held = {name: plain(inner) for name, inner in value.items()}
        return {name: inner for name, inner in held.items() if inner not in (None, [], {})}
    return [plain(one) for one in value] if isinstance(value, list) else value
