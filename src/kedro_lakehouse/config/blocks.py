"""Blocks of YAML that are added to a file; what stands in the file stays as it is, comments too."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import yaml

from kedro_lakehouse.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def with_blocks(text: str, blocks: str, *, file: str) -> str:
    """The text of a YAML file with blocks at its end.

    Args:
        text: What the file says; empty if it is not there.
        blocks: Names at the left margin with their keys below them, and comments.
        file: The file's name, for messages.

    Raises:
        ConfigurationError: The file is not one of names with keys, or has one of these names.
    """
    before, added = _mapping(text, file), _mapping(blocks, file)
    if taken := sorted(set(before) & set(added)):
        problem = f"the file has a block of that name: {taken[0]}."
        raise ConfigurationError(file=file, key=taken[0], problem=problem, remedy="Choose another name.")
    end = "\r\n" if "\r\n" in text else "\n"
    kept = "" if not before and not _has_comments(text) else text
    if not before and kept:  # `{}` would be a second document's beginning
        kept = "".join(line for line in kept.splitlines(keepends=True) if line.strip() != "{}")
    if kept and not kept.endswith("\n"):
        kept += end
    made = kept + (end if kept.strip() else "") + blocks.replace("\n", end)
    if _mapping(made, file) != before | added:
        problem = "blocks cannot be added at its end: it is written in braces, or ends in another document."
        raise ConfigurationError(
            file=file, key=next(iter(added), ""), problem=problem, remedy="Write a name on each line."
        )
    return made


def _mapping(text: str, file: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return {"": text}  # never equal to what is wanted
    if found is None:
        return {}
    if not isinstance(found, dict):
        problem, remedy = "it does not hold names with keys.", "Write a name on each line."
        raise ConfigurationError(file=file, key="", problem=problem, remedy=remedy)
    return found


def _has_comments(text: str) -> bool:
    return any(line.lstrip().startswith("#") for line in text.splitlines())


@contextlib.contextmanager
def added_to(files: Mapping[Path, str]) -> Iterator[None]:
    """Add blocks to files, each made if it is not there; if the body fails, all are as they were.

    Raises:
        ConfigurationError: Blocks cannot be added to a file; none is changed.
    """
    before = {path: path.read_bytes() if path.exists() else None for path in files}
    made = {
        path: with_blocks((before[path] or b"").decode("utf-8"), blocks, file=path.name)
        for path, blocks in files.items()
    }
    try:
        for path, text in made.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
        yield
    except BaseException:
        for path, content in before.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)
        raise
