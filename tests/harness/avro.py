"""Avro records that a connector really wrote, with their schemas, and a registry that has these."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastavro import parse_schema, schemaless_writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIXTURES: Final = Path(__file__).resolve().parents[1] / "data/streams"
SCRIPT: Final = (
    "r 1 12.30", "r 2 None", "c 3 99.99", "u 1 13.00", "c 4 5.00", "d 2 None", "c 1002 None", "d 3 None",
    "u 1 14.00", "u 1 15.00", "c 1003 5.125", "u 1 1.000", "u 4 5.000", "t None None", "c 1 1.000",
)  # fmt: skip
"""What the SQL did to table orders before the records were captured: operation, key and amount, in order."""


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines()]


def _raw(value: Any) -> bytes | None:
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()


def captured(kind: str) -> list[dict[str, Any]]:
    """The records that a converter wrote for the registry of this kind: value, key and partition."""
    return [
        {"value": _raw(m["value"]), "key": _raw(m["key"]), "partition": m["partition"]}
        for m in _lines(f"mariadb-avro-{kind}.jsonl")
    ]


def confluent_schemas() -> dict[str, str]:
    """The schemas of the records for a registry like Confluent's, by their numbers."""
    return {str(s["id"]): s["schema"] for s in _lines("mariadb-avro-confluent-schemas.jsonl")}


def glue_schemas() -> dict[str, str]:
    """The schemas of the records for Glue's registry, by the uuids of their versions."""
    found = _lines("mariadb-avro-glue-schemas.jsonl")
    return {s["SchemaVersionId"]: s["SchemaDefinition"] for s in found}


def encoded(schema: Any, value: Any) -> bytes:
    """A value in Avro, without any header."""
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema), value)
    return out.getvalue()


@contextmanager
def registry(schemas: Mapping[str, str], user: str = "") -> Iterator[str]:
    """The address of a registry that answers as Confluent's does; no real one is to be had here.

    Args:
        user: Name and password, with a colon between them, without which it refuses.
    """
    wanted = f"Basic {base64.b64encode(user.encode()).decode()}"

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = self.path.removeprefix("/schemas/ids/")
            status, body = 200, {"schema": schemas.get(number)}
            if user and self.headers.get("Authorization") != wanted:
                status, body = 401, {"error_code": 401, "message": "Unauthorized"}  # type: ignore[dict-item]
            elif number not in schemas:
                status, body = 404, {"error_code": 40403, "message": "Schema not found"}  # type: ignore[dict-item]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            """Nothing: what it is asked is no news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
