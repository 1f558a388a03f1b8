"""Fetching jars: Ivy does it in a Java of its own, and nothing that it fetched is loaded unchecked."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from kedro_lakehouse.errors import JarRefusedError, JarsNotFetchedError
from kedro_lakehouse.session.jars import checked_jars, known_jars

pytestmark = pytest.mark.spark

_SETTINGS = """
<ivysettings>
  <settings defaultResolver="here"/>
  <resolvers>
    <filesystem name="here" m2compatible="true">
      <artifact pattern="{folder}/[organisation]/[artifact]/[revision]/[artifact]-[revision].[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    """Settings with a repository in a folder: a jar of somebody else's, and a false one of a pinned name."""
    for group, name, version in (("org/example", "tiny", "1.0"), ("org/xerial", "sqlite-jdbc", "3.53.0.0")):
        jar = tmp_path / "repository" / group / name / version / f"{name}-{version}.jar"
        jar.parent.mkdir(parents=True)
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(_SETTINGS.format(folder=tmp_path / "repository"), encoding="utf-8")
    return {
        "spark.master": "local[1]",
        "spark.jars.ivy": str(tmp_path / "ivy"),
        "spark.jars.ivySettings": str(settings),
    }


def test_jars_are_fetched_once_without_a_word(
    conf: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    conf["spark.jars.packages"] = "org.example:tiny:1.0"
    (jar,) = checked_jars(conf)
    assert capfd.readouterr() == ("", "")
    assert "org.example#tiny" in (tmp_path / "ivy/fetch.log").read_text(encoding="utf-8")
    assert Path(jar) == tmp_path / "ivy/jars/org.example_tiny-1.0.jar"
    assert known_jars(conf) == [jar]


def test_a_false_jar_is_refused_when_it_is_fetched(conf: dict[str, str], tmp_path: Path) -> None:
    conf["spark.jars.packages"] = "org.xerial:sqlite-jdbc:3.53.0.0"
    with pytest.raises(JarRefusedError) as told:
        checked_jars(conf)
    fetched = tmp_path / "ivy/jars/org.xerial_sqlite-jdbc-3.53.0.0.jar"
    assert told.value.found == hashlib.sha256(fetched.read_bytes()).hexdigest()
    assert known_jars(conf) == []


def test_what_is_nowhere_is_told_and_where_ivy_says_why(conf: dict[str, str], tmp_path: Path) -> None:
    conf["spark.jars.packages"] = "org.example:none:1.0"
    with pytest.raises(JarsNotFetchedError, match=r"org\.example:none:1\.0.*fetch\.log says why"):
        checked_jars(conf)
    assert "org.example#none;1.0: not found" in (tmp_path / "ivy/fetch.log").read_text(encoding="utf-8")
