"""One mistake in the configuration, as `kedro lakehouse check` lists it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import ConfigurationError

if TYPE_CHECKING:
    from kedro_lakehouse.errors import LakehouseError
    from kedro_lakehouse.project import Project


@dataclass(frozen=True, kw_only=True, order=True)
class Mistake:
    """What is wrong in which line, and what to do; line 0 where it is a whole file, or one that lacks."""

    file: str
    line: int
    key: str
    problem: str
    remedy: str
    code: str = ConfigurationError.code


def at(  # noqa: PLR0913 - what a mistake consists of
    project: Project, file: str, key: str, problem: str, remedy: str, *, below: int = 0
) -> Mistake:
    """A mistake of a key of a file; ``below`` is the line within the key's text, from 1 on."""
    path, line = project.find(file, key, below=below)
    return Mistake(file=path, line=line, key=key, problem=problem, remedy=remedy)


def of_error(project: Project, error: LakehouseError, file: str, key: str) -> Mistake:
    """An error that a run would raise, as a mistake of the key that leads to it."""
    if isinstance(error, ConfigurationError):
        return placed(project, error)
    path, line = project.find(file, key)
    problem, remedy = error.sentences()
    return Mistake(file=path, line=line, key=key, problem=problem, remedy=remedy, code=error.code)


def placed(project: Project, error: ConfigurationError) -> Mistake:
    """A mistake that was found while the files were read; its place is known there, or is looked for."""
    path, _, line = error.place.rpartition(", line ")
    found = (path, int(line)) if path else (error.place, 0) if error.place else None
    file, number = found or project.find(error.file, error.key)
    return Mistake(file=file, line=number, key=error.key, problem=error.problem, remedy=error.remedy)
