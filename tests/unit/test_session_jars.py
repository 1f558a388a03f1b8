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


def test_a_local_session_has_known_jars_on_its_class_path(conf: dict[str, str], tmp_path: Path) -> None:
    settings, jars = spark.with_known_jars(conf)
    assert jars == [str(tmp_path / "with blank.jar"), str(tmp_path / "b.jar")]
    assert settings == {"spark.master": "local[2]"}


@pytest.mark.parametrize("master", [None, "spark://host:7077"])
def test_others_send_them_to_their_executors(
    conf: dict[str, str], tmp_path: Path, master: str | None
) -> None:
    given = {"spark.jars": "/opt/own.jar"} | ({"spark.master": master} if master else {})
    del conf["spark.master"]
    settings, jars = spark.with_known_jars(conf | given)
    assert jars == []
    assert settings == given | {"spark.jars": f"/opt/own.jar,{tmp_path}/with blank.jar,{tmp_path}/b.jar"}


def test_other_packages_are_resolved(conf: dict[str, str]) -> None:
    other = conf | {"spark.jars.packages": "org:c:3"}
    assert spark.with_known_jars(other) == (other, [])


def test_a_jar_that_went_is_resolved_again(conf: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "b.jar").unlink()
    assert spark.with_known_jars(conf) == (conf, [])


@pytest.mark.parametrize("given", [None, "/opt/own.jar"])
def test_the_class_path_is_javas_alone(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    name = "SPARK_DIST_CLASSPATH"
    monkeypatch.delenv(name, raising=False)
    if given:
        monkeypatch.setenv(name, given)
    with spark.class_path(["/a.jar", "/b.jar"]):
        assert os.environ[name].split(os.pathsep) == ["/a.jar", "/b.jar", *([given] if given else [])]
    assert os.environ.get(name) == given
