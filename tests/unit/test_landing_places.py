"""What of a landing folder counts as its file: nothing that leads out of the source's folder does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import fsspec
import pytest

from kedro_lakehouse.errors import SourceNotFoundError, UnreadableFileError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.files import is_inside, list_files

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit

TABLE = TableName("shop", "item")


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing/item"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("1", encoding="utf-8")
    (tmp_path / "landing/other").mkdir()
    (tmp_path / "landing/other/b.csv").write_text("2", encoding="utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/c.csv").write_text("3", encoding="utf-8")
    return tmp_path / "landing"


def listed(landing: Path) -> list[str]:
    found = list_files(str(landing / "item"), ["*"], table=TABLE, within=str(landing))
    return [file.name for file in found]


@pytest.mark.parametrize(
    "target", ["../../outside/c.csv", "../../outside", "../../nowhere", ".", "..", "/etc/passwd"]
)
def test_a_link_that_leads_out_or_to_a_folder_is_told_and_not_listed(
    landing: Path, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    (landing / "item/link.csv").symlink_to(target)
    assert listed(landing) == ["a.csv"]
    assert "link.csv is no file of its source's folder" in caplog.text


def test_a_link_to_a_file_of_the_source_is_a_file(landing: Path) -> None:
    (landing / "item/link.csv").symlink_to("../other/b.csv")
    assert listed(landing) == ["a.csv", "link.csv"]


def test_a_pipe_is_not_waited_for(landing: Path) -> None:
    os.mkfifo(landing / "item/pipe.csv")
    assert listed(landing) == ["a.csv"]


def test_a_tables_folder_may_not_be_a_link_out(landing: Path) -> None:
    (landing / "linked").symlink_to("../outside")
    with pytest.raises(SourceNotFoundError, match="not followed"):
        list_files(str(landing / "linked"), ["*"], table=TABLE, within=str(landing))


def test_where_the_operator_has_a_link_it_is_followed(landing: Path, tmp_path: Path) -> None:
    (tmp_path / "mounted").symlink_to(landing)
    assert listed(tmp_path / "mounted") == ["a.csv"]


def test_a_colon_in_a_name_on_disk_is_told(landing: Path) -> None:
    (landing / "item/s3:x.csv").write_text("1", encoding="utf-8")
    with pytest.raises(UnreadableFileError, match=r"s3:x\.csv"):
        listed(landing)


@pytest.mark.parametrize(
    ("key", "inside"),
    [
        ("x.csv", True),
        ("a/b:c.csv", True),
        ("../../other/x.csv", False),
        ("a//x.csv", False),
        ("./x.csv", False),
    ],
)
def test_keys_of_object_storage_that_a_path_would_change_are_none(key: str, inside: bool) -> None:
    store = fsspec.filesystem("memory")
    assert is_inside(store, f"bucket/landing/item/{key}", {"type": "file"}, "bucket/landing") is inside


FORBIDDEN = """
import errno, sys
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.files import LandedFile, list_files, refuse_forbidden

root, table = sys.argv[1], TableName("shop", "item")
for look in (
    lambda: list_files(root + "/item", ["*"], table=table, within=root),
    lambda: refuse_forbidden([LandedFile("file://" + root + "/item/a.csv", 1, 1)]),
):
    try:
        print(len(look() or ()))
    except PermissionError as error:
        print(error.errno == errno.EACCES, error.filename.removeprefix(root))
"""
WITHOUT_RIGHTS = "-dac_override,-dac_read_search"


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv, which takes root's rights away")
@pytest.mark.parametrize(
    ("closed", "said"),
    [
        ("", "True /item\nTrue /item/a.csv"),
        ("item", "True /item\nTrue /item/a.csv"),
        ("item/part", "True /item/part\n0"),
        ("item/_hidden", "1\n0"),
        ("item/a.csv", "1\nTrue /item/a.csv"),
    ],
)
def test_what_may_not_be_read_is_told_and_not_left_out(landing: Path, closed: str, said: str) -> None:
    for folder in ("part", "_hidden"):
        (landing / "item" / folder).mkdir()
    place = landing / closed
    place.chmod(0)
    try:
        command = [sys.executable, "-c", FORBIDDEN, str(landing)]
        if os.geteuid() == 0:
            caps = [f"--bounding-set={WITHOUT_RIGHTS}", f"--inh-caps={WITHOUT_RIGHTS}"]
            command = ["setpriv", *caps, *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        place.chmod(0o755)
    assert done.stdout.strip() == said, done.stderr
