"""Entries of credentials.yml that declarations name and the environment lacks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import ConfigurationError, LakehouseError, did_you_mean
from kedro_lakehouse.lake_table import erasure_key
from kedro_lakehouse.preview.mistakes import Mistake, at, of_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kedro_lakehouse.project import Project


def missing_credentials(project: Project) -> list[Mistake]:
    """A mistake for each name that is no entry with keys; nothing where secrets of AWS may hold it."""
    if project.secrets is not None:
        return []
    known, found = project.credential_names, list[Mistake]()
    for file, key, name in _named(project):
        if name not in known:
            problem = f"credentials.yml has no entry '{name}' with keys below it.{did_you_mean(name, known)}"
            found.append(at(project, file, key, problem, "Write it into conf/local/credentials.yml."))
    return [*found, *_without_erasure_key(project)]


def _named(project: Project) -> Iterator[tuple[str, str, str]]:
    """The file, the key and the name of each entry that a declaration wants."""
    for source, config in project.declarations.sources.items():
        if name := getattr(config, "credentials", None):
            yield "sources.yml", f"{source}.credentials", name
    for notifier, one in (project.monitoring.notifiers if project.monitoring else {}).items():
        if name := getattr(one, "credentials", None):
            yield "monitoring.yml", f"notifiers.{notifier}.credentials", name
    for registry, name in project.registry_credentials().items():
        yield "registries.yml", f"{registry}.credentials", name
    with suppress(ConfigurationError):  # what is wrong in the file is told anyway
        for number, place in enumerate(project.discovery.places):
            if place.credentials:
                yield "discovery.yml", f"places[{number}].credentials", place.credentials


def _without_erasure_key(project: Project) -> Iterator[Mistake]:
    """The key by which erased persons are hashed: a table of requests needs it."""
    asking = [name for name, table in project.declarations.tables.items() if table.erasure_requests]
    if not asking:
        return
    key = f"{asking[0]}.erasure_requests"
    try:
        erasure_key(project)
    except ConfigurationError as error:
        yield at(project, "tables.yml", key, f"{error.file}: {error.key}: {error.problem}", error.remedy)
    except LakehouseError as error:
        yield of_error(project, error, "tables.yml", key)
