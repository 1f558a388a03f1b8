"""Blocks for data that somebody names: a file, a folder, or what a catalog holds, as discovery proposes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.discovery.found import identifier_of
from kedro_lakehouse.discovery.look import look_over
from kedro_lakehouse.discovery.propose import Proposal, block_text, commented, propose, with_full_loads
from kedro_lakehouse.discovery.tree import ending_of
from kedro_lakehouse.errors import SourceNotFoundError, SourceRefusedError, UnreadableFileError
from kedro_lakehouse.names import OPS_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.config.pulled import PulledSourceConfig
    from kedro_lakehouse.discovery.found import FoundDataset
    from kedro_lakehouse.project import Project

_BELOW: Final = "<below>"
"""Where the path below a folder stands in the text for that folder; without it, behind that text."""


@dataclass(frozen=True)
class Additions:
    """What would be added to sources.yml and tables.yml, by name, and what cannot be.

    ``reused`` are sources that are declared already as they would have been proposed.
    """

    sources: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[Proposal, ...] = ()
    left: tuple[Proposal, ...] = ()
    reused: tuple[str, ...] = ()

    def only(self, tables: Sequence[Proposal]) -> Additions:
        """The same for these tables alone, with their sources."""
        used = {table["source"] for one in tables for table in one.tables.values()}
        kept = {name: block for name, block in self.sources.items() if name in used}
        reused = tuple(name for name in self.reused if name in used)
        return replace(self, sources=kept, tables=tuple(tables), reused=reused)

    @property
    def sources_text(self) -> str:
        """The blocks of sources.yml; empty if there are none."""
        return "\n".join(block_text({name: block}) for name, block in self.sources.items())

    @property
    def tables_text(self) -> str:
        """The blocks of tables.yml, each below its comments."""
        return "\n".join(commented(one.comments, one.name, dict(one.tables)) for one in self.tables)


def look_at(path: str, *, namespace: str = "", sample_rows: int = 100_000) -> list[FoundDataset]:
    """The datasets of a file or folder, with names of their own: ``<namespace>.<table>``.

    The namespace is the name of the folder that holds the table's files, or holds the tables.

    Raises:
        SourceNotFoundError: There is nothing, or nothing that is known.
        UnreadableFileError: The file is not what its name says.
    """
    from kedro_lakehouse.config.discovery import PlaceConfig

    left: list[tuple[str, str]] = []
    found = look_over([PlaceConfig(path=path, sample_rows=sample_rows)], left_alone=left)
    if not found:
        if left:
            file, reason = left[0]
            raise UnreadableFileError(table="", file=file, detail=reason, landed=False)
        remedy = "Name a file or a folder of csv, JSON or parquet"
        raise SourceNotFoundError(table="(new)", path=path, remedy=remedy)
    whole = len(found) == 1 and found[0].location.rstrip("/") == path.rstrip("/")
    if whole:
        found = [_of_folder(found[0])]
    place = PurePosixPath(path.partition("://")[2] or path)
    inner = namespace or space_of(place.parent.name if whole or _is_file(found, path) else place.name)
    return [one.named(f"{inner}.{one.name.partition('.')[2]}") for one in found]


def _of_folder(found: FoundDataset) -> FoundDataset:
    """The only dataset of a folder has the folder's name, and all files of its kind."""
    table = identifier_of([PurePosixPath(found.location).name])
    pattern = f"*{ending_of(found.pattern)}" if found.pattern and found.files == 1 else found.pattern
    return replace(found, name=f"found.{table}", pattern=pattern)


def _is_file(found: Sequence[FoundDataset], path: str) -> bool:
    return len(found) == 1 and path.rstrip("/") == f"{found[0].location.rstrip('/')}/{found[0].pattern}"


def space_of(folder: str) -> str:
    """A namespace after a folder; the project's own is none.

    Example:
        >>> space_of("01_raw"), space_of("ops")
        ('raw', 'ops_data')
    """
    name = identifier_of([folder])
    return f"{name}_data" if name == OPS_NAMESPACE else name


