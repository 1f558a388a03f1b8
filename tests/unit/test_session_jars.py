"""The jars of a session: each is the one that is pinned, then it goes to Java's class path."""

import hashlib
import os
import re
from pathlib import Path

import pytest
import yaml

from kedro_lakehouse.errors import JarRefusedError
from kedro_lakehouse.session import jars

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.unit

OURS = "org.xerial:sqlite-jdbc:3.53.0.0"
OUR_JAR = "org.xerial_sqlite-jdbc-3.53.0.0.jar"


def conf_of(folder: Path, packages: str, names: list[str]) -> dict[str, str]:
    """Settings whose packages were resolved to files of these names."""
    settings = {"spark.master": "local[2]", "spark.jars.packages": packages, "spark.jars.ivy": str(folder)}
    for name in names:
        (folder / name).write_bytes(b"a jar")
    listed = jars.resolved_jars(settings)
    assert listed is not None
    listed.parent.mkdir(exist_ok=True)
    listed.write_text("\n".join(str(folder / name) for name in names), encoding="utf-8")
    return settings


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    return conf_of(tmp_path, "org:a:1,org:b:2", ["with blank.jar", "b.jar"])


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Settings of one package of ours, whose jar is the pinned one."""
    right = hashlib.sha256(b"a jar").hexdigest()
    monkeypatch.setattr(jars, "pinned_sums", lambda: {OUR_JAR: right})
    return conf_of(tmp_path, OURS, [OUR_JAR])


def test_a_local_session_has_known_jars_on_its_class_path(conf: dict[str, str], tmp_path: Path) -> None:
    settings, found = jars.with_checked_jars(conf)
    assert found == [str(tmp_path / "with blank.jar"), str(tmp_path / "b.jar")]
    assert settings == {"spark.master": "local[2]"}


@pytest.mark.parametrize("master", [None, "spark://host:7077"])
def test_others_send_them_to_their_executors_too(
    conf: dict[str, str], tmp_path: Path, master: str | None
) -> None:
    given = {"spark.jars": "/opt/own.jar"} | ({"spark.master": master} if master else {})
    del conf["spark.master"]
    settings, found = jars.with_checked_jars(conf | given)
    assert found == [str(tmp_path / "with blank.jar"), str(tmp_path / "b.jar")]
    assert settings == given | {"spark.jars": f"/opt/own.jar,{tmp_path}/with blank.jar,{tmp_path}/b.jar"}


def test_jars_of_other_packages_are_not_known(conf: dict[str, str]) -> None:
    assert jars.known_jars(conf | {"spark.jars.packages": "org:c:3"}) == []


def test_a_jar_that_went_is_not_known(conf: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "b.jar").unlink()
    assert jars.known_jars(conf) == []


@pytest.mark.parametrize("packages", [{}, {"spark.jars.packages": ""}])
def test_without_packages_there_is_nothing_to_fetch(packages: dict[str, str], tmp_path: Path) -> None:
    conf = {"spark.jars.ivy": str(tmp_path)} | packages
    assert jars.with_checked_jars(conf) == (conf, [])


@pytest.mark.parametrize("given", [None, "/opt/own.jar"])
def test_the_class_path_is_javas_alone(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    name = "SPARK_DIST_CLASSPATH"
    monkeypatch.delenv(name, raising=False)
    if given:
        monkeypatch.setenv(name, given)
    with jars.class_path(["/a.jar", "/b.jar"]):
        assert os.environ[name].split(os.pathsep) == ["/a.jar", "/b.jar", *([given] if given else [])]
    assert os.environ.get(name) == given


def test_every_package_of_our_environments_is_pinned() -> None:
    folders = [
        *ROOT.glob("conf/*"),
        ROOT / "src/kedro_lakehouse/starter/conf/base",
        *ROOT.glob("examples/*/conf/base"),
    ]
    texts = [
        yaml.safe_load((f / "spark.yml").read_text(encoding="utf-8"))
        for f in folders
        if (f / "spark.yml").is_file()
    ]
    wanted = {one for text in texts for one in each_line(text.get("spark.jars.packages", ""))}
    assert len(wanted) >= 9
    assert {one for one in wanted if jars._file_name(one) not in jars.pinned_sums()} == set()


def each_line(packages: str) -> list[str]:
    """The coordinates of both lines of Spark, out of ``${by_spark:{spark41: ..., spark35: ...}}``."""
    choice = re.compile(r"\$\{by_spark:\{spark41: '?([^,']+)'?, spark35: '?([^}']+)'?\}\}")
    both = [choice.sub(rf"\{n}", packages) for n in (1, 2)]
    return [one for text in both for one in text.split(",") if one]


def test_the_list_holds_sums_and_names_of_files_alone() -> None:
    assert all(re.fullmatch(r"[\w.-]+\.jar", name) for name in jars.pinned_sums())
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in jars.pinned_sums().values())


def test_another_jar_of_a_pinned_name_is_refused(pinned: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / OUR_JAR).write_bytes(b"false")
    with pytest.raises(JarRefusedError) as told:
        jars.with_checked_jars(pinned)
    facts = told.value
    assert (facts.jar, facts.expected) == (OUR_JAR, hashlib.sha256(b"a jar").hexdigest())
    assert facts.found == hashlib.sha256(b"false").hexdigest()
    assert all(part in str(facts) for part in (facts.jar, str(facts.expected), facts.found, str(tmp_path)))


def test_a_jar_that_changes_after_it_was_checked_is_refused(pinned: dict[str, str], tmp_path: Path) -> None:
    assert jars.checked_jars(pinned)
    (tmp_path / OUR_JAR).write_bytes(b"A jar")  # of the same size
    os.utime(tmp_path / OUR_JAR, (1, 1))
    with pytest.raises(JarRefusedError):
        jars.checked_jars(pinned)


def test_a_checked_jar_is_not_read_again(pinned: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert jars.checked_jars(pinned)
    monkeypatch.setattr(jars, "_sha256", None)
    assert jars.checked_jars(pinned)


def test_a_new_list_has_every_jar_read_again(pinned: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert jars.checked_jars(pinned)
    monkeypatch.setattr(jars, "pinned_sums", lambda: {OUR_JAR: "0" * 64})
    with pytest.raises(JarRefusedError):
        jars.checked_jars(pinned)


def test_an_unpinned_jar_beside_our_packages_is_refused(pinned: dict[str, str], tmp_path: Path) -> None:
    conf = conf_of(tmp_path, pinned["spark.jars.packages"], [OUR_JAR, "org_more-1.jar"])
    with pytest.raises(JarRefusedError, match=r"org_more-1\.jar .* is not pinned"):
        jars.checked_jars(conf)


def test_whoever_names_other_packages_has_their_jars(pinned: dict[str, str], tmp_path: Path) -> None:
    conf = conf_of(tmp_path, f"{OURS},org:mine:1", [OUR_JAR, "org_mine-1.jar", "org_what-mine-needs-2.jar"])
    assert len(jars.checked_jars(conf)) == 3


def test_ours_are_checked_beside_other_packages_too(pinned: dict[str, str], tmp_path: Path) -> None:
    conf = conf_of(tmp_path, f"{OURS},org:mine:1", [OUR_JAR, "org_mine-1.jar"])
    (tmp_path / OUR_JAR).write_bytes(b"false")
    with pytest.raises(JarRefusedError, match=OUR_JAR):
        jars.checked_jars(conf)
