"""What `add` writes runs as it stands: each table has the rows of its file."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from harness.commands import call  # noqa: F401 - a fixture
from harness.project import TemporaryProject, write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

pytestmark = pytest.mark.spark

MOVIES = [
    {"id": 1, "title": "one", "gross": 1.50, "tags": ["a", {"n": 2.50}]},
    {"id": 2, "title": 300, "gross": None, "tags": []},
    {"id": 12345678901234567, "title": 'a "quoted" ] one', "gross": 2e3},
]

SALES = """no;paid_on;ordered_at;amount
1001;3.10.2026;03.10.2026 14:05;1.234,50
1002;31.10.2026;04.10.2026 9:00;99,00
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    made = TemporaryProject.make(tmp_path_factory.mktemp("add") / "project", {}, {})
    write_text(made.landing / "cinema/movies.json", json.dumps(MOVIES, indent=1).replace("2.5", "2.50"))
    frame = '"","miles","cyl"\n"Mazda é",21.0,6\n"Datsun",NA,4\n"Hornet",21.4,6\n'
    (made.landing / "frames").mkdir()
    (made.landing / "frames/cars.csv").write_bytes(frame.encode("latin-1"))
    write_text(
        made.landing / "lab/measured.csv",
        "1.5 2 2026-10-04T09:00\n2.5 2 2026-10-04T09:00\n1.5 2 2026-10-04T09:00\n",
    )
    write_text(made.landing / "shop/sales.csv", SALES)
    return made


def test_four_files_are_added_and_run(
    project: TemporaryProject,
    call: Callable[..., Result],  # noqa: F811 - the fixture
) -> None:
    for file in ("cinema/movies.json", "frames/cars.csv", "lab/measured.csv", "shop/sales.csv"):
        done = call("add", str(project.landing / file), "--yes")
        assert done.exit_code == 0, done.output
    project.run()
    movies = {row["id"]: row for row in project.rows("cinema.movies")}
    assert {key: (row["title"], row["gross"]) for key, row in movies.items()} == {
        1: ("one", 1.5), 2: ("300", None), 12345678901234567: ('a "quoted" ] one', 2000.0),
    }  # fmt: skip
    assert json.loads(movies[1]["tags"]) == ["a", {"n": 2.5}]
    assert "2.50" in movies[1]["tags"]
    cars: list[dict[str, Any]] = project.rows("frames.cars", "row_name,miles,cyl")
    assert sorted((row["row_name"], row["miles"], row["cyl"]) for row in cars) == [
        ("Datsun", None, 4), ("Hornet", 21.4, 6), ("Mazda é", 21.0, 6),
    ]  # fmt: skip
    measured = project.rows("lab.measured", "column1,column2,column3")
    moment = dt.datetime.fromisoformat
    nine = moment("2026-10-04T09:00")
    assert sorted(tuple(row.values()) for row in measured) == [(1.5, 2, nine), (1.5, 2, nine), (2.5, 2, nine)]
    sales = project.rows("shop.sales", "no,paid_on,ordered_at,amount")
    assert sorted(tuple(row.values()) for row in sales) == [
        (1001, dt.date(2026, 10, 3), moment("2026-10-03T14:05"), "1.234,50"),
        (1002, dt.date(2026, 10, 31), moment("2026-10-04T09:00"), "99,00"),
    ]  # fmt: skip
    for table in ("cinema.movies", "frames.cars", "lab.measured", "shop.sales"):
        assert project.rows(f"{table}_quarantine") == []


def test_an_array_that_was_cut_off_is_set_aside_whole(project: TemporaryProject) -> None:
    """Nothing of it is taken for the table: the rows of the extract before stay."""
    before = project.rows("cinema.movies")
    write_text(project.landing / "cinema/movies.json", json.dumps(MOVIES)[:-20])
    failed = project.failures()
    assert set(failed) <= {"cinema.movies"}
    after = project.rows("cinema.movies")
    assert sorted(row["id"] for row in after) == sorted(row["id"] for row in before)
