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
DECODERS = ("dms", "dms-json", "debezium")
_LANDED = ("dms", "dms-json")


def decoder_is_registered(case: Mapping[str, Any]) -> bool:
    """Whether the package has a decoder of a case's format, and this module a way to land its records."""
    assert case["format"] in DECODERS, f"{case['id']}: unknown format {case['format']}"
    names = {e.name for e in entry_points(group="kedro_lakehouse.change_decoders")}
    return DECODERS[case["format"]] in names and case["format"] == "dms"


@dataclass
class Decoded:
    """A table that takes the records of one case: those without an operation are its full load."""

    table: str
    case: Mapping[str, Any]

    @property
    def source(self) -> dict[str, Any]:
        """The source's declaration."""
        options = options_of(self.case.get("config", {"keys": ["id"]}), self.case["id"])
        named = {n: getattr(options, n) for n in ("timestamp_column", "sequence_column")}
        return {
            "type": "dms", "path": "${globals:landing}/" + self.table.replace(".", "/"),
            "file_format": "json" if self.case["format"] == "dms-json" else "parquet",
            **{n: v for n, v in named.items() if v},
        }  # fmt: skip

    def declaration(self, source: str) -> dict[str, Any]:
        """The table's declaration."""
        options = options_of(self.case.get("config", {"keys": ["id"]}), self.case["id"])
        found = {"source": source, "entity": "records", "keys": list(options.keys), "history": False}
        if self.case["format"] != "dms-json":
            return found
        # JSON does not describe itself: the types are those of the case's own values.
        data = [r["data"] for r in self.case["records"] if "data" in r]
        names = dict.fromkeys(n for d in data for n in d)
        return found | {"types": {n: type_of(d.get(n) for d in data) for n in names}}

    def land(self, landing: Path) -> None:
        """Write the records as the task writes them: a full load without operations, then changes."""
        check_keys(self.case)
        folder = landing / self.table.replace(".", "/") / "records"
        if self.case["format"] == "dms-json":
            lines = "".join(f"{json.dumps(r)}\n" for r in self.case["records"])
            write_text(folder / "20260101-000000000.json", lines)
            return
        loads = [r for r in self.case["records"] if "Op" not in r]
        changes = [r for r in self.case["records"] if "Op" in r]
        for name, records in (("LOAD00000001", loads), ("20260101-000000000", changes)):
            if records:
                names = dict.fromkeys(n for r in records for n in r)
                kinds = {n: type_of(r.get(n) for r in self.case["records"]) for n in names}
                schema = {n: arrow_type(t) for n, t in kinds.items()}
                write_parquet(folder / f"{name}.parquet", records, schema)

    def differences(self, project: TemporaryProject) -> list[str]:
        """How the events in the record differ from the expected ones, in the order of their records."""
        rows = project.rows(f"{self.table}_changes")
        rows.sort(key=lambda r: (not r["_position"]["file"].startswith("LOAD"), r["_position"]["row"]))
        expected = self.case["expect"]
        if len(rows) != len(expected):
            return [f"expected {len(expected)} events, found {len(rows)}"]
        return [w for e, r in zip(expected, rows, strict=True) for w in _event_differences(e, r, self.case)]


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
