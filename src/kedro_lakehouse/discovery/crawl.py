"""Crawl a database of documents: its collections and views as they are, and what of them changed."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.config.documents import DocumentRules, path_text
from kedro_lakehouse.decoders.bson.kinds import kinds_of
from kedro_lakehouse.discovery.crawled import SOURCE, Crawled, explained
from kedro_lakehouse.discovery.documents import columns_in, fields_in, maps_in, with_maps
from kedro_lakehouse.discovery.found import CRAWLED, FoundDataset, identifier_of
from kedro_lakehouse.discovery.look import with_own_names
from kedro_lakehouse.discovery.propose_documents import FoundDocuments, comments_on, table_of
from kedro_lakehouse.pulls.errors import SourceFault
from kedro_lakehouse.pulls.mongodb.faults import faults
from kedro_lakehouse.pulls.mongodb.source import MongoDatabase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kedro_lakehouse.config.documents import Path
    from kedro_lakehouse.config.mongodb import MongoSourceConfig
    from kedro_lakehouse.config.tables import TableConfig


def crawl_database(
    source: str,
    config: MongoSourceConfig,
    credentials: Mapping[str, Any],
    declared: Mapping[str, TableConfig],
    *,
    sample: int,
) -> list[Crawled]:
    """Look at every collection and view of a database.

    Args:
        source: The source's name.
        credentials: The secrets of the connection.
        declared: The tables of this source, by name.
        sample: So many documents of each are looked at, half of them the oldest and half the newest by
            `_id`; 0: all.

    Raises:
        SourceUnreachableError: No server answers.
        SourceRefusedError: The credentials, the rights or the connection string are wrong.
    """
    database = MongoDatabase(config, credentials)
    names = {table.entity or name.partition(".")[2]: name for name, table in declared.items()}
    try:
        with faults():
            found = [
                _crawled(database, facts, source, config, names, declared, sample)
                for facts in sorted(database.collections(), key=lambda one: str(one["name"]))
            ]
    except SourceFault as fault:
        raise explained(fault, f"{source}.*", config.place_in("")) from fault
    finally:
        database.close()
    named = {(d.location, d.kind): d.name for d in with_own_names([one.dataset for one in found])}
    return [
        replace(one, dataset=one.dataset.named(named[one.dataset.location, one.dataset.kind]))
        for one in found
    ]


def _crawled(  # noqa: PLR0913, PLR0917 - a database, one of its collections, and what is declared
    database: MongoDatabase,
    facts: Mapping[str, Any],
    source: str,
    config: MongoSourceConfig,
    names: Mapping[str, str],
    declared: Mapping[str, TableConfig],
    sample: int,
) -> Crawled:
    entity, is_view = str(facts["name"]), facts["type"] == "view"
    name = names.get(entity) or f"{identifier_of([source])}.{identifier_of([entity])}"
    table = declared.get(name)
    rules = (config.documents_of(table) if table else None) or DocumentRules()
    raw = database.raw(entity)
    rows = None if is_view else int(raw.estimated_document_count())
    kinds = kinds_of(one.raw for one in _documents(raw, sample, rows))
    maps = rules.maps | {path for path in maps_in(kinds) if not _within(path, rules.maps)}
    kinds, rules = with_maps(kinds, maps), replace(rules, maps=maps)
    fields = fields_in(kinds, rules)
    made = facts.get("info", {}).get("uuid")
    dataset = FoundDataset(
        name=name,
        kind=CRAWLED[is_view],
        location=config.place_in(entity),
        columns=columns_in(fields),
        identity="" if is_view or made is None else bytes(made).hex(),
        mark="",
        rows=rows,
        rows_exact=False,
        read=kinds.counts["struct"],
        options={SOURCE: source, "fields": {field.path: dict(field.kinds) for field in fields}},
    )
    texts = sorted(map(path_text, maps))
    made_of = FoundDocuments(dataset=dataset, entity=entity, kinds=kinds, fields=fields, maps=texts)
    return Crawled(
        dataset=dataset,
        entity=entity,
        fields=fields,
        maps=texts,
        proposed=table_of(source, config, made_of),
        comments=list(comments_on(made_of)),
    )


def _within(path: Path, maps: Iterable[Path]) -> bool:
    return any(path[: len(outer)] == outer for outer in maps)


def _documents(collection: Any, sample: int, rows: int | None) -> Any:
    """Raw documents: all of them; or the oldest and the newest, so that a second crawl sees what it saw."""
    if not sample or (rows is not None and rows <= sample):
        return collection.find({})
    if rows is None:
        return collection.find({}, limit=sample)
    older, newer = sample - sample // 2, sample // 2
    first = collection.find({}, sort=[("_id", 1)], limit=older)
    return chain(first, collection.find({}, sort=[("_id", -1)], limit=newer)) if newer else first
