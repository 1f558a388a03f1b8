"""What the lakehouse's owner alone may read."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from kedro_lakehouse import private
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.private import private_file, private_folder
from kedro_lakehouse.session.catalog import MetadataCatalog, close_to_others

pytestmark = pytest.mark.unit

NOBODY = 65534


@pytest.fixture(autouse=True)
def usual_umask():
    """A umask under which everybody may read what nobody closes."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def nothing_told_yet(monkeypatch):
    monkeypatch.setattr(private, "_warned", set())


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def conf_of(lakehouse: Path) -> dict[str, str]:
    prefix = "spark.sql.catalog.lake"
    return {
        f"{prefix}.type": "jdbc", f"{prefix}.warehouse": f"{lakehouse}/warehouse",
        f"{prefix}.uri": f"jdbc:sqlite:file:{lakehouse}/catalog.db?journal_mode=WAL",
    }  # fmt: skip


def test_a_folder_is_made_closed_with_what_is_missing_above_it(tmp_path):
    folder = private_folder(tmp_path / "data/lakehouse/logs")
    assert [mode(p) for p in (folder, folder.parent, folder.parent.parent)] == ["0o700"] * 3


@pytest.mark.parametrize("wide", [0o755, 0o750, 0o711, 0o777])
def test_a_folder_that_others_may_enter_is_closed(tmp_path, wide, caplog):
    folder = tmp_path / "lakehouse"
    folder.mkdir()
    folder.chmod(wide)
    private_folder(folder)
    assert mode(folder) == "0o700"
    assert not caplog.records


def test_a_narrower_mode_is_left_as_it_is(tmp_path):
    folder = tmp_path / "lakehouse"
    folder.mkdir(mode=0o500)
    private_folder(folder)
    assert mode(folder) == "0o500"


def test_a_file_is_made_closed_and_keeps_what_it_holds(tmp_path):
    file = tmp_path / "a.log"
    file.write_text("kept", encoding="utf-8")
    assert mode(file) == "0o644"
    assert private_file(file).read_text(encoding="utf-8") == "kept"
    assert mode(private_file(tmp_path / "b.log")) == mode(file) == "0o600"


def test_the_catalog_and_what_sqlite_puts_beside_it_are_closed(tmp_path):
    lakehouse = tmp_path / "lakehouse"
    catalog = MetadataCatalog(conf_of(lakehouse))
    catalog.ensure_namespace("shop")
    assert mode(lakehouse) == "0o700"
    with sqlite3.connect(lakehouse / "catalog.db") as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("CREATE TABLE x (y)")
        beside = sorted(lakehouse.glob("catalog.db*"))
        assert [file.name for file in beside] == ["catalog.db", "catalog.db-shm", "catalog.db-wal"]
        assert {mode(file) for file in beside} == {"0o600"}
    other.close()


def test_a_new_catalog_is_opened_while_another_one_makes_its_tables(tmp_path):
    """As Spark and pyiceberg do in a first run; SQLite waits for no lock when it changes that mode."""
    lakehouse = tmp_path / "lakehouse"
    close_to_others(conf_of(lakehouse))
    with (
        closing(sqlite3.connect(lakehouse / "catalog.db")) as first,
        closing(sqlite3.connect(lakehouse / "catalog.db")) as second,
    ):
        first.execute("BEGIN IMMEDIATE")
        first.execute("CREATE TABLE iceberg_tables (x)")
        assert second.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)


def test_an_earlier_lakehouse_is_closed(tmp_path):
    lakehouse = tmp_path / "lakehouse"
    lakehouse.mkdir()
    sqlite3.connect(lakehouse / "catalog.db").close()
    (lakehouse / "catalog.db").touch()
    close_to_others(conf_of(lakehouse))
    assert (mode(lakehouse), mode(lakehouse / "catalog.db")) == ("0o700", "0o600")


def test_a_catalog_elsewhere_makes_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    close_to_others({"spark.sql.catalog.lake.type": "glue"})
    close_to_others({})
    assert list(tmp_path.iterdir()) == []


def test_a_lease_that_comes_first_makes_a_closed_lakehouse(tmp_path):
    with lease(str(tmp_path / "lakehouse/leases"), TableName("a", "b"), "current"):
        assert mode(tmp_path / "lakehouse") == "0o700"


_AS_NOBODY = """
import os, logging
from pathlib import Path
from kedro_lakehouse.private import private_folder
os.setgid({nobody}); os.setuid({nobody})
logging.basicConfig(format="%(message)s")
for _ in range(2):
    private_folder(Path({folder!r}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_folder_of_somebody_else_is_told_once_and_used():
    with tempfile.TemporaryDirectory() as above:  # pytest closes its own to others
        Path(above).chmod(0o755)
        folder = Path(above, "lakehouse")
        folder.mkdir()
        code = _AS_NOBODY.format(nobody=NOBODY, folder=str(folder))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("Other users of this machine may read") == 1
        assert mode(folder) == "0o755"


def test_a_folder_that_is_made_for_many_is_left_to_them(tmp_path, caplog):
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    private_folder(folder)
    assert mode(folder) == "0o1777"
    assert len(caplog.records) == 1


def test_a_file_system_without_modes_is_told_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # as a mounted share takes it
    folder = tmp_path / "lakehouse"
    folder.mkdir()
    with caplog.at_level(logging.WARNING):
        private_folder(folder)
        private_folder(folder)
    assert len(caplog.records) == 1
