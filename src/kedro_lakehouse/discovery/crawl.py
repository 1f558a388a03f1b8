"""Crawl a source: all that it holds, or its declared tables as its catalog describes them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from kedro_lakehouse.config.documents import DocumentRules, path_text
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.discovery.crawled import SOURCE, Crawled, explained
from kedro_lakehouse.discovery.described import crawled_entity, crawled_table
from kedro_lakehouse.discovery.found import FoundDataset, identifier_of
from kedro_lakehouse.discovery.look import with_own_names
from kedro_lakehouse.plugins import SOURCES, load_plugin
from kedro_lakehouse.pulls.errors import SourceFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kedro_lakehouse.config.documents import Path
    from kedro_lakehouse.config.pulled import PulledSourceConfig
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.pulls.protocol import CrawledEntity, CrawledSource


@dataclass(frozen=True, kw_only=True)
class _Source:
    """A source that is crawled: its name, its declaration, and its declared tables by name."""

    name: str
    config: PulledSourceConfig
    declared: Mapping[str, TableConfig]

    @property
    def named(self) -> Mapping[str, str]:
        """The names of the declared tables, by their entities."""
        return {table.entity or name.partition(".")[2]: name for name, table in self.declared.items()}

    def entity_of(self, found: CrawledEntity) -> str:
        """The name of what was found, as a declared table names it, or could."""
        return next((name for name in (found.name, *found.also) if name in self.named), found.name)

    def name_of(self, entity: str) -> str:
        """The name of the table that is declared for an entity, or could be."""
        return self.named.get(entity) or f"{identifier_of([self.name])}.{identifier_of([entity])}"

    def table_of(self, entity: str) -> TableConfig:
        """The declaration of an entity's table; where there is none, one without keys."""
        declared = self.declared.get(self.name_of(entity))
        return declared or TableConfig(source=self.name, entity=entity, write="replace")


def crawl_source(project: Project, source: str, config: PulledSourceConfig, *, whole: bool) -> list[Crawled]:
    """Look at all that a source holds; or, if its type does not tell, at its declared tables.

    Args:
        source: The source's name.
        whole: Whether all of each entity is looked at, where its type would take a sample.

    Raises:
        SourceUnreachableError: It does not answer.
        SourceRefusedError: The credentials, the rights or the declaration are wrong.
    """
    kind: Any = load_plugin(SOURCES, config.type)
    names = project.tables_of_source(source)
    if not kind.capabilities.crawls:
        return [crawled_table(source, project.bind(name)) for name in names]
    crawled = _Source(
        name=source,
        config=config,
        declared={str(name): project.declarations.tables[name] for name in names},
    )
    secrets = project.credentials(config.credentials) if config.credentials else {}
    return _with_own_names(_found(crawled, cast("type[CrawledSource]", kind), secrets, whole=whole))


def _found(
    source: _Source, kind: type[CrawledSource], secrets: Mapping[str, Any], *, whole: bool
) -> list[Crawled]:
    place = source.config.place_of(TableConfig(source=source.name, write="replace"))
    try:
        with closing(kind.crawl(source.config, secrets, whole=whole)) as entities:
            return [_crawled(source, one) for one in entities]
    except SourceFault as fault:
        raise explained(fault, f"{source.name}.*", place.rstrip("/")) from fault


def _with_own_names(found: list[Crawled]) -> list[Crawled]:
    """The same, so that no two have one name."""
    named = {(d.location, d.kind): d.name for d in with_own_names([one.dataset for one in found])}
    return [
        replace(one, dataset=one.dataset.named(named[one.dataset.location, one.dataset.kind]))
        for one in found
    ]


def _crawled(source: _Source, one: CrawledEntity) -> Crawled:
    one = replace(one, name=source.entity_of(one))
    place = source.config.place_of(source.table_of(one.name))
    if one.documents is None:
        found = crawled_entity(source.name, source.name_of(one.name), one.name, place, one.entity)
        return replace(found, dataset=replace(found.dataset, kind=one.kind, identity=one.id))
    return _crawled_documents(source, one, one.documents(), place)


def _crawled_documents(
    source: _Source, one: CrawledEntity, documents: Iterable[bytes], place: str
) -> Crawled:
    from kedro_lakehouse.decoders.bson.kinds import kinds_of
    from kedro_lakehouse.discovery.documents import columns_in, fields_in, maps_in, with_maps
    from kedro_lakehouse.discovery.propose_documents import FoundDocuments, comments_on, table_of

    rules = source.config.documents_of(source.table_of(one.name)) or DocumentRules()
    kinds = kinds_of(documents)
    maps = rules.maps | {path for path in maps_in(kinds) if not _within(path, rules.maps)}
    kinds, rules = with_maps(kinds, maps), replace(rules, maps=maps)
    fields = fields_in(kinds, rules)
    dataset = FoundDataset(
        name=source.name_of(one.name),
        kind=one.kind,
        location=place,
        columns=columns_in(fields),
        identity=one.id,
        mark="",
        rows=one.entity.rows,
        rows_exact=False,
        read=kinds.counts["struct"],
        options={SOURCE: source.name, "fields": {field.path: dict(field.kinds) for field in fields}},
    )
    texts = sorted(map(path_text, maps))
    made_of = FoundDocuments(dataset=dataset, entity=one.name, kinds=kinds, fields=fields, maps=texts)
    undeclared = TableConfig(source=source.name, entity=one.name, write="replace")
    return Crawled(
        dataset=dataset,
        entity=one.name,
        fields=fields,
        maps=texts,
        proposed=table_of(source.name, source.config.documents_of(undeclared), made_of),
        comments=list(comments_on(made_of)),
    )


def _within(path: Path, maps: Iterable[Path]) -> bool:
    return any(path[: len(outer)] == outer for outer in maps)
