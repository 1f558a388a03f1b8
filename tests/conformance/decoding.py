"""Cases of records as sources write them, through the decoder that is registered for their format."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from harness.project import write_parquet, write_text
from model.values import same

from conformance.reading import check_keys, known, options_of
from conformance.typed import arrow_type, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.project import TemporaryProject

Row = dict[str, Any]
FORMATS = ("dms", "dms-json", "debezium")


def decoder_is_registered(case: Mapping[str, Any]) -> bool:
    """Whether the package has a decoder of a case's format."""
    assert case["format"] in FORMATS, f"{case['id']}: the runner does not know the format {case['format']}"
    return case["format"] in {e.name for e in entry_points(group="kedro_lakehouse.change_decoders")}


@dataclass
class Decoded:
    """A table that takes the records of one case."""

    table: str
    case: Mapping[str, Any]

    @property
    def keys(self) -> list[str]:
        """The declared keys, else the names in the first message's key."""
        if config := self.case.get("config"):
            return list(options_of(config, self.case["id"]).keys)
        keys = (_payload(r.get("key")) for r in self.case["records"])
        return list(next((k for k in keys if k), {"id": None}))

    @property
    def source(self) -> dict[str, Any]:
        """The source's declaration."""
        place = {"path": "${globals:landing}/" + self.table.replace(".", "/")}
        if self.case["format"] == "debezium":
            return {"type": "debezium"} | place
        options = options_of(self.case.get("config", {"keys": self.keys}), self.case["id"])
        named = {n: getattr(options, n) for n in ("timestamp_column", "sequence_column")}
        kind = "json" if self.case["format"] == "dms-json" else "parquet"
        return {"type": "dms", "file_format": kind} | place | {n: v for n, v in named.items() if v}

    def declaration(self, source: str) -> dict[str, Any]:
        """The table's declaration; JSON does not describe itself, so the types are those of its values."""
        found = {"source": source, "entity": "records", "keys": self.keys, "history": False}
        if self.case["format"] == "dms":
            return found
        rows = [row for record in self.case["records"] for row in _rows_in(record)]
        names = dict.fromkeys([*self.keys, *(n for r in rows for n in r)])
        return found | {"types": {n: type_of([r.get(n) for r in rows]) for n in names}}

    def land(self, landing: Path) -> None:
        """Write the records as the source writes them: JSON lines, or a full load and then changes."""
        check_keys(self.case)
        folder = landing / self.table.replace(".", "/") / "records"
        records = self.case["records"]
        if self.case["format"] != "dms":
            write_text(folder / "20260101-000000000.json", "".join(f"{json.dumps(r)}\n" for r in records))
            return
        loads, changes = [r for r in records if "Op" not in r], [r for r in records if "Op" in r]
        for name, part in (("LOAD00000001", loads), ("20260101-000000000", changes)):
            if part:
                names = dict.fromkeys(n for r in part for n in r)
                schema = {n: arrow_type(type_of([r.get(n) for r in records])) for n in names}
                write_parquet(folder / f"{name}.parquet", part, schema)

    def differences(self, project: TemporaryProject) -> list[str]:
        """How the events in the record differ from the expected ones, in the order of their records."""
        rows = project.rows(f"{self.table}_changes")
        # Of the two events of a key change the delete comes first.
        rows.sort(
            key=lambda r: (
                not r["_position"]["file"].startswith("LOAD"), r["_position"]["row"], r["_op"]
            )
        )  # fmt: skip
        expected = self.case["expect"]
        if len(rows) != len(expected):
            return [f"expected {len(expected)} events, found {len(rows)}"]
        return [w for e, r in zip(expected, rows, strict=True) for w in _event_differences(e, r, self.case)]


def _payload(part: Any) -> Any:
    """A message's part without the schema that may be around it."""
    return part["payload"] if isinstance(part, dict) and set(part) == {"schema", "payload"} else part


def _rows_in(record: Mapping[str, Any]) -> list[Row]:
    """The rows that a record in JSON holds."""
    value = _payload(record.get("value", record)) or {}
    parts = [_payload(record.get("key")), record.get("data"), value.get("before"), value.get("after")]
    return [p for p in parts if isinstance(p, dict)]


def _event_differences(expected: Row, found: Row, case: Mapping[str, Any]) -> list[str]:
    known(expected, {"op", "row", "seq"}, f"{case['id']}: expect")
    values = {n: v for n, v in found.items() if not n.startswith("_")}
    words = [] if found["_op"] == expected["op"] else [f"op: expected {expected}, found {found['_op']}"]
    row = dict.fromkeys(values) | expected["row"]  # what is not expected is null
    if row.keys() != values.keys() or not all(same(row[n], values[n]) for n in row):
        words.append(f"row: expected {expected['row']}, found {values}")
    order: Sequence[Any] = list(found["_order"].values())
    if "seq" in expected and [str(v) for v in order] != [str(v) for v in expected["seq"]]:
        words.append(f"seq: expected {expected['seq']}, found {order}")
    return words
