"""Archive landed files that the change log contains: move them, or bundle small ones into one `.tar.gz`."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import tarfile
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.errors import SourceNotFoundError
from kedro_lakehouse.formats.maintenance import Action, MaintenanceReport, Storage, modified_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kedro_lakehouse.config.maintenance import LandingConfig
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.sources.files import LandedFile


def archive_landed(
    project: Project, table: LakeTable, settings: LandingConfig, *, dry_run: bool = False
) -> MaintenanceReport | None:
    """Move a table's landed files that are no longer needed into the archive; None without an archive.

    A file is no longer needed when every declared table that reads it has it in its change log and none of
    its events is quarantined, because a replay reads the file again. The ledger keeps its name, size and time
    for good, so it is recognised when it is put back.

    The report's storage is that of the landed files, after it with what they became in the archive.

    Guarantees:
        If this is killed at any point, each file is in its folder or in the archive.
    """
    if settings.archive is None or table.config.source is None:
        return None
    listed, done = _settled(table)
    limit = (dt.datetime.now(dt.UTC) - settings.older_than).timestamp() * 1000
    going = [f for f in listed if f.modified < limit and f in done]
    for reader in _readers(project, table) if going else ():
        theirs, done = _settled(reader)
        going = [f for f in going if f not in theirs or f in done]
    before = _storage(listed)
    if not going:
        return MaintenanceReport(table=f"{table} (landing)", actions=[], before=before, after=before)
    action = Action(
        work="archive_landed_files",
        files=len(going),
        bytes=sum(f.size for f in going),
        reason=f"{len(going)} ingested files are older than {settings.older_than}",
    )
    after = before
    if not dry_run:
        to = f"{settings.archive}/{table.config.source}"
        made = _archive(going, table.source_config.path, to, settings)
        left = _storage([f for f in listed if f not in going])
        after = Storage(files=left.files + made.files, bytes=left.bytes + made.bytes)
    return MaintenanceReport(table=f"{table} (landing)", actions=[action], before=before, after=after)


def _readers(project: Project, table: LakeTable) -> Iterable[LakeTable]:
    """The other declared tables whose source may list the same files."""
    path = table.source_config.path.rstrip("/")
    for name, declared in project.declarations.tables.items():
        if name != table.name and declared.source is not None:
            other = project.bind(name)
            theirs = other.source_config.path.rstrip("/")
            if f"{path}/".startswith(f"{theirs}/") or f"{theirs}/".startswith(f"{path}/"):
                yield other


def _settled(table: LakeTable) -> tuple[list[LandedFile], set[LandedFile]]:
    """The files that a table reads, and those of them that it no longer needs."""
    source = table.open_source()
    try:
        listed = source.files()
    except SourceNotFoundError:
        return [], set()
    state = table.state("changes")
    chain = table.open_ledger().chain(state.bookmark if state else None)
    done = set(chain.accepted())
    held = _quarantined(table)
    kept = [i for i, file in enumerate(listed) if file.name in held]
    if kept and source.gives == "extracts":
        return listed, done & set(listed[: kept[0]])  # a replay reads all extracts after it
    return listed, {file for file in done if file.name not in held}


def _quarantined(table: LakeTable) -> set[str]:
    """The names of the files with quarantined events."""
    state = table.state("quarantine")
    if state is None or state.rows == 0:
        return set()
    rows = table.read("quarantine")
    return {row["file"] for row in rows.selectExpr("_position.file AS file").distinct().collect()}


def _storage(files: Sequence[LandedFile]) -> Storage:
    return Storage(files=len(files), bytes=sum(f.size for f in files))


def _archive(files: Sequence[LandedFile], root: str, archive: str, settings: LandingConfig) -> Storage:
    """Move files into the archive, the small ones as one; the files and bytes that they are there."""
    import fsspec

    fs, folder = fsspec.core.url_to_fs(archive)
    base = fs._strip_protocol(root).rstrip("/")  # noqa: SLF001 - fsspec's own way to a bare path
    small = [f for f in files if f.size < settings.bundle_below]
    bundled = 0
    if len(small) > 1:
        bundled = _bundle(fs, small, base, f"{folder}/{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S%f}.tar.gz")
    moved = files if len(small) <= 1 else [f for f in files if f not in small]
    for file in moved:
        path = fs._strip_protocol(file.path)  # noqa: SLF001
        target = f"{folder}/{path.removeprefix(base).lstrip('/')}"
        fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        fs.mv(path, target)
    there = _storage(moved)
    return Storage(files=there.files + (bundled > 0), bytes=there.bytes + bundled)


def _bundle(fs: Any, files: Sequence[LandedFile], base: str, target: str) -> int:
    """Write files into one `.tar.gz` with their names and times, then delete them; the bytes of that file."""
    fs.makedirs(target.rpartition("/")[0], exist_ok=True)
    paths = [fs._strip_protocol(file.path) for file in files]  # noqa: SLF001
    with fs.open(f"{target}.part", "wb") as out, tarfile.open(fileobj=out, mode="w|gz") as bundle:
        for path in paths:
            facts, content = fs.info(path), fs.cat_file(path)
            entry = tarfile.TarInfo(path.removeprefix(base).lstrip("/"))
            entry.mtime = modified_at(facts)
            entry.size = len(content)
            bundle.addfile(entry, io.BytesIO(content))
    fs.mv(f"{target}.part", target)
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            fs.rm_file(path)
    return int(fs.info(target)["size"])
