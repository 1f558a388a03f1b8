"""The wheel in somebody else's project: ``init``, one source, one table, ``kedro run``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import textwrap
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from harness.guard import ATTEMPT, guarded, kedro
from harness.project import ROOT, write_parquet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UV = str(Path(sys.executable).with_name("uv"))
SOURCES = """
orders:
  type: dms
  path: ${globals:landing}/orders
  sequence_column: seq
"""
TABLES = "sales.order: {source: orders, keys: [id], history: true}\n"
LEFT_ALONE = """
from pathlib import Path
from kedro.framework.cli.cli import KedroCLI
from kedro.framework.session import KedroSession
from omegaconf import OmegaConf
import kedro_lakehouse
from kedro_lakehouse.hooks import hooks

run = KedroCLI(project_path=Path.cwd()).get_command(None, "run")
with KedroSession.create() as session:
    session.load_context().catalog
known = OmegaConf.has_resolver("project_path")
print(kedro_lakehouse.__file__, run.callback.__module__, hooks._project, known)
"""


def call(*command: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "KEDRO_ENV")}
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, env=clean | env, capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Elsewhere:
    """A fresh Kedro project, and an environment in which the wheel is installed."""

    project: Path
    python: Path
    wheel: Path

    def kedro(self, *words: str) -> subprocess.CompletedProcess[str]:
        logging = {"KEDRO_LOGGING_CONFIG": str(ROOT / "conf/logging.yml")}
        return call(self.python, "-m", "kedro", *words, cwd=self.project, **logging)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    folder = tmp_path_factory.mktemp("elsewhere")
    build = (UV, "build", "--wheel", "-q", "-o", folder, "--build-constraints", ROOT / "bin/build.txt")
    # What builds it is in uv's cache since `make setup`; a cache that was emptied needs the index.
    built = call(*build, "--offline", cwd=ROOT)
    built = built if built.returncode == 0 else call(*build, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    venv = folder / "venv"
    assert call(UV, "venv", "-q", venv, "--python", sys.executable, cwd=folder).returncode == 0
    python = venv / "bin/python"
    installed = call(
        *(UV, "pip", "install", "-q", "--offline", "--no-deps", "--python", python, wheel), cwd=folder
    )
    assert installed.returncode == 0, installed.stderr
    (site,) = venv.glob("lib/python*/site-packages")
    # A path in a .pth file brings our environment's packages, not its .pth files: no editable install.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    new = ("new", "--name=shop", "--tools=none", "--example=n", "--telemetry=no")
    made = call(python, "-m", "kedro", *new, cwd=folder)
    assert made.returncode == 0, made.stderr
    return Elsewhere(folder / "shop", python, wheel)


def test_the_wheel_holds_the_package_and_its_starting_files_alone(elsewhere: Elsewhere) -> None:
    names = zipfile.ZipFile(elsewhere.wheel).namelist()
    assert {n.split("/")[0] for n in names if ".dist-info" not in n} == {"kedro_lakehouse"}
    starter = {n.split("starter/")[1] for n in names if "/starter/" in n}
    package = ROOT / "src/kedro_lakehouse/starter"
    assert starter == {str(f.relative_to(package)) for f in package.rglob("*") if f.is_file()}
    (metadata,) = (n for n in names if n.endswith("METADATA"))
    text = zipfile.ZipFile(elsewhere.wheel).read(metadata).decode()
    needs = re.findall(r"^Requires-Dist: (.*pyspark.*)$", text, re.MULTILINE)
    assert needs
    assert all("extra ==" in need for need in needs)


def test_a_project_without_tables_is_left_alone(elsewhere: Elsewhere) -> None:
    done = guarded(LEFT_ALONE, cwd=elsewhere.project, python=str(elsewhere.python))
    assert done.returncode == 0, done.stderr
    assert ATTEMPT not in done.stderr
    file, run, project, known = done.stdout.splitlines()[-1].split()
    assert Path(file).is_relative_to(elsewhere.python.parents[1])
    assert (run, project, known) == ("kedro.framework.cli.project", "None", "False")


def test_init_then_declare_then_run(elsewhere: Elsewhere) -> None:
    project = elsewhere.project
    done = elsewhere.kedro("lakehouse", "init", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kept"] == []
    assert all((project / file).is_file() for file in told["written"])

    refused = elsewhere.kedro("lakehouse", "init")
    assert refused.returncode == 1
    assert "nothing was written" in refused.stderr

    for step in told["next"]:
        words, _, code = step.partition(":\n\n")
        if file := re.search(r"src/\S+\.py", words):
            kept = (project / file[0]).read_text(encoding="utf-8").partition("\ndef register_pipelines")[0]
            (project / file[0]).write_text(f"{kept}\n{textwrap.dedent(code)}\n", encoding="utf-8")
    (project / "conf/base/sources.yml").write_text(SOURCES, encoding="utf-8")
    (project / "conf/base/tables.yml").write_text(TABLES, encoding="utf-8")
    (project / ".cache").symlink_to(ROOT / ".cache")  # the jars that are there already
    rows = [{"id": 1, "amount": 5, "seq": None}, {"id": 2, "amount": 7, "seq": None}]
    schema = {"id": pa.int64(), "amount": pa.int64(), "seq": pa.string()}
    write_parquet(project / "data/01_raw/orders/order/LOAD00000001.parquet", rows, schema)

    listed = guarded(kedro("registry", "list"), cwd=project, python=str(elsewhere.python))
    assert listed.returncode == 0, listed.stderr
    assert ATTEMPT not in listed.stderr
    assert {"__default__", "cdc_merge", "ingestion", "scd2"} <= set(re.findall(r"- (\S+)", listed.stdout))

    ran = elsewhere.kedro("run")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " WARNING " not in ran.stderr
    assert "Warning:" not in ran.stderr
    kept = elsewhere.kedro("run", "--pipelines=maintenance")
    assert kept.returncode == 0, kept.stdout + kept.stderr
    assert "error occurred" not in kept.stderr  # Kedro looks for ours among the project's own pipelines
    shown = elsewhere.kedro("lakehouse", "tables", "--json")
    (table,) = json.loads(shown.stdout)
    assert (table["table"], table["state"], table["rows"]) == ("sales.order", "fresh", 2)
    assert (project / "data/lakehouse/catalog.db").is_file()
    figures = json.loads((project / ".viz/stats.json").read_text(encoding="utf-8"))
    assert figures["sales.order.current"]["rows"] == 2  # written after kedro-viz's own hook
