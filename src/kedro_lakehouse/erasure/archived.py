"""Remove records of subjects from landed files in an archive, also within bundles of small files."""

from __future__ import annotations

import io
import tarfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from kedro_lakehouse.erasure.in_place import can_be_rewritten, files_below, of_bytes, rewrite
from kedro_lakehouse.erasure.landed import without_subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kedro_lakehouse.erasure.in_place import Writer
    from kedro_lakehouse.file_search.wanted import Wanted
    from kedro_lakehouse.lake_table import LakeTable

_BUNDLES: Final = (".tar.gz", ".tar")


def erase_archived(
    table: LakeTable, archive: str | None, name: str, wanted: Wanted, *, leave: frozenset[str]
) -> list[str]:
    """Remove the records of a table's archived files that name subjects; return the files that were changed.

    What is said of ``erase_landed`` holds for these files too: put back, each is the one that the ledger
    knows. A bundle keeps the size and time of each file in it.

    Args:
        archive: The folder to which landed files are moved.
        name: The column that names subjects.
    """
    if archive is None or not can_be_rewritten(archive):
        return []
    folder, landing = _folder(f"{archive}/{table.config.source}"), _folder(table.source_config.path)
    own = {
        file.path.removeprefix("file://").removeprefix(landing): file
        for file in table.open_ledger().planned_ever()
        if file.path not in leave
    }

    def without(place: str, content: bytes) -> bytes | None:
        file = own.get(place)
        return None if file is None else without_subjects(table, file, name, wanted, content)

    changed = []
    for path in files_below(folder):
        place = path.removeprefix(folder)
        if path.endswith(_BUNDLES):
            if rewrite(path, partial(_bundle_without, path, without)):
                changed.append(path)
        elif place in own and rewrite(path, of_bytes(partial(without, place))):
            changed.append(path)
    return changed


def _folder(place: str) -> str:
    place = place.removeprefix("file://").rstrip("/")
    return f"{place if '://' in place else Path(place).absolute()}/"


def _bundle_without(
    path: str, without: Callable[[str, bytes], bytes | None], file: BinaryIO
) -> Writer | None:
    """What writes a bundle anew, if any of its files names a subject."""
    with tarfile.open(fileobj=file) as bundle:
        made = {
            member.name: content
            for member in bundle
            if (inner := bundle.extractfile(member)) is not None
            and (content := without(member.name, inner.read())) is not None
        }
    return partial(_copy, file, made, "w|gz" if path.endswith(".gz") else "w|") if made else None


def _copy(file: BinaryIO, made: Mapping[str, bytes], packed: Any, out: BinaryIO) -> None:
    file.seek(0)
    with tarfile.open(fileobj=file) as bundle, tarfile.open(fileobj=out, mode=packed) as copy:
        for member in bundle:
            content = made.get(member.name)
            copy.addfile(member, io.BytesIO(content) if content is not None else bundle.extractfile(member))
