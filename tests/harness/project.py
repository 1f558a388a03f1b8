"""A Kedro project in a temporary folder that runs in this process, on the one Spark of the test run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project

from kedro_lakehouse.formats.base import WritesFiles
from kedro_lakehouse.monitoring.table_status import TableStatus, statuses_of
from kedro_lakehouse.names import ROLES, TableName, quote
from kedro_lakehouse.ops.failures import TablesFailedError
from kedro_lakehouse.project import Project, active_project
from kedro_lakehouse.runners import IsolatingThreadRunner

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
FORMAT = os.environ.get("KEDRO_LAKEHOUSE_FORMAT") or "iceberg"
"""The format of tables that name none: `make conformance FORMAT=delta` sets it."""
ENV = "hudi" if FORMAT == "hudi" else None
"""The repository's environment that the format needs; the others share a session."""
SMALL = {
    # Hundreds of small plans, each used once: to compile them takes longer than to interpret them.
    "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
}  # fmt: skip


def environment() -> dict[str, str]:
    """The environment of a process that imports what this one imports."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def script(path: Path) -> Any:
    """A script of an example or of the documentation, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _delta() -> dict[str, str]:
    """The settings of Spark that Delta needs, for every session: one Spark serves the whole test run."""
    return {k: str(v) for k, v in _written(ROOT / "conf/delta/spark.yml").items()}


@dataclass(frozen=True)
class Outcome:
    """What a run did that may have failed for some tables."""

    reports: list[Any]
    failed: dict[str, BaseException]
    retry: str = ""

    def counts(self, table: str, stage: str) -> list[dict[str, int]]:
        """What each commit of one stage of a table counted, in the order of batches."""
        found = [r for r in self.reports if (r.table, r.stage) == (table, stage)]
        return [r.counts for r in sorted(found, key=lambda r: r.batch)]


