"""The contract of a pulled source, without Spark: subclass ``PulledSourceContract`` for each type."""

from __future__ import annotations

import json
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Protocol, get_args

import pytest

from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.pulls.errors import SourceFault, TerminalFault
from kedro_lakehouse.pulls.landing import in_storage_types
from kedro_lakehouse.pulls.manifest import SealedPulls
from kedro_lakehouse.pulls.protocol import CrawledSource, EntityKind, PulledSource, Since
from kedro_lakehouse.pulls.run import TablePulls, pull_together

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from kedro_lakehouse.config.pulls import Mode
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.pulls.protocol import Chunk, CrawledEntity

Rows = dict[int, str | None]


class Origin(Protocol):
    """A table of a source that a test fills: its rows have ``id``, ``name``, and a time of their change."""

    def put(self, rows: Rows) -> None:
        """Insert or update these rows, as names by id."""

    def remove(self, *ids: int) -> None:
        """Delete these rows."""

    def settle(self) -> None:
        """Wait until a window that is planned now holds what was put."""

    def make_anew(self) -> bool:
        """Drop the table and make it again, empty; False if the source cannot tell such a table apart."""


class PulledSourceContract:
    """Each test takes an empty origin; the source is opened anew for each pull, as each run does."""

    wrong = "not-the-word-it-wants"

    @pytest.fixture
    def origin(self) -> Origin:
        """A new table of the source."""
        raise NotImplementedError

    def declared(
        self, origin: Origin, mode: Mode, folder: str
    ) -> tuple[PulledSourceConfig, TableName, TableConfig]:
        """The declarations of the origin; ``folder`` is the source's path."""
        raise NotImplementedError

    def opened(self, origin: Origin, mode: Mode, folder: str, **credentials: str) -> PulledSource:
        """The source, with these credentials in the place of its own."""
        raise NotImplementedError

    # What a run does.
    def pulls(self, origin: Origin, mode: Mode, folder: Path) -> TablePulls:
        """The pulls of the origin into a folder."""
        config, name, table = self.declared(origin, mode, str(folder))
        return TablePulls(
            name,
            config.completed(table),
            config,
            make=lambda: self.opened(origin, mode, str(folder)),
            sealed=SealedPulls(str(folder), str(name)),
        )

    def pulled(self, origin: Origin, mode: Mode, folder: Path) -> Rows | None:
        """Pull once; the rows that landed, or None if nothing was new."""
        sealed = pull_together([self.pulls(origin, mode, folder)])
        if not sealed:
            return None
        (manifest,) = sealed.values()
        return {row["id"]: row["name"] for f in manifest.files for row in _landed(folder / f.path)}

    # The cases.
    @pytest.fixture
    def modes(self, origin: Origin, tmp_path: Path) -> frozenset[Mode]:
        """What the source can do."""
        return self.opened(origin, "full", str(tmp_path)).capabilities.modes

    def test_it_is_a_pulled_source(self, origin: Origin, tmp_path: Path) -> None:
        """It has every method of the protocol, and its model and it agree on what lands."""
        source = self.opened(origin, "full", str(tmp_path))
        assert isinstance(source, PulledSource)
        config, _, _ = self.declared(origin, "full", str(tmp_path))
        assert isinstance(config, PulledSourceConfig)
        assert config.lands == source.capabilities.lands
        assert config.type != ""

    def test_it_describes_its_columns(self, origin: Origin, tmp_path: Path) -> None:
        """What its own catalog says; a source without one says nothing."""
        origin.put({1: "a"})
        source = self.opened(origin, "full", str(tmp_path))
        try:
            names = [column.name for column in source.describe().columns]
        finally:
            source.close()
        assert not names or {"id", "name"} <= set(names)

    # What a crawl does, of a source that tells all that it holds.
    def crawled(
        self, origin: Origin, folder: Path, *, whole: bool = True, **credentials: str
    ) -> Generator[CrawledEntity, None, None]:
        """A crawl of the origin's source; ``credentials`` are in the place of its own."""
        made = self.opened(origin, "full", str(folder))
        if not made.capabilities.crawls:
            pytest.skip("it does not tell all that it holds")
        assert isinstance(made, CrawledSource)
        config, _, _ = self.declared(origin, "full", str(folder))
        return made.crawl(config, {**self.credentials(origin), **credentials}, whole=whole)

    def credentials(self, origin: Origin) -> Mapping[str, Any]:
        """The secrets of the source; a source that is crawled, and asks for some, says them here."""
        del origin
        return {}

    def test_a_crawl_finds_the_table(self, origin: Origin, tmp_path: Path) -> None:
        """Once, with its columns or with its documents, and so does a second crawl."""
        origin.put({1: "a", 2: None})
        _, name, table = self.declared(origin, "full", str(tmp_path))
        wanted = table.entity or name.table
        found: list[tuple[str, str]] = []
        for _ in range(2):
            entities = [
                (one, list(one.documents()) if one.documents else ())
                for one in self.crawled(origin, tmp_path)
            ]
            ((own, documents),) = [pair for pair in entities if wanted in (pair[0].name, *pair[0].also)]
            assert len({one.name for one, _ in entities}) == len(entities)
            assert own.kind in get_args(EntityKind)
            names = {column.name for column in own.entity.columns}
            known = not names or {"id", "name"} <= names  # a source without a catalog knows none
            assert len(documents) == 2 if own.documents else known
            found.append((own.name, own.id))
        assert found[0] == found[1]

    def test_a_crawl_that_is_ended_ends(self, origin: Origin, tmp_path: Path) -> None:
        """Closed after the first entity, and before it was asked at all."""
        origin.put({1: "a"})
        crawl = self.crawled(origin, tmp_path)
        assert next(crawl).name
        crawl.close()
        self.crawled(origin, tmp_path).close()

    def test_a_crawl_with_wrong_credentials_is_terminal(self, origin: Origin, tmp_path: Path) -> None:
        """They are tried once, and the fault does not repeat them."""
        origin.put({1: "a"})
        crawl = self.crawled(origin, tmp_path, password=self.wrong)
        with pytest.raises(TerminalFault) as told:
            next(crawl)
        assert self.wrong not in f"{told.value} {told.value.remedy} {told.value.__cause__}"

    def test_a_full_pull_holds_every_row(self, origin: Origin, tmp_path: Path) -> None:
        """Those of now, and no others."""
        odd: Rows = {7: None, 8: "", 9: "é ' \" \\ \n"}
        rows: Rows = {n: f"name {n}" for n in range(300)}
        origin.put(rows | odd)
        origin.remove(3)
        del rows[3]
        assert self.pulled(origin, "full", tmp_path) == rows | odd
        origin.remove(*range(200))
        assert self.pulled(origin, "full", tmp_path) == {n: f"name {n}" for n in range(200, 300)}

    def test_an_empty_table_is_a_pull_without_rows(self, origin: Origin, tmp_path: Path) -> None:
        """It lands, so that the guards of extracts decide about it."""
        assert self.pulled(origin, "full", tmp_path) == {}

    def test_windows_hold_each_change(self, origin: Origin, tmp_path: Path, modes: frozenset[Mode]) -> None:
        """Each row is in a window; one that changes again is in a later one too."""
        if "incremental" not in modes:
            pytest.skip("it has no windows")
        found: Rows = {}
        changes: tuple[Rows, ...] = ({1: "a", 2: "b"}, {2: "c"}, {}, {3: "d"})
        for rows in changes:
            origin.put(rows)
            origin.settle()
            found |= self.pulled(origin, "incremental", tmp_path) or {}
        assert found == {1: "a", 2: "c", 3: "d"}
        sealed = self.pulls(origin, "incremental", tmp_path).sealed.all()
        assert [m.number for m in sealed] == list(range(1, len(sealed) + 1))
        assert sealed[0].from_ is None
        for before, after in pairwise(sealed):
            assert str(after.from_) <= str(before.to) < str(after.to)

    def test_facts_fit_into_a_manifest(self, origin: Origin, tmp_path: Path) -> None:
        """Window, identity and position are texts, and none is a secret."""
        origin.put({1: "a"})
        source = self.opened(origin, "full", str(tmp_path))
        try:
            pull = source.plan(Since(mode="full", number=0, to=None))
        finally:
            source.close()
        assert pull is not None
        assert pull.to is not None
        text = json.dumps([pull.to, dict(pull.identity), pull.position])
        assert self.wrong not in text

    def test_what_was_read_in_part_is_read_again(self, origin: Origin, tmp_path: Path) -> None:
        """A killed pull has landed something that no manifest names; the next one is whole."""
        origin.put(dict.fromkeys(range(50), "x"))
        killed = self.opened(origin, "full", str(tmp_path))
        pull = killed.plan(Since(mode="full", number=0, to=None))
        assert pull is not None
        next(iter(killed.read(pull, None)))
        killed.close()
        assert self.pulled(origin, "full", tmp_path) == dict.fromkeys(range(50), "x")

    def test_it_goes_on_after_a_state(self, origin: Origin, tmp_path: Path) -> None:
        """What came up to a state and what comes after it is the whole, once."""
        source = self.opened(origin, "full", str(tmp_path))
        if not source.capabilities.resumes:
            pytest.skip("it cannot go on")
        origin.put(dict.fromkeys(range(5000), "x"))
        pull = source.plan(Since(mode="full", number=0, to=None))
        assert pull is not None
        first = next(iter(source.read(pull, None)))
        assert first.state is not None
        source.close()
        again = self.opened(origin, "full", str(tmp_path))
        state = json.loads(json.dumps(dict(first.state)))
        rest = [_ids(chunk) for chunk in again.read(pull, state)]
        again.close()
        assert sorted([*_ids(first), *chain.from_iterable(rest)]) == list(range(5000))

    def test_wrong_credentials_are_terminal(self, origin: Origin, tmp_path: Path) -> None:
        """They are tried once, and the fault does not repeat them."""
        source = self.opened(origin, "full", str(tmp_path), password=self.wrong)
        with pytest.raises(TerminalFault) as told:
            source.plan(Since(mode="full", number=0, to=None))
        source.close()
        assert self.wrong not in f"{told.value} {told.value.remedy} {told.value.__cause__}"

    def test_closing_twice_is_closing(self, origin: Origin, tmp_path: Path) -> None:
        """Also before anything was asked."""
        source = self.opened(origin, "full", str(tmp_path))
        source.close()
        source.close()

    def test_a_closed_read_ends(self, origin: Origin, tmp_path: Path) -> None:
        """Another thread ends a read by closing: it raises a fault or is at its end, and does not hang."""
        origin.put(dict.fromkeys(range(2000), "x" * 100))
        source = self.opened(origin, "full", str(tmp_path))
        pull = source.plan(Since(mode="full", number=0, to=None))
        assert pull is not None
        reading = iter(source.read(pull, None))
        next(reading)
        source.close()
        try:
            for _ in reading:
                pass
        except SourceFault as fault:
            assert fault.reason  # noqa: PT017 - either end will do

    def test_a_table_made_anew_is_another_one(self, origin: Origin, tmp_path: Path) -> None:
        """Its identity says so, where the source can tell."""

        def identity() -> Mapping[str, str]:
            source = self.opened(origin, "full", str(tmp_path))
            pull = source.plan(Since(mode="full", number=0, to=None))
            source.close()
            assert pull is not None
            return pull.identity

        before = identity()
        assert identity() == before
        if not origin.make_anew():
            pytest.skip("it does not tell such a table apart")
        assert identity() != before

    def test_of_two_pullers_one_wins(self, origin: Origin, tmp_path: Path) -> None:
        """Both land, one seals; what the other has landed is gone."""
        origin.put({1: "a"})
        one, other = (self.pulls(origin, "full", tmp_path) for _ in range(2))
        for puller in (one, other):
            puller.land()
        assert one.seal() is not None
        assert other.seal() is None
        for puller in (one, other):
            puller.release()
        assert len(one.sealed.all()) == 1
        assert len([f for f in tmp_path.rglob("pull=*/*") if f.is_file()]) == 1


def _landed(path: Path) -> Sequence[Mapping[str, Any]]:
    """The rows of a landed file."""
    if path.suffix == ".json":
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path, partitioning=None).to_pylist()
    return rows


def _ids(chunk: Chunk) -> list[int]:
    if isinstance(chunk.rows, list | tuple):
        return [json.loads(line)["id"] for line in chunk.rows]
    found: list[int] = in_storage_types(chunk.rows)["id"].to_pylist()
    return found
