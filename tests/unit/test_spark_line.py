"""One configuration for every line of Spark: what fits the installed one is picked by its version."""

from __future__ import annotations

import contextlib
import re

import pytest
from harness.project import ROOT
from kedro.config import OmegaConfigLoader

from kedro_lakehouse.errors import SparkLineError, UnsupportedError
from kedro_lakehouse.formats.delta.format import DeltaFormat
from kedro_lakehouse.formats.hudi.format import HudiFormat
from kedro_lakehouse.project import CONFIG_LOADER_ARGS
from kedro_lakehouse.session import line
from kedro_lakehouse.session.line import by_spark, require_line, require_one_of, spark_line, spark_version

pytestmark = pytest.mark.unit

LOCKED = {"spark41": "4.1.1", "spark35": "3.5.7"}


@pytest.fixture(params=LOCKED)
def installed(request, monkeypatch):
    monkeypatch.setattr(line, "spark_version", lambda: LOCKED[request.param])
    return request.param


def test_the_installed_spark_has_a_lock():
    assert LOCKED[spark_line()] == spark_version()


def test_the_same_settings_name_the_jars_of_each_line(installed):
    loader = OmegaConfigLoader(conf_source=str(ROOT / "conf"), **CONFIG_LOADER_ARGS)
    packages = loader["spark"]["spark.jars.packages"]
    runtime = re.search(r"iceberg-spark-runtime-(\d)\.(\d)_2\.1[23]:", packages)
    assert runtime
    assert f"spark{runtime[1]}{runtime[2]}" == installed


def test_a_line_without_a_choice_is_refused(installed):
    other = next(name for name in LOCKED if name != installed)
    with pytest.raises(SparkLineError, match=f"runs on {other}, and {installed} is installed"):
        by_spark({other: "x"})


def test_hudi_asks_for_its_line_in_one_sentence(monkeypatch):
    settings = OmegaConfigLoader(conf_source=str(ROOT / "conf"), env="hudi", **CONFIG_LOADER_ARGS)["spark"]
    monkeypatch.setattr(line, "spark_version", lambda: LOCKED["spark41"])
    with pytest.raises(SparkLineError) as refused:
        require_line(settings)
    assert str(refused.value) == (
        "[SPARK_LINE] This environment runs on spark35, and spark41 is installed here: "
        "run `make setup-spark35`, then `kedro run` of `.venv-spark35/bin` with the same options."
    )
    monkeypatch.setattr(line, "spark_version", lambda: LOCKED["spark35"])
    require_line(settings)


def test_a_format_of_the_other_line_is_refused(installed):
    for needed, made in {"spark41": DeltaFormat, "spark35": HudiFormat}.items():
        refused = pytest.raises(
            UnsupportedError, match=f"not run on {installed}. Choose another format, or {needed}: "
        )
        with contextlib.nullcontext() if needed == installed else refused:
            require_one_of(made.capabilities.spark, made.name)


def test_a_spark_that_no_installer_put_there_tells_its_version(tmp_path, monkeypatch):
    (tmp_path / "sparkless").mkdir()
    (tmp_path / "sparkless/__init__.py").touch()
    (tmp_path / "sparkless/version.py").write_text('#\n__version__: str = "3.5.4+amzn.0"\n', encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert line.version_beside("sparkless") == "3.5.4+amzn.0"
    assert line.version_beside("no_such_package") is None