def additions_for(
    found: Sequence[FoundDataset], declared: Mapping[str, Any], places: Mapping[str, str]
) -> Additions:
    """The blocks for datasets; those whose sources are alike share one.

    Args:
        found: What was found, under the names that the tables get.
        declared: The sources that are declared, with their paths resolved, by name.
        places: Folders with the text that stands for each in YAML, such as ``${globals:landing}``.
    """
    proposals = [propose(one) for one in with_full_loads(found)]
    able = [p for p in proposals if p.tables]
    names: dict[str, str] = {}
    sources: dict[str, Any] = {}
    reused = list[str]()
    blocks = {repr(block): block for p in able for block in p.sources.values()}
    for text, block in blocks.items():
        users = [p for p in able if block in p.sources.values()]
        known = next((name for name, one in declared.items() if one == block), None)
        names[text] = known or _free(_label(users), {*declared, *sources})
        if known:
            reused.append(known)
        else:
            sources[names[text]] = {**block, "path": _text_of(str(block["path"]), places)}
    tables = tuple(_told_by_places(_with_source(p, names), places) for p in able)
    return Additions(sources, tables, tuple(p for p in proposals if not p.tables), tuple(reused))


def _label(users: Sequence[Proposal]) -> str:
    return users[0].name.replace(".", "_") if len(users) == 1 else users[0].name.partition(".")[0]


def _free(name: str, taken: set[str]) -> str:
    numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


def _told_by_places(proposal: Proposal, places: Mapping[str, str]) -> Proposal:
    """A proposal whose comments name no folder of this machine that has a name of its own."""
    comments = proposal.comments
    for text, folder in sorted(places.items(), key=lambda one: -len(one[1])):
        short = "" if _BELOW in text else f"{text}/"
        comments = tuple(line.replace(f"{folder.rstrip('/')}/", short) for line in comments)
    return replace(proposal, comments=comments)


def _text_of(path: str, places: Mapping[str, str]) -> str:
    for text, folder in sorted(places.items(), key=lambda one: -len(one[1])):
        root = folder.rstrip("/")
        if path == root or path.startswith(f"{root}/"):
            below = path.removeprefix(root).lstrip("/")
            return text.replace(_BELOW, below) if _BELOW in text else f"{text}/{below}".rstrip("/")
    return path


def _with_source(proposal: Proposal, names: Mapping[str, str]) -> Proposal:
    (block,) = proposal.sources.values()
    tables = {name: {**table, "source": names[repr(block)]} for name, table in proposal.tables.items()}
    return replace(proposal, tables=tables, sources={})


def described_table(
    project: Project, source: str, config: PulledSourceConfig, entity: str, *, name: str | None
) -> Additions:
    """The block for an entity of a declared source, by what the source's own catalog says of it.

    Raises:
        SourceUnreachableError: It does not answer.
        SourceRefusedError: There is no such entity, or it may not be read.
    """
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.discovery.described import crawled_table
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import TableName

    table = TableName.parse(name or f"{identifier_of([source])}.{identifier_of([entity])}")
    asked = TableConfig(source=source, entity=entity, write="replace")
    bound = LakeTable(
        name=table, environment=project, bind=project.bind, declared=asked,
        declared_source=config,
    )  # fmt: skip
    found = crawled_table(source, bound)
    if not found.dataset.columns:
        raise SourceRefusedError(
            table=str(table),
            place=found.dataset.location,
            reason=f"it has no '{entity}'",
            remedy="Correct it",
        )
    block, mode = dict(found.proposed), config.mode
    if mode == "snapshot":
        block = {"source": source, "entity": entity, "write": "append"}
    elif mode == "incremental":  # which column tells a row's last change, no catalog says
        block |= {"pull": {"mode": "full"}}
    types = ", ".join(f"{c.name} {c.type}" for c in found.dataset.columns)
    keys = "; ".join(", ".join(key) for key in found.dataset.keys)
    comments = (
        f"{entity} of {source}: {types}",
        f"Key: {keys} (the source says so)" if keys else "Key: the source names none",
    )
    proposal = Proposal(str(table), tables={str(table): block}, comments=comments)
    return Additions(tables=(proposal,), reused=(source,))
