"""``kedro lakehouse crawl``: what a source holds, and declarations for it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.discovery.changes import Change
    from kedro_lakehouse.discovery.crawled import Crawled
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("source")
@click.option("--all", "whole", is_flag=True, help="Look at all documents, not at a sample.")
@no_roles("What databases hold is shown to no role:")
@project_options
def crawl(*, source: str, whole: bool, as_json: bool) -> None:
    """Look at what SOURCE holds, and propose tables: every table, collection and view that can be read.

    So it is with databases of SQL, MongoDB, and any type of source that tells all that it holds. Of others,
    such as SAP, these are the declared tables, as it describes them. What is printed is a tables.yml. Of
    MongoDB, its comments say which fields have values of several kinds, which are missing in how many
    documents, and which have data for names, such as codes, so that they should be maps; with --json it is
    said of every field. What was found is recorded: a second crawl reports the fields, tables and
    collections that came, changed or went since, and `kedro lakehouse discovered` shows all versions.
    """
    from kedro_lakehouse.discovery.crawled import compare_crawls, proposed_tables
    from kedro_lakehouse.discovery.versions import newest_versions, record_versions

    project = open_project()
    found = _found(project, source, whole=whole)
    comparison = compare_crawls(source, found, newest_versions(project.ops))
    record_versions(project.ops, comparison.versions, project.run_id)
    if as_json:
        print_json(_as_json(source, found, comparison.changes))
        return
    for change in comparison.changes:
        click.echo(f"# Changed: {change.table}: {change.words}")
    click.echo(proposed_tables(source, found), nl=False)


def _found(project: Project, source: str, *, whole: bool) -> list[Crawled]:
    """What is there now: all that the source tells, or its declared tables.

    Raises:
        UnknownNameError: There is no such source, or it is not asked for its records.
    """
    from kedro_lakehouse.config.pulled import PulledSourceConfig
    from kedro_lakehouse.discovery.crawl import crawl_source
    from kedro_lakehouse.errors import UnknownNameError

    config = project.declarations.sources.get(source)
    if isinstance(config, PulledSourceConfig):
        return crawl_source(project, source, config, whole=whole)
    declared = project.declarations.sources.items()
    raise UnknownNameError(
        option="SOURCE", kind="source that is asked for its records", name=source,
        known=sorted(name for name, one in declared if isinstance(one, PulledSourceConfig)),
        remedy="Declare it in sources.yml.",
    )  # fmt: skip


def _as_json(source: str, found: Sequence[Crawled], changes: Sequence[Change]) -> dict[str, Any]:
    return {
        "source": source,
        "collections": [
            {
                "name": one.dataset.name,
                "entity": one.entity,
                "kind": one.dataset.kind,
                "rows": one.dataset.rows,
                "looked_at": one.dataset.read,
                "fields": [asdict(field) for field in one.fields],
                "maps": list(one.maps),
                "proposed": dict(one.proposed),
            }
            for one in found
        ],
        "changes": [asdict(change) | {"words": change.words} for change in changes],
    }