@dataclass
class TemporaryProject:
    """A project with the repository's own settings, and declarations and landing folder of its own."""

    path: Path
    _last: Project | None = field(default=None, repr=False)

    @classmethod
    def make(
        cls,
        path: Path,
        sources: dict[str, Any],
        tables: dict[str, Any],
        *,
        as_shipped: bool = False,
        table_format: str = FORMAT,
        env: str | None = ENV,
    ) -> TemporaryProject:
        """Write the project; the landing folder is there and empty.

        Spark plans as for small data, unless the project is to run ``as_shipped``. Tables that name
        no format have ``table_format``, or that of the repository's environment ``env``, whose settings
        the project then has.
        """
        for part in ("src", "landing", "conf/base", "conf/local"):
            (path / part).mkdir(parents=True)
        shutil.copy(ROOT / "pyproject.toml", path / "pyproject.toml")
        for name in ("catalog.yml", "spark.yml", "parameters.yml"):
            shutil.copy(ROOT / "conf/base" / name, path / "conf/base" / name)
        for name in ("logging.yml", "log4j2.properties"):
            shutil.copy(ROOT / "conf" / name, path / "conf" / name)
        places = {
            "lakehouse": str(path / "lakehouse"), "landing": str(path / "landing"),
            "conf": str(path / "conf"), "cache": str(ROOT / ".cache"), "driver_memory": "3g",
            "table_format": table_format,
        }  # fmt: skip
        project = cls(path)
        project.write("globals", places)
        spark = _delta() if env is None else _written(ROOT / f"conf/{env}/spark.yml")
        project.write("spark", spark | ({} if as_shipped else SMALL), env="local")
        project.write("globals", _written(ROOT / f"conf/{env}/globals.yml"), env="local")
        if as_shipped:
            name = "parameters_column_index.yml"
            shutil.copy(ROOT / "conf/base" / name, path / "conf/base" / name)
        project.declare(sources, tables)
        return project

    @classmethod
    def of_example(cls, name: str, path: Path) -> TemporaryProject:
        """Copy a project of ``examples/`` without its tables; Spark plans as for small data."""
        ignored = shutil.ignore_patterns("lakehouse", "local")
        project = cls(Path(shutil.copytree(ROOT / "examples" / name, path, ignore=ignored)))
        # A test's working folder is not the project's, and the repository is not around the copy.
        places = {
            "lakehouse": str(project.path / "data/lakehouse"), "landing": str(project.path / "data/01_raw"),
            "cache": str(ROOT / ".cache"), "conf": str(ROOT / "conf"),
        }  # fmt: skip
        own = {} if ENV is None else _written(ROOT / f"conf/{ENV}/globals.yml")
        project.write("globals", places | own, env="local")
        spark = _delta() if ENV is None else _written(ROOT / f"conf/{ENV}/spark.yml")
        project.write("spark", spark | SMALL, env="local")
        return project

    @classmethod
    def of_repository(cls, path: Path) -> TemporaryProject:
        """Copy what a clone has for `make run`: the configuration of base and the data, without tables."""
        project = cls(path)
        for name in ("conf/base", "data/01_raw", "data/demo_lake"):
            shutil.copytree(ROOT / name, path / name)
        for name in ("pyproject.toml", "conf/logging.yml", "conf/log4j2.properties"):
            shutil.copy(ROOT / name, path / name)
        (path / "src").mkdir()
        places = {
            "lakehouse": str(path / "data/lakehouse"), "landing": str(path / "data/01_raw"),
            "cache": str(ROOT / ".cache"), "conf": str(path / "conf"), "driver_memory": "3g",
        }  # fmt: skip
        project.write("globals", places, env="local")
        project.write("spark", _delta(), env="local")
        return project

    def set_globals(self, **values: Any) -> None:
        """Give these globals other values, and keep the others."""
        self.write("globals", _written(self.path / "conf/local/globals.yml") | values, env="local")

    def write(self, name: str, content: dict[str, Any], env: str = "base") -> None:
        """Write one configuration file."""
        folder = self.path / "conf" / env
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def declare(self, sources: dict[str, Any], tables: dict[str, Any]) -> None:
        """Write sources.yml and tables.yml anew."""
        self.write("sources", sources)
        self.write("tables", tables)

    @property
    def landing(self) -> Path:
        """The folder in which files land."""
        return self.path / "landing"

    def run(self, *pipelines: str, env: str | None = None, namespaces: list[str] | None = None) -> list[Any]:
        """Run pipelines as ``kedro run`` does; the reports of the commits that the run made.

        Raises:
            TablesFailedError: Tables failed; the others are done.
        """
        bootstrap_project(self.path)
        with KedroSession.create(project_path=self.path, env=env) as session:
            try:
                session.run(
                    pipeline_names=list(pipelines) or None,
                    runner=IsolatingThreadRunner(),
                    namespaces=namespaces or [],
                )
            finally:
                self._last = active_project()
        return list(self._project.reports)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Kedro in the project's folder, in a process of its own."""
        kedro = str(Path(sys.executable).with_name("kedro"))
        return subprocess.run(
            [kedro, *words], cwd=self.path, capture_output=True, text=True, check=False, env=environment()
        )

    def failures(self, *pipelines: str, **options: Any) -> dict[str, BaseException]:
        """Run pipelines of which some table is expected to fail; the error of each failed table."""
        try:
            self.run(*pipelines, **options)
        except TablesFailedError as error:
            return dict(error.tables)
        return {}

    def attempt(self, *pipelines: str, **options: Any) -> Outcome:
        """Run pipelines of which some tables may fail."""
        try:
            return Outcome(self.run(*pipelines, **options), {})
        except TablesFailedError as error:
            return Outcome(list(self._project.reports), dict(error.tables), error.retry)

    @property
    def _project(self) -> Project:
        """The project of this one's last run, also where another temporary project ran since."""
        return self._last or Project.load(str(self.path / "conf"), None)

    def rows(self, table: str, columns: str = "*") -> list[dict[str, Any]]:
        """The published rows of a stored table (such as ``shop.item_history``)."""
        found = self._arrow(table, ("*",) if columns == "*" else tuple(columns.split(",")))
        return [] if found is None else found.to_pylist()

    def arrow(self, table: str) -> pa.Table:
        """A stored table as Arrow."""
        found = self._arrow(table, ("*",))
        assert found is not None, table
        return found

    def _arrow(self, table: str, columns: tuple[str, ...]) -> pa.Table | None:
        """A stored table as Arrow, without Spark if its format can."""
        stored = TableName(*table.split("."))
        table_format = self.format_of(table)
        if table_format.name == "iceberg":
            found = self._project.catalog.find(stored)
            return None if found is None else found.scan(selected_fields=columns).to_arrow()
        state = table_format.state(stored)
        if state is None:
            return None
        if isinstance(table_format, WritesFiles):
            # Spark takes a second or two for a Delta table whose log another process wrote.
            held = table_format.find_rows(stored, state, {}, most_bytes=2**30)
            if held is not None:
                return held.rows if columns == ("*",) else held.rows.select(list(columns))
        return self._arrow_by_spark(stored, columns)

    def rows_by_spark(self, table: str) -> list[dict[str, Any]]:
        """The published rows of a stored table as Spark reads them."""
        found: list[dict[str, Any]] = self._arrow_by_spark(TableName(*table.split(".")), ("*",)).to_pylist()
        return found

    def _arrow_by_spark(self, stored: TableName, columns: tuple[str, ...]) -> pa.Table:
        rows = self.format_of(str(stored)).read(stored)
        rows = rows if columns == ("*",) else rows.select(*map(quote, columns))
        return pa.Table.from_batches(rows._collect_as_arrow(), _arrow_schema(rows.schema))

    def format_of(self, table: str) -> Any:
        """The format of a stored table."""
        stored = TableName(*table.split("."))
        declared = (n for n in self._project.declarations.tables if stored in map(n.with_suffix, ROLES))
        return self._project.format_of(next(declared, stored))

    def ops(self, table: str) -> list[dict[str, Any]]:
        """Rows of one of the project's own tables."""
        return self._project.ops.read(table)

    def statuses(self) -> list[TableStatus]:
        """The status of each declared table, as commands and console show it."""
        return statuses_of(self._project)

    def state(self, table: str) -> Any:
        """Where a stored table stands."""
        return self.format_of(table).state(TableName(*table.split(".")))

    def frame(self, dataset: str) -> Any:
        """Load a dataset of the catalog as a Spark frame."""
        bootstrap_project(self.path)
        with KedroSession.create(project_path=self.path) as session:
            return session.load_context().catalog.load(dataset)


def _arrow_schema(schema: Any) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema)


def _written(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_parquet(path: Path, rows: list[dict[str, Any]], schema: dict[str, pa.DataType]) -> Path:
    """Write one parquet file with exactly these columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(list(schema.items()))), path)
    return path


def write_text(path: Path, text: str) -> Path:
    """Write one text file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
