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
from urllib.parse import unquote

from fastavro import parse_schema, schemaless_writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


def confluent_subjects() -> dict[str, list[str]]:
    """The numbers of these schemas by subject, in the order of versions."""
    found: dict[str, list[str]] = {}
    for one in sorted(_lines("mariadb-avro-confluent-schemas.jsonl"), key=lambda one: int(one["version"])):
        found.setdefault(one["subject"], []).append(str(one["id"]))
    return found


def glue_schemas() -> dict[str, str]:
    """The schemas of the records for Glue's registry, by the uuids of their versions."""
    found = _lines("mariadb-avro-glue-schemas.jsonl")
    return {s["SchemaVersionId"]: s["SchemaDefinition"] for s in found}


def encoded(schema: Any, value: Any) -> bytes:
    """A value in Avro, without any header."""
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema), value)
    return out.getvalue()


class Double:
    """What a registry like Confluent's holds: texts of schemas by their numbers, and those of each subject.

    ``asked`` are the questions; ``is_away``: it does not answer. ``lists`` is false for a registry that does
    not say in which subjects a schema is.
    """

    def __init__(
        self, schemas: Mapping[str, str], subjects: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.schemas = dict(schemas)
        self.subjects = {name: list(ids) for name, ids in (subjects or {}).items()}
        self.asked: list[str] = []
        self.is_away, self.lists = False, True

    def register(self, subject: str, identity: str, schema: Any) -> None:
        """Add a version, whatever it changes."""
        self.schemas[identity] = json.dumps(schema)
        self.subjects.setdefault(subject, []).append(identity)

    def registered(self, subject: str, text: str) -> tuple[str, int]:
        """The number and the version of a schema in a subject, where it is added if it is not there."""
        schema = json.loads(text)
        held = self.subjects.setdefault(subject, [])
        known = [n for n, one in self.schemas.items() if json.loads(one) == schema]
        identity = known[0] if known else str(max(map(int, self.schemas), default=0) + 1)
        if identity not in held:
            self.register(subject, identity, schema)
        return identity, held.index(identity) + 1

    def take(self, path: str, subject: str, text: str) -> tuple[int, Any]:
        """Status and body for a schema that a converter sends, by Apicurio's interface (version 2)."""
        if self.is_away or path.partition("?")[0] != "/apis/registry/v2/groups/default/artifacts":
            return (503 if self.is_away else 404), {"error_code": 404, "message": path}
        identity, version = self.registered(subject, text)
        return 200, {
            "id": subject, "groupId": "default", "version": str(version), "type": "AVRO", "state": "ENABLED",
            "globalId": int(identity), "contentId": int(identity),
            "createdOn": "2026-01-01T00:00:00+0000", "modifiedOn": "2026-01-01T00:00:00+0000",
        }  # fmt: skip

    def answer(self, path: str) -> tuple[int, Any]:
        """Status and body."""
        if self.is_away:
            return 503, {"error_code": 50302, "message": "away"}
        found: Any = None
        match [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]:
            case ["schemas", "ids", identity] if identity in self.schemas:
                found = {"schema": self.schemas[identity]}
            case ["schemas", "ids", identity, "versions"] if identity in self.schemas and self.lists:
                found = [
                    {"subject": name, "version": ids.index(identity) + 1}
                    for name, ids in self.subjects.items()
                    if identity in ids
                ]
            case ["subjects", name, "versions"] if name in self.subjects:
                found = list(range(1, len(self.subjects[name]) + 1))
            case ["subjects", name, "versions", number] if (
                0 < int(number) <= len(self.subjects.get(name, ()))
            ):
                identity = self.subjects[name][int(number) - 1]
                found = {"subject": name, "version": int(number), "id": int(identity)}
                found["schema"] = self.schemas[identity]
        return (200, found) if found is not None else (404, {"error_code": 40403, "message": "not found"})


@contextmanager
def registry(schemas: Mapping[str, str] | Double, user: str = "") -> Iterator[str]:
    """The address of a registry that answers as Confluent's does; no real one is to be had here.

    Args:
        user: Name and password, with a colon between them, without which it refuses.
    """
    double = schemas if isinstance(schemas, Double) else Double(schemas)
    wanted = f"Basic {base64.b64encode(user.encode()).decode()}"

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            double.asked.append(self.path)
            status, body = double.answer(self.path)
            if user and self.headers.get("Authorization") != wanted:
                status, body = 401, {"error_code": 401, "message": "Unauthorized"}
            self._say(status, body)

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if "create.extended" in self.headers["Content-Type"]:
                text = json.loads(text)["content"]
            self._say(*double.take(self.path, self.headers["X-Registry-ArtifactId"], text))

        def _say(self, status: int, body: Any) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            """Nothing: what it is asked is no news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
