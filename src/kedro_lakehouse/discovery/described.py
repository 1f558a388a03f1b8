"""What a source's own catalog says of a table: columns, types and keys, and what they make of tables.yml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kedro_lakehouse.discovery.crawled import SOURCE, Crawled, explained
from kedro_lakehouse.discovery.documents import FoundField
from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset
from kedro_lakehouse.pulls.errors import SourceFault

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.pulls.protocol import Entity


def crawled_table(source: str, table: LakeTable) -> Crawled:
    """Ask a source what a declared table is now; types are named as the source names them.

    Raises:
        SourceUnreachableError: It does not answer.
        SourceRefusedError: There is no such table, or it may not be read.
    """
    pulled = table.open_pulled()
    place = table.source_config.place_of(table.config)
    try:
        entity = pulled.describe()
    except SourceFault as fault:
        raise explained(fault, str(table), place) from fault
    finally:
        pulled.close()
    return crawled_entity(source, str(table), table.config.entity, place, entity)


def crawled_entity(source: str, name: str, entity: str, place: str, said: Entity) -> Crawled:
    """What was found of an entity, by what the source's catalog has said of it.

    Args:
        name: The name of its table.
        entity: Its own name in the source.
    """
    types = {one.name: one.type + ("" if one.nullable else " not null") for one in said.columns}
    dataset = FoundDataset(
        name=name,
        kind="table",
        location=place,
        columns=tuple(FoundColumn(name=name, type=kind) for name, kind in types.items()),
        identity="",
        mark="",
        rows=said.rows,
        rows_exact=False,
        keys=(said.keys,) if said.keys else (),
        options={SOURCE: source},
    )
    fields = [FoundField(path=n, type=t, kinds={}, missing=0, mixed=False) for n, t in types.items()]
    proposed: dict[str, Any] = {"keys": list(said.keys)} if said.keys else {"write": "replace"}
    block = {"source": source, "entity": entity} | proposed
    return Crawled(dataset=dataset, entity=entity, fields=fields, maps=(), proposed=block)
