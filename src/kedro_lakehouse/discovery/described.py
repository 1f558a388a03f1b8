"""Crawl the declared tables of a source by what its own catalog says of each: columns, types and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.discovery.crawled import SOURCE, Crawled, explained
from kedro_lakehouse.discovery.documents import FoundField
from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset
from kedro_lakehouse.pulls.errors import SourceFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.lake_table import LakeTable

DESCRIBED: Final = "table"
"""The kind of what the catalog of a database describes."""


def crawl_tables(source: str, tables: Sequence[LakeTable]) -> list[Crawled]:
    """Ask a source what its declared tables are now; types are named as the source names them.

    Raises:
        SourceUnreachableError: It does not answer.
        SourceRefusedError: There is no such table, or it may not be read.
    """
    return [_described(source, table) for table in tables]


def _described(source: str, table: LakeTable) -> Crawled:
    pulled = table.open_pulled()
    place = table.source_config.place_of(table.config)
    try:
        entity = pulled.describe()
    except SourceFault as fault:
        raise explained(fault, str(table), place) from fault
    finally:
        pulled.close()
    types = {one.name: one.type + ("" if one.nullable else " not null") for one in entity.columns}
    dataset = FoundDataset(
        name=str(table),
        kind=DESCRIBED,
        location=place,
        columns=tuple(FoundColumn(name=name, type=kind) for name, kind in types.items()),
        identity="",
        mark="",
        rows=entity.rows,
        rows_exact=False,
        keys=(entity.keys,) if entity.keys else (),
        options={SOURCE: source},
    )
    fields = [FoundField(path=n, type=t, kinds={}, missing=0, mixed=False) for n, t in types.items()]
    proposed: dict[str, Any] = {"keys": list(entity.keys)} if entity.keys else {"write": "replace"}
    block = {"source": source, "entity": table.config.entity} | proposed
    return Crawled(dataset=dataset, entity=table.config.entity, fields=fields, maps=(), proposed=block)
