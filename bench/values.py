"""Which values of a database does a reader change? A pull beside connectorx, arrow-odbc and dlt.

Usage: ``.venv/bin/python bench/values.py [--only postgresql mariadb]``.

The rows are those of tests/sources/test_values.py: every type with its extremes, and what the server itself
says of them. Each reader is asked for each column by itself. A value is equal where it means the same: 1.10
may be a decimal, or a text of these digits. The others have packages of their own, in an environment that
``uv run`` makes and forgets; arrow-odbc needs Debian's unixodbc, odbc-postgresql and odbc-mariadb.

Databases and packages as for ``make test-sources``. Exits 1 where a pull of ours changes or lacks a value.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import pickle
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "bench")]

from plain_values import READERS  # noqa: E402
from sources import NEEDS, python_with  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KINDS: Final = ("postgresql", "mariadb")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONGEST: Final = 45
OURS: Final = "a pull"
Found = tuple[str, Any]
"""Either ``value`` and what was read, or ``error`` and what the reader said."""


def ours(folder: Path, shop: Any) -> dict[str, Found]:
    """The values that a pull has landed."""
    from harness.pulled import bound, landed, made

    from kedro_lakehouse.ingestion.pulling import pull_now

    source = {shop.dialect: shop.source(str(folder / "landing"))}
    table = {"a.value_types": {"source": shop.dialect, "keys": ["id"]}}
    project = made(folder / "project", source, table)
    pull_now(bound(project, "a.value_types"))
    (row,) = [row for row in landed(project, "a.value_types") if row["id"] == 1]
    return {column: ("value", value) for column, value in row.items()}


def others(file: Path, reader: str, shop: Any, columns: Sequence[str]) -> dict[str, Found]:
    """The values that another reader gives."""
    script = [str(ROOT / "bench/plain_values.py"), reader, shop.dialect, str(shop.server.port), str(file)]
    command = [*python_with(NEEDS[reader.partition(",")[0]]), *script]
    found: dict[str, Found] = {}
    while left := [column for column in columns if column not in found]:
        file.write_bytes(pickle.dumps({}))
        done = subprocess.run(
            [*command, *left], capture_output=True, text=True, check=False, timeout=900, cwd=file.parent
        )
        found |= pickle.loads(file.read_bytes())  # noqa: S301 - our own script wrote it
        if not found:
            raise SystemExit(f"{reader} could not be had: {done.stderr[-2000:]}")
        ended_by = next((column for column in left if column not in found), None)
        if ended_by is not None:
            found[ended_by] = ("error", "the process ended")
    return found


def is_equal(expected: Any, found: Any) -> bool:
    """Whether a value means what the server says, in whatever type."""
    if isinstance(expected, bool):
        return str(found).lower() in (("true", "t", "1") if expected else ("false", "f", "0"))
    if isinstance(expected, bytes):
        return bool(found == expected)
    if isinstance(expected, float):
        return float(found) == expected
    if isinstance(expected, int | Decimal):
        return _number(found) == _number(expected)
    if isinstance(expected, dt.datetime):
        return _moment(found) == _moment(expected)
    return str(found)[:10] == str(expected) if isinstance(expected, dt.date) else _is_text(expected, found)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bytes):  # bits
        return Decimal(int.from_bytes(value))
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _moment(value: Any) -> dt.datetime | None:
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if not isinstance(value, dt.datetime):
        return None
    return value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _is_text(expected: str, found: Any) -> bool:
    """Whether a value means a text: an object of Python counts if it holds all of it."""
    if isinstance(found, dt.timedelta):
        minutes, seconds = divmod(round(abs(found).total_seconds()), 60)
        sign = "-" if found < dt.timedelta() else ""
        return expected == f"{sign}{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if isinstance(found, dict) and "bounds" in found:
        return expected == "{bounds[0]}{lower},{upper}{bounds[1]}".format(**found)
    if isinstance(found, dict | list):
        return bool(json.loads(expected, parse_float=str) == found)  # the digits of a number count
    if isinstance(found, set):
        return found == set(expected.split(","))
    text = str(found)
    if text.startswith('["'):  # a set, as JSON
        return set(json.loads(text)) == set(expected.split(","))
    if expected.startswith("[") and text.startswith("{"):  # an array, as PostgreSQL writes it
        text = text.translate({ord("{"): "[", ord("}"): "]"}).replace("NULL", "null")
    if _UUID.fullmatch(expected):
        text = text.lower()
    return expected in (text, text.removeprefix("$"), text.removesuffix(":00"))  # money, a zone


def verdict(expected: Any, found: Found) -> str:
    """Whether a reader's value equals the server's: ``equal``, ``fails``, or the other value that it gave."""
    kind, value = found
    if kind == "error":
        return "fails"
    return "equal" if is_equal(expected, value) else f"`{_short(value)}`"


def _short(value: Any) -> str:
    text = value.isoformat() if isinstance(value, dt.time | dt.datetime) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def compared(folder: Path, shop: Any, statements: str, expected: Mapping[str, Any]) -> bool:
    """Print a row for each column that not every reader gives, and counts; whether ours gives all."""
    columns = list(expected)
    shop.script(statements)
    for column in columns:
        chosen = column if column == "id" else f"id, {column}"
        shop.script(f"CREATE VIEW only_{column} AS SELECT {chosen} FROM value_types WHERE id = 1;")
    found = {OURS: ours(folder / shop.dialect, shop)}
    for number, reader in enumerate(READERS):
        found[reader] = others(folder / f"{shop.dialect}-{number}", reader, shop, columns)
    print(f"\n| {shop.dialect} | {' | '.join(found)} |\n| --- {'| --- ' * len(found)}|")
    verdicts = {
        reader: [verdict(expected[column], values[column]) for column in columns]
        for reader, values in found.items()
    }
    for place, column in enumerate(columns):
        row = [verdicts[reader][place] for reader in found]
        if set(row) != {"equal"}:
            print(f"| {column}: `{_short(expected[column])}` | {' | '.join(row)} |")
    counts = [
        f"{row.count('equal')} equal, {row.count('fails')} fail, "
        f"{len(columns) - row.count('equal') - row.count('fails')} changed"
        for row in verdicts.values()
    ]
    print(f"| {len(columns)} columns | {' | '.join(counts)} |", flush=True)
    return set(verdicts[OURS]) == {"equal"}


def main() -> int:
    """Print a table for each database."""
    from harness import database_values as values
    from harness.databases import MariaDb, Postgres
    from harness.pulled import Shop

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    given = parser.parse_args()
    right = True
    # Databases run as users of their own, who must reach their folders.
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-bench-") as made, ExitStack() as running:
        folder = Path(made)
        folder.chmod(0o755)
        for kind, server, statements, expected in (
            ("postgresql", Postgres, values.POSTGRES_VALUES, values.POSTGRES_EXPECTED),
            ("mariadb", MariaDb, values.MARIADB_VALUES, values.MARIADB_EXPECTED),
        ):
            if kind in given.only:
                started = server(folder / f"server-{kind}")
                running.callback(started.stop)
                shop = Shop(kind, started)
                shop.let_in()
                if kind == "mariadb":  # dlt looks how a view was made
                    started.script("GRANT SHOW VIEW ON shop.* TO 'puller'@'127.0.0.1';")
                right &= compared(folder, shop, statements, expected)
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
