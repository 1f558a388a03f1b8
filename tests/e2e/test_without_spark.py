"""What needs neither Spark nor Java nor a network: every catalog, the registry, the package itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from harness.guard import ATTEMPT, guarded, kedro
from harness.project import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

PROJECTS = [ROOT, *sorted(conf.parent for conf in ROOT.glob("examples/*/conf"))]
RESOLVE = f"""
import json, os
from pathlib import Path
from kedro.framework.project import pipelines
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project

found = {{}}
for root in map(Path, {[str(p) for p in PROJECTS]!r}):
    os.chdir(root)
    for env in sorted(p.name for p in (root / "conf").iterdir() if p.is_dir()):
        bootstrap_project(root)  # also forgets the pipelines of the environment before
        with KedroSession.create(project_path=root, env=env) as session:
            catalog = session.load_context().catalog
            wanted = {{name: sorted(p.datasets()) for name, p in pipelines.items()}}
        names = {{n for of_one in wanted.values() for n in of_one}}
        # What notebooks load, and no pipeline.
        tables = [n.removesuffix(".current") for n in names if n.endswith(".current")]
        names |= {{f"{{n}}.pending_{{kind}}" for n in tables for kind in ("current", "history")}}
        lacking = sorted(n for n in names if n not in catalog)
        made = {{n: type(catalog.get(n)).__name__ for n in names}}
        found[f"{{root.name}}/{{env}}"] = {{"pipelines": sorted(wanted), "lacking": lacking, "made": made}}
print(json.dumps(found))
"""


def test_every_dataset_of_every_pipeline_in_every_environment_resolves_and_is_made() -> None:
    done = guarded(RESOLVE, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert ATTEMPT not in done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    environments = {f"{p.name}/{e.name}" for p in PROJECTS for e in (p / "conf").iterdir() if e.is_dir()}
    assert set(found) == environments
    assert {f"{ROOT.name}/{env}" for env in ("base", "local", "test", "delta", "hudi", "aws")} <= environments
    for environment, of in found.items():
        assert of["lacking"] == [], environment
        assert {"__default__", "ingestion", "cdc_merge", "scd2"} <= set(of["pipelines"]), environment
    made = found[f"{ROOT.name}/base"]["made"]
    roles = {
        "landing": "LandingDataset", "changes": "ChangesDataset", "quarantine": "QuarantineDataset",
        "pending_current": "PendingDataset", "pending_history": "PendingDataset", "current": "TableDataset",
        "history": "TableDataset",
    }  # fmt: skip
    assert {role: made[f"dms_sample.person.{role}"] for role in roles} == roles


@pytest.mark.parametrize("code", [kedro("registry", "list"), "import kedro_lakehouse.datasets"])
def test_without_pyspark_the_package_and_the_registry_are_there(code: str) -> None:
    done = guarded(code, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert ATTEMPT not in done.stderr


@pytest.mark.parametrize("name", ["catalog.yml", "globals.yml", "spark.yml", "log4j2.properties"])
def test_what_init_writes_is_what_this_project_runs_on(name: str) -> None:
    own = ROOT / "conf" / (name if name.endswith("properties") else f"base/{name}")
    starter = ROOT / "src/kedro_lakehouse/starter" / own.relative_to(ROOT)
    starter = starter.with_name(name.replace("catalog.yml", "catalog_lakehouse.yml"))
    assert starter.read_text(encoding="utf-8") == own.read_text(encoding="utf-8"), f"cp {own} {starter}"


def test_the_guard_refuses(tmp_path: Path) -> None:
    for code in ("import pyspark", "import socket; socket.create_connection(('127.0.0.1', 9))"):
        done = guarded(code, cwd=tmp_path)
        assert done.returncode != 0
        assert ATTEMPT in done.stderr


FOREIGN = {
    "pyproject.toml": """
[tool.kedro]
package_name = "others"
project_name = "others"
kedro_init_version = "1.7.0"
""",
    "src/others/__init__.py": "",
    "src/others/settings.py": "from kedro_lakehouse.project import CONFIG_LOADER_ARGS\n",
    "src/others/pipeline_registry.py": """
from kedro.pipeline import Pipeline, node
def register_pipelines():
    own = Pipeline([node(lambda x: 1 / 0, "params:x", "y", name="own", namespace="mine")])
    try:
        from kedro_lakehouse.pipeline_registry import register_with_own
        return register_with_own() | {"own": own}
    except Exception:
        return {"__default__": own}
""",
    "conf/base/catalog.yml": "",
    "conf/base/parameters.yml": "x: 1\n",
    "conf/local/.gitkeep": "",
}
DECLARED = {
    "conf/base/globals.yml": "lakehouse: ${project_path:lake}\n",
    "conf/base/sources.yml": "shop: {type: dms, path: landing}\n",
    "conf/base/tables.yml": "shop.item: {source: shop, keys: [id]}\n",
    "conf/base/spark.yml": """
spark.sql.catalog.lake.type: jdbc
spark.sql.catalog.lake.uri: jdbc:sqlite:file:${globals:lakehouse}/catalog.db
spark.sql.catalog.lake.warehouse: ${globals:lakehouse}/warehouse
""",
}


def _make(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_in_a_project_of_somebody_else_mistakes_end_in_one_message_too(tmp_path: Path) -> None:
    _make(tmp_path, FOREIGN | DECLARED)
    done = guarded(kedro("run", "--namespaces=shp"), cwd=tmp_path, path=[ROOT / "src"])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "[UNKNOWN_NAME] --namespaces: there is no namespace 'shp'" in done.stderr
    assert "Did you mean 'shop'?" in done.stderr


def test_in_a_project_without_tables_kedros_own_run_is_left_alone(tmp_path: Path) -> None:
    _make(tmp_path, FOREIGN)
    done = guarded(kedro("run", "--namespaces=shp"), cwd=tmp_path, path=[ROOT / "src"])
    assert done.returncode == 1
    assert "UNKNOWN_NAME" not in done.stderr
    assert "ValueError" in done.stdout + done.stderr
