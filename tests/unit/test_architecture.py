"""The page on the architecture: its picture is what the code says, and every file that it names is there."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
SCRIPT = ROOT / "docs" / "generate_architecture.py"
PACKAGE = ROOT / "src" / "kedro_lakehouse"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`([\w./-]+/|(?:[\w.-]+/)*[\w-]+\.(?:py|md|toml|yml))`")
TEXT = FENCE.sub("", PAGE.read_text(encoding="utf-8"))


def section(title):
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture
def generator(monkeypatch):
    spec = importlib.util.spec_from_file_location("generate_architecture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "generate_architecture", module)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_up_to_date(generator):
    assert generator.stale() == [], "run .venv/bin/python docs/generate_architecture.py"


def test_a_changed_picture_is_told(generator, tmp_path, monkeypatch, capsys):
    page = Path(shutil.copy(PAGE, tmp_path))
    monkeypatch.setattr(generator, "PAGE", page)
    page.write_text(
        page.read_text(encoding="utf-8").replace("flowchart TB", "flowchart LR"), encoding="utf-8"
    )
    assert generator.main(["--check"]) == 1
    assert page.name in capsys.readouterr().err
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    assert "flowchart TB" in page.read_text(encoding="utf-8")


def test_a_page_without_the_marks_is_refused(generator, tmp_path, monkeypatch):
    page = tmp_path / "architecture.md"
    page.write_text("# Architecture\n", encoding="utf-8")
    monkeypatch.setattr(generator, "PAGE", page)
    with pytest.raises(ValueError, match="lacks the marks"):
        generator.main([])


def test_every_room_is_in_the_picture(generator):
    rooms = {path.stem for path in PACKAGE.glob("[a-z]*.py")}
    rooms |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {room for row, _ in generator.rows() for room in row} == rooms


@pytest.mark.parametrize("path", sorted(set(PATH.findall(TEXT))))
def test_paths_of_the_page_exist(path):
    assert (PACKAGE / path).exists() or (ROOT / path).exists()


def test_each_stay_of_a_record_names_one_file():
    stays = re.split(r"^\d+\. ", section("The way of a record"), flags=re.MULTILINE)[1:]
    assert 0 < len(stays) <= 12
    assert [len(PATH.findall(stay.partition("\n\n")[0])) for stay in stays] == [1] * len(stays)


def test_each_question_is_answered_by_one_file():
    rows = re.findall(r"^\| .+\? \| (.+) \|$", section("Where a rule lives"), re.MULTILINE)
    assert len(rows) >= 20
    assert {row: len(PATH.findall(row)) for row in rows} == dict.fromkeys(rows, 1)
