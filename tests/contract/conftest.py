"""A shop's project whose lake is written without Spark."""

import pyarrow as pa
import pytest
import yaml

from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.project import Project, _Active


@pytest.fixture
def open_project(tmp_path, monkeypatch):
    """Open the project of a shop anew, as the next run would, with this monitoring.yml."""
    monkeypatch.delenv("KEDRO_ENV", raising=False)
    monkeypatch.setattr(_Active, "project", None)
    lake = tmp_path / "lake"
    spark = {"type": "jdbc", "uri": f"jdbc:sqlite:file:{lake}/catalog.db", "warehouse": f"{lake}/warehouse"}
    files = {
        "base/spark": {f"spark.sql.catalog.lake.{key}": value for key, value in spark.items()},
        "base/globals": {"lakehouse": str(lake)},
        "base/sources": {"shop": {"type": "dms", "path": str(tmp_path / "landing")}},
        "base/tables": {name: {"source": "shop", "keys": ["id"]} for name in ("shop.item", "shop.line")},
        "local/credentials": {"chat": {"token": "CANARY"}, "lineage": {"api_key": "CANARY-KEY"}},
    }

    def open_project(monitoring):
        for name, content in (files | {"base/monitoring": monitoring}).items():
            path = tmp_path / "conf" / f"{name}.yml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(content))
        return Project.load(str(tmp_path / "conf"), None)

    return open_project


@pytest.fixture
def commit():
    """Make a stored table whose last commit was at a time."""

    def commit(project, table, role, at, rows=1):
        report = CommitReport(
            table=table, stage="current", batch=2, batches=1, content_hash="x", run_id="r",
            committed_at=at.isoformat(),
        )  # fmt: skip
        name = TableName.parse(table).with_suffix(role)
        project.catalog.ensure_namespace(name.namespace)
        data = pa.table({"id": pa.array(range(rows), pa.int64())})
        made = project.catalog.catalog.create_table(
            name.identifier, schema=data.schema, properties={BOOKMARK: report.to_property()}
        )
        made.append(data)

    return commit
