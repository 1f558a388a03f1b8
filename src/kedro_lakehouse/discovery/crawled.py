"""What a crawl of a source found, how it is compared with the crawl before, and declarations for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.discovery.changes import Comparison, compare
from kedro_lakehouse.discovery.found import CRAWLED, FoundDataset
from kedro_lakehouse.discovery.propose import commented, valid_yaml
from kedro_lakehouse.errors import InvalidNameError, SourceRefusedError, SourceUnreachableError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.errors import SourceFault, TransientFault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.discovery.changes import FoundVersion
    from kedro_lakehouse.discovery.documents import FoundField
    from kedro_lakehouse.errors import LakehouseError

SOURCE: Final = "source"
"""Option of what was found by a crawl: the source's name."""


@dataclass(frozen=True, kw_only=True)
class Crawled:
    """One collection, view or table, as a crawl found it.

    ``maps`` are the declared and the proposed ones, and the fields are those with all of them.
    ``proposed`` is its block of tables.yml, and ``comments`` say what that rests on.
    """

    dataset: FoundDataset
    entity: str
    fields: Sequence[FoundField]
    maps: Sequence[str]
    proposed: Mapping[str, Any] = field(default_factory=dict)
    comments: Sequence[str] = ()


def compare_crawls(source: str, found: Sequence[Crawled], known: Sequence[FoundVersion]) -> Comparison:
    """What changed since the last crawl of a source; a field within a new or dropped one is no change."""
    before = [
        one for one in known if one.dataset.kind in CRAWLED and one.dataset.options.get(SOURCE) == source
    ]
    return compare([one.dataset for one in found], before)


def proposed_tables(source: str, found: Sequence[Crawled]) -> str:
    """The text of tables.yml for all that was found; it is valid YAML."""
    head = f"# Proposed by `kedro lakehouse crawl {source}`: copy what you want into conf/base/tables.yml.\n"
    return valid_yaml("\n".join([head, *map(_block, found)]))


def _block(one: Crawled) -> str:
    try:
        name = str(TableName.parse(one.dataset.name))
    except InvalidNameError as error:
        said = [*one.comments, f"No name for a table: {error.sentences()[0]}"]
        return commented(said, one.dataset.name, {})
    return commented(one.comments, name, {name: dict(one.proposed)})


def explained(fault: SourceFault, table: str, place: str) -> LakehouseError:
    """The package's error for what a source says."""
    if isinstance(fault, TransientFault):
        return SourceUnreachableError(table=table, place=place, detail=fault.reason)
    return SourceRefusedError(table=table, place=place, reason=fault.reason, remedy=fault.remedy)
