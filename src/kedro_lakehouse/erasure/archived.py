"""Remove records of subjects from landed files in an archive, also within bundles of small files."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.erasure.landed import replace_file, replacing, without_subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kedro_lakehouse.file_search.wanted import Wanted
    from kedro_lakehouse.lake_table import LakeTable

_BUNDLES: Final = (".tar.gz", ".tar")


def erase_archived(
    table: LakeTable, archive: str | None, name: str, wanted: Wanted, *, leave: frozenset[str]
) -> list[str]:
    """Remove the records of a table's archived files that name subjects; return the files that were changed.

    What is said of ``erase_landed`` holds for these files too: put back, each is the one that the ledger
    knows. A bundle keeps its time, and the size and time of each file in it.

    Args:
        archive: The folder to which landed files are moved; files in an object store stay as they are.
        name: The column that names subjects.
    """
    root = table.source_config.path.removeprefix("file://").rstrip("/")
    folder = Path(archive or "", str(table.config.source))
    if archive is None or "://" in archive or "://" in root or not folder.is_dir():
        return []
    landing = f"{Path(root).absolute()}/"
    own = {
        file.path.removeprefix("file://").removeprefix(landing): file
        for file in table.open_ledger().planned_ever()
        if file.path not in leave
    }

    def without(place: str, content: bytes) -> bytes | None:
        file = own.get(place)
        return None if file is None else without_subjects(table, file, content, name, wanted)

    changed = []
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        place = str(path.relative_to(folder))
        if path.name.endswith(_BUNDLES):
            if _erase_bundled(path, without):
                changed.append(str(path))
        elif (made := without(place, path.read_bytes())) is not None:
            replace_file(path, made)
            changed.append(str(path))
    return changed


def _erase_bundled(path: Path, without: Callable[[str, bytes], bytes | None]) -> bool:
    """Write a bundle anew if any of its files names a subject; whether it was."""
    with tarfile.open(path) as bundle:
        made = {
            member.name: content
            for member in bundle
            if (inner := bundle.extractfile(member)) is not None
            and (content := without(member.name, inner.read())) is not None
        }
    if made:
        with replacing(path) as out:
            _copy(path, out, made)
    return bool(made)


def _copy(path: Path, out: Any, made: Mapping[str, bytes]) -> None:
    packed: Any = "w|gz" if path.name.endswith(".gz") else "w|"
    with tarfile.open(path) as bundle, tarfile.open(fileobj=out, mode=packed) as copy:
        for member in bundle:
            content = made.get(member.name)
            copy.addfile(member, io.BytesIO(content) if content is not None else bundle.extractfile(member))
