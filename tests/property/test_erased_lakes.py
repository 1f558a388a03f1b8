"""Many persons are erased from a random lake at once: it is the lake of the files that never named them.

It has extracts, changes that come late, twice and as deletes of nothing, rows that move between persons,
wrong records, a table through another one, one without keys, and a derived one. The other lake is made from
the same files without the records about these persons; whose a record is, a walk over each key tells.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from harness import erasures
from harness.erasures import rows, stamp
from harness.project import FORMAT, TemporaryProject, write_text
from harness.soak import only_in_soak

from kedro_lakehouse.erasure.erase import erase
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.project import Project, activate
from property.seeds import SWITCH, the_seed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.property, pytest.mark.spark, pytest.mark.slow, only_in_soak]

PERSONS, ERASED, BATCHES, SITES = 1_200, 520, 3, 2_000
FIRST = 7_000_001
FORMATS: list[Any] = [FORMAT]
if FORMAT == "iceberg":
    FORMATS.append(pytest.param("delta", marks=pytest.mark.delta))
SOURCES: dict[str, Any] = erasures.SOURCES | {
    "crm": {
        "type": "extract", "extract_time": {"from": "name", "pattern": "%Y%m%d"}, "file_format": "csv",
        "path": "${globals:landing}/crm", "pattern": "*.csv",
    },
}  # fmt: skip
SHARED = ("shop.customer", "shop.site", "shop.order", "shop.visit", "shop.spent")
"""Tables that the lake of three persons has, too."""
TABLES: dict[str, Any] = {name: erasures.TABLES[name] for name in SHARED} | {
    "crm.person": {
        "source": "crm", "keys": ["id"], "types": {"id": "bigint", "age": "int"}, "history": True,
        "subject": "id", "checks": {"grown": "age >= 18"}, "max_delete_fraction": 1.0,
    },
}  # fmt: skip
STORED = [
    *erasures.STORED,
    *(f"crm.person{role}" for role in ("", "_history", "_changes", "_quarantine")),
]


@dataclass
class Record:
    """A line of a file, and the persons whom it is about."""

    line: str
    about: set[int] = field(default_factory=set)


@dataclass
class Landing:
    """All files of a random lake, by table, with the lines of each."""

    seed: int
    heads: dict[str, str] = field(default_factory=dict)
    files: dict[str, list[tuple[str, list[Record]]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - reproducible
        self.persons = range(FIRST, FIRST + PERSONS)
        self._extracts()
        self._customers()
        owners = self._sites()
        self._orders(owners)
        self._visits()

    def _extracts(self) -> None:
        """Persons who come, go and change; of some the age is wrong for a while."""
        self.heads["crm/person"] = "id,name,age"
        for number in range(BATCHES):
            present = [
                Record(f"{one},{self._name(one)},{self.chance.choice([17, 30, 31, 'x'])}", {one})
                for one in self.persons
                if self.chance.random() < 0.7
            ]
            self.files["crm/person"].append((f"2026010{number + 1}.csv", present))

    def _name(self, person: int) -> str:
        return f"Person {person} {self.chance.choice('abc')}"

    def _customers(self) -> None:
        """Changes whose key names the person: deletes of rows that are not there name one, too."""
        events = []
        for one in self.persons:
            for n in self.chance.sample(range(1, 30), self.chance.randint(1, 5)):
                if self.chance.random() < 0.3:
                    line = f"D,{one},,,{n},{stamp(n)}"
                else:
                    age = self.chance.choice([17, 30, 31, 32])
                    line = f"U,{one},{self._name(one)},{age},{n},{stamp(n)}"
                events.append(Record(line, {one}))
        self._land("shop/customer", "op,id,name,age,n,ts", events)

    def _sites(self) -> dict[int, set[int]]:
        """Rows that move between persons; returns whose each site ever was."""
        events, owners = [], defaultdict[int, set[int]](set)
        for site in range(1, SITES):
            owner: int | None = None
            for n in sorted(self.chance.sample(range(1, 30), self.chance.randint(1, 5))):
                whose = owner
                if self.chance.random() < 0.2:
                    line, owner = f"D,{site},,,{n},{stamp(n)}", None
                else:
                    says = owner is None or self.chance.random() < 0.4
                    if says:
                        whose = owner = self.chance.choice(self.persons)
                        owners[site].add(owner)
                    line = f"U,{site},{owner if says else ''},{self.chance.choice('xyz')},{n},{stamp(n)}"
                events.append(Record(line, set() if whose is None else {whose}))
        self._land("shop/site", "op,site,customer,city,n,ts", events)
        return owners

    def _orders(self, owners: dict[int, set[int]]) -> None:
        """Rows of sites: each goes with everybody whose its site ever was."""
        events = []
        for order in range(1, SITES):
            site = self.chance.randrange(1, SITES)
            for n in self.chance.sample(range(1, 30), self.chance.randint(1, 3)):
                line = f"U,{order},1,{site},{self.chance.choice('xyz')},{n},{stamp(n)}"
                events.append(Record(line, owners[site]))
        self._land("shop/order", "op,order,line,site,note,n,ts", events)

    def _visits(self) -> None:
        visits = [
            Record(f"{one},{self.chance.choice(['home', 'cart'])}", {one})
            for one in self.chance.choices(self.persons, k=3_000)
        ]
        self._land("shop/visit", "customer,page", visits, again=0)

    def _land(self, place: str, head: str, records: list[Record], *, again: int = 100) -> None:
        """Records in any order, in files of as many batches; some come twice."""
        self.heads[place] = head
        records = [*records, *self.chance.sample(records, again)]
        self.chance.shuffle(records)
        for number in range(BATCHES):
            self.files[place].append((f"{number + 1:03}.csv", records[number::BATCHES]))

    def made(self, folder: Path, table_format: str, without: Iterable[int] = ()) -> TemporaryProject:
        """A lake of these files, in batches; or in one of what is about none of some persons."""
        gone = set(without)
        project = TemporaryProject.make(folder, SOURCES, TABLES, table_format=table_format)
        project.write("credentials", erasures.KEY, env="local")
        for number in range(BATCHES):
            for place, files in self.files.items():
                name, records = files[number]
                lines = [one.line for one in records if not one.about & gone]
                write_text(project.landing / place / name, "\n".join([self.heads[place], *lines, ""]))
            if not gone or number == BATCHES - 1:
                project.run("ingestion", "cdc_merge", "scd2")
        return project


def first_differences(one: Sequence[str], other: Sequence[str]) -> list[str]:
    more, less = sorted(set(one) - set(other)), sorted(set(other) - set(one))
    return [*(f"not expected {row}" for row in more[:2]), *(f"missing {row}" for row in less[:2])]


@pytest.mark.parametrize("table_format", FORMATS)
def test_the_lake_is_that_of_the_files_which_never_named_them(tmp_path: Path, table_format: str) -> None:
    seed = the_seed()
    landing = Landing(seed)
    chosen = landing.chance.sample(landing.persons, ERASED)
    project = landing.made(tmp_path / "whole", table_format)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path)
        evidence = erase(activate(Project.load("conf", None)), [str(one) for one in chosen])
    assert evidence.is_done, (evidence.found[:3], evidence.pending)
    project.run("ingestion", "cdc_merge", "scd2")
    other = landing.made(tmp_path / "without", table_format, chosen)
    found = {}
    for table in STORED:
        held, expected = rows(project, table), rows(other, table)
        if held != expected:
            found[table] = [f"{len(held)} rows, expected {len(expected)}", *first_differences(held, expected)]
    assert found == {}, f"again with {SWITCH}={seed}"
    assert any(rows(project, f"{table}_quarantine") for table in ("crm.person", "shop.customer"))
    wanted = Wanted.of([f"Person {one} {letter}" for one in chosen for letter in "abc"])
    assert [one.path for one in search_files([str(project.path / "lakehouse")], wanted).found] == []
