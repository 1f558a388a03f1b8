"""Change data of other projects, landed as a source would write them."""

from __future__ import annotations

import json
from pathlib import Path

from harness.project import write_text

FIXTURES = Path(__file__).resolve().parents[1] / "data" / "cdc_fixtures"


def records(name: str) -> list[str]:
    """The records of a fixture: a line each; the licence at its head is none."""
    text = (FIXTURES / name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        return [json.dumps(record) for record in json.loads(text).values()]
    return [line for line in text.splitlines() if line.startswith("{")]


def land(name: str, to: Path) -> Path:
    """Write the records of a fixture as JSON lines."""
    return write_text(to, "".join(f"{line}\n" for line in records(name)))
