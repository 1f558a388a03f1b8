"""Rows, columns and size of the lake's tables, where kedro-viz looks for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.names import ROLES
from kedro_lakehouse.ops.glance import glance_of

if TYPE_CHECKING:
    from pathlib import Path

    from kedro_lakehouse.project import Project

_FILE: Final = ".viz/stats.json"


def write_viz_stats(project: Project, folder: Path) -> None:
    """Add the figures of every stored table to the file that kedro-viz keeps in the project's folder.

    kedro-viz measures pandas frames only, and writes the file anew after each run; where it is not installed
    there is no such file, and none is made. Only metadata is read.
    """
    file = folder / _FILE
    if not file.is_file():
        return
    stats = json.loads(file.read_text(encoding="utf-8") or "{}")
    for name in project.declarations.tables:
        for role in ROLES:
            found = glance_of(project, name, role)
            if found is not None:
                figures = {"rows": found.rows, "columns": found.columns, "file_size": found.size}
                stats[f"{name}.{role}"] = figures
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(stats), encoding="utf-8")
    fresh.replace(file)
