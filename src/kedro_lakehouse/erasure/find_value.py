"""Find the files that hold a value: all below a project's lakehouse, landing folders and archives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kedro_lakehouse.file_search.search import SearchReport, search_files
from kedro_lakehouse.project import project_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.file_search.wanted import Wanted
    from kedro_lakehouse.project import Project


def find_value(project: Project, wanted: Wanted, places: Sequence[str] = ()) -> SearchReport:
    """Search every file of a project for values; ``places`` are searched instead, where some are given.

    Starts no JVM. The values are written nowhere.
    """
    return search_files(map(project_path, places) if places else places_of(project), wanted)


def places_of(project: Project) -> list[str]:
    """The folders where a project keeps data: lakehouse, logs, landing, archives, and its folder ``data``."""
    declared = project.declarations
    places = [project.lakehouse, project.logs]
    # A stream lies in no folder, but its raw copy does.
    places += [
        folder
        for source in declared.sources.values()
        for folder in (getattr(source, "path", ""), getattr(source, "raw", None))
        if folder
    ]
    archives = {project.maintenance.of(name).landing.archive for name in declared.tables}
    places += [archive for archive in archives if archive]
    own = project_path("data")
    return [*places, own] if Path(own).is_dir() else places
