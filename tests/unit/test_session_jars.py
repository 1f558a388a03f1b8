"""The jars of a local session: on Java's class path, once an earlier start resolved them."""

import os
from pathlib import Path

import pytest

from kedro_lakehouse.session import spark

pytestmark = pytest.mark.unit


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    """Settings whose two jars were resolved."""
    settings = {
        "spark.master": "local[2]", "spark.jars.packages": "org:a:1,org:b:2", "spark.jars.ivy": str(tmp_path),
    }  # fmt: skip
    jars = [tmp_path / "with blank.jar", tmp_path / "b.jar"]
    for jar in jars:
        jar.touch()
    listed = spark.resolved_jars(settings)
    assert listed is not None
    listed.parent.mkdir()
    listed.write_text("\n".join(map(str, jars)), encoding="utf-8")
    return settings


def test_resolved_jars_are_found(conf: dict[str, str], tmp_path: Path) -> None:
    assert spark.local_jars(conf) == [str(tmp_path / "with blank.jar"), str(tmp_path / "b.jar")]


def test_other_packages_are_not_resolved_yet(conf: dict[str, str]) -> None:
    assert spark.local_jars(conf | {"spark.jars.packages": "org:c:3"}) == []


def test_a_jar_that_went_is_resolved_again(conf: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "b.jar").unlink()
    assert spark.local_jars(conf) == []


def test_the_executors_of_a_cluster_fetch_their_own(conf: dict[str, str]) -> None:
    assert spark.local_jars(conf | {"spark.master": "spark://host:7077"}) == []


@pytest.mark.parametrize("given", [None, "/opt/own.jar"])
def test_the_class_path_is_javas_alone(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    name = "SPARK_DIST_CLASSPATH"
    monkeypatch.delenv(name, raising=False)
    if given:
        monkeypatch.setenv(name, given)
    with spark.class_path(["/a.jar", "/b.jar"]):
        assert os.environ[name].split(os.pathsep) == ["/a.jar", "/b.jar", *([given] if given else [])]
    assert os.environ.get(name) == given
