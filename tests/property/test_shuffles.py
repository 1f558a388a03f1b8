"""The bundled database log in any order and in any number of batches gives the same tables."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from harness.oracle import differences, differences_from_expected
from harness.project import DATA, ROOT, TemporaryProject
from harness.soak import only_in_soak

from property.seeds import SWITCH, the_seed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.property, pytest.mark.spark]

TABLES = ("person", "player", "sporting_event_ticket")
RAW = DATA / "01_raw/dms_sample"
ROUNDS = 3


def declarations(shuffles: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The bundled source and tables, once as they are and once for each shuffle."""
    conf = ROOT / "conf/base"
    source = yaml.safe_load((conf / "sources.yml").read_text(encoding="utf-8"))["dms_sample"]
    bundled = yaml.safe_load((conf / "tables.yml").read_text(encoding="utf-8"))
    names = ["whole", *(f"shuffle{n}" for n in range(shuffles))]
    sources = {n: source | {"path": f"${{globals:landing}}/{n}"} for n in names}
    tables = {f"{n}.{t}": bundled[f"dms_sample.{t}"] | {"source": n} for n in names for t in TABLES}
    return sources, tables


def pieces(table: str, chance: random.Random) -> list[tuple[str, Any]]:
    """The rows of each file of a table, dealt out at random to several files."""
    found = []
    for path in sorted((RAW / table).iterdir()):
        rows = pq.read_table(path)
        load, parts = path.name.startswith("LOAD"), chance.randint(2, 4)
        dealt = [chance.randrange(parts) for _ in range(rows.num_rows)]
        for part in range(parts):
            piece = rows.filter(pc.equal(dealt, part)) if rows.num_rows else rows
            place = len(found) + 1
            name = f"LOAD{place:08}.parquet" if load else f"{path.name[:8]}-{place:09}.parquet"
            found.append((name, piece))
    return found


@pytest.mark.slow
@only_in_soak
def test_any_order_and_number_of_batches_gives_the_same_tables(tmp_path: Path) -> None:
    seed, shuffles = the_seed(), 20
    project = TemporaryProject.make(tmp_path / "project", *declarations(shuffles))
    for table in TABLES:
        for path in (RAW / table).iterdir():
            target = project.landing / "whole" / table / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    batches: dict[int, list[tuple[Path, Any]]] = {n: [] for n in range(ROUNDS)}
    for number in range(shuffles):
        chance = random.Random(f"{seed}/{number}")  # noqa: S311 - reproducible
        rounds = chance.randint(1, ROUNDS)
        for table in TABLES:
            for name, rows in pieces(table, chance):
                folder = project.landing / f"shuffle{number}" / table
                folder.mkdir(parents=True, exist_ok=True)  # its files may all come in later rounds
                batches[chance.randrange(rounds)].append((folder / name, rows))
    for landed in batches.values():
        for path, rows in landed:
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, path)
        project.run()
    again = f"again with {SWITCH}={seed}"
    for table in TABLES:
        versions = project.arrow(f"whole.{table}_history")
        for number in range(shuffles):
            name = f"shuffle{number}.{table}"
            assert differences_from_expected(table, project.arrow(name)) == (0, 0), again
            found = project.arrow(f"{name}_history")
            assert differences(versions, found, versions.column_names) == 0, again
