"""``kedro lakehouse crawl``: what a database of documents holds, and declarations for it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.config.mongodb import MongoSourceConfig
    from kedro_lakehouse.discovery.changes import Change
    from kedro_lakehouse.discovery.crawl import Crawled
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("source")
@click.option("--all", "whole", is_flag=True, help="Look at all documents, not at a sample.")
@no_roles("What databases hold is shown to no role:")
@project_options
def crawl(*, source: str, whole: bool, as_json: bool) -> None:
    """Look at every collection and view of SOURCE, and propose tables.

    What is printed is a tables.yml. Its comments say which fields have values of several kinds, which are
    missing in how many documents, and which have data for names, such as codes, so that they should be maps;
    with --json it is said of every field. What was found is recorded: a second crawl reports the fields and
    collections that came, changed or went since, and `kedro lakehouse discovered` shows all versions.
    """
    from kedro_lakehouse.discovery.crawl import compare_crawls
    from kedro_lakehouse.discovery.propose_documents import proposed_tables
    from kedro_lakehouse.discovery.versions import newest_versions, record_versions

    project = open_project()
    config = _config_of(project, source)
    found = _found(project, source, config, whole=whole)
    comparison = compare_crawls(source, found, newest_versions(project.ops))
    record_versions(project.ops, comparison.versions, project.run_id)
    if as_json:
        print_json(_as_json(source, config, found, comparison.changes))
        return
    for change in comparison.changes:
        click.echo(f"# Changed: {change.table}: {change.words}")
    click.echo(proposed_tables(source, config, found), nl=False)


def _config_of(project: Project, source: str) -> MongoSourceConfig:
    """The declaration of a source that can be crawled.

    Raises:
        UnknownNameError: There is no such source, or it is of another type.
    """
    from kedro_lakehouse.config.mongodb import MongoSourceConfig
    from kedro_lakehouse.errors import UnknownNameError

    declared = project.declarations.sources
    config = declared.get(source)
    if not isinstance(config, MongoSourceConfig):
        raise UnknownNameError(
            option="SOURCE", kind="source of type mongodb", name=source,
            known=sorted(n for n, c in declared.items() if isinstance(c, MongoSourceConfig)),
            remedy="Declare it in sources.yml.",
        )  # fmt: skip
    return config


def _found(project: Project, source: str, config: MongoSourceConfig, *, whole: bool) -> list[Crawled]:
    from kedro_lakehouse.discovery.crawl import crawl_database

    tables = {str(n): t for n, t in project.declarations.tables.items() if t.source == source}
    secrets = project.credentials(config.credentials) if config.credentials else {}
    return crawl_database(source, config, secrets, tables, sample=0 if whole else config.sample)


def _as_json(
    source: str, config: MongoSourceConfig, found: Sequence[Crawled], changes: Sequence[Change]
) -> dict[str, Any]:
    from kedro_lakehouse.discovery.propose_documents import table_of

    return {
        "source": source,
        "collections": [
            {
                "name": one.dataset.name,
                "entity": one.entity,
                "kind": one.dataset.kind,
                "documents": one.dataset.rows,
                "looked_at": one.dataset.read,
                "fields": [asdict(field) for field in one.fields],
                "maps": list(one.maps),
                "proposed": table_of(source, config, one),
            }
            for one in found
        ],
        "changes": [asdict(change) | {"words": change.words} for change in changes],
    }
