"""Which files are one dataset: those of one folder whose columns are much the same."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kedro_lakehouse.discovery.deliveries import TIME, are_deliveries, keys_of_deliveries, time_pattern
from kedro_lakehouse.discovery.evidence import evidence_in
from kedro_lakehouse.discovery.files import Look, Sample, look_at_files, sample_of, typed_texts
from kedro_lakehouse.discovery.found import FoundDataset, columns_of, identifier_of, key_options
from kedro_lakehouse.discovery.keys import Keys
from kedro_lakehouse.discovery.tree import identity_of, mark_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.discovery.tree import Tree, TreeFile

_ALIKE: Final = 0.7
"""Files are of one dataset if they share so much of all their columns."""
_MOST_LOOKED_AT: Final = 1_000
"""Of more files in a folder, so many of the newest are looked at; the others count by their size."""
OPERATION: Final = "Op"
"""The column by which files of AWS DMS say what became of a row."""
OVERLAPS: Final = "overlaps"
"""Option of a dataset below whose folder files of others have names that fit its pattern."""
_COUNTERS: Final = re.compile(r"[\d\W_]+$")


def datasets_in(
    tree: Tree, folder: str, files: Sequence[TreeFile], limit: int
) -> Iterator[FoundDataset | tuple[TreeFile, str]]:
    """The datasets among the files of a folder and of its partitions; a file that cannot be read with why.

    Their names are parts of a path yet: ``name`` is the folder's, with the files' own where the folder holds
    several datasets or is the place itself.
    """
    newest = sorted(files, key=lambda f: (f.changed, f.path))[-_MOST_LOOKED_AT:]
    looks = list[Look]()
    for found in look_at_files(tree, newest):
        if isinstance(found, Look):
            looks.append(found)
        else:
            yield found
    clusters = _clusters(sorted(looks, key=lambda look: look.file.path))
    if len(clusters) > 1 and _follow_each_other(looks):
        clusters = [sorted(looks, key=lambda look: look.file.path)]
    rest = [f for f in files if f not in newest]
    for cluster in clusters:
        alone = len(clusters) == 1 and not (not folder and len(cluster) == 1)
        stem = "" if alone else _common_stem([look.file for look in cluster])
        more = rest if len(clusters) == 1 else []
        yield _dataset(tree, folder, stem, cluster, more, limit, whole=alone)


def _clusters(looks: Sequence[Look]) -> list[list[Look]]:
    found: list[list[Look]] = []
    for look in looks:
        for cluster in found:
            first = cluster[-1]
            same = first.file.kind == look.file.kind and first.options.get("delimiter") == look.options.get(
                "delimiter"
            )
            if same and _are_alike(first.names, look.names):
                cluster.append(look)
                break
        else:
            found.append([look])
    return found


def _follow_each_other(looks: Sequence[Look]) -> bool:
    """Whether files are of one table whose columns changed with time: by their names, and a column of all."""
    shared = frozenset[str].intersection(*(look.names for look in looks))
    same = len({(look.file.kind, look.options.get("delimiter")) for look in looks}) == 1
    return bool(shared) and same and are_deliveries([look.file.name for look in looks])


def _are_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether columns are much the same, or some were added to all the others.

    AWS DMS adds columns of its own to changes, and may leave others out: there half of them is enough.
    """
    shared, together = len(one & other), len(one | other)
    if (OPERATION.lower() in one) != (OPERATION.lower() in other):
        return 2 * shared >= together
    return shared >= _ALIKE * together or (shared == min(len(one), len(other)) and 2 * shared >= together)


def _common_stem(files: Sequence[TreeFile]) -> str:
    """What the names of files begin with, without counters and dates at its end."""
    stems = [file.stem for file in files]
    if len(stems) == 1:
        return stems[0]
    first, last = min(stems), max(stems)
    length = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return _COUNTERS.sub("", first[:length]) or first


def _dataset(  # noqa: PLR0913, PLR0917 - what a dataset is made of
    tree: Tree,
    folder: str,
    stem: str,
    looks: Sequence[Look],
    more: Sequence[TreeFile],
    limit: int,
    *,
    whole: bool,
) -> FoundDataset:
    ordered = sorted(looks, key=lambda look: (look.file.changed, look.file.path))
    schema, note = _together(ordered)
    partitions = _partitions(looks)
    # Of files with changes a key has several rows: where there are full loads, these tell of keys.
    loads = [look for look in ordered if OPERATION not in look.schema.names]
    try:
        sample = sample_of(tree, loads or ordered, schema, limit)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        note = f"its rows could not be read ({type(error).__name__})"
        sample = Sample(schema.empty_table(), None, exact=False)
    if looks[0].file.kind != "parquet":  # of texts the values tell the types
        schema = pa.schema([f for f in sample.rows.schema if f.name not in partitions.names])
    schema = pa.schema([*(f for f in schema if f.name not in partitions.names), *partitions])
    files = [look.file for look in looks] + list(more)
    name = "/".join(filter(None, (folder, stem)))
    evidence = evidence_in(sample.rows, columns_of(schema, partitions=partitions.names), table=name)
    keys, more_options = evidence.keys, dict[str, Any]()
    if len(ordered) > 1 and loads == ordered and not partitions.names:
        repeated, more_options = _of_deliveries(tree, ordered, limit, name)
        keys = repeated if repeated.chosen else keys
    total, exact = sample.total, sample.exact
    if loads and len(loads) < len(ordered):
        total = sum(look.rows for look in ordered if look.rows is not None) or None
    if more and total is not None:
        looked_at = sum(look.file.size for look in looks) or 1
        total, exact = round(total * sum(f.size for f in files) / looked_at), False
    options: dict[str, Any] = dict(looks[0].options) | dict(sample.options) | more_options | key_options(keys)
    if (times := time_pattern([file.name for file in files])) is not None:
        options[TIME] = times
    pattern = _pattern(files, stem, whole=whole)
    if stem:
        options["stem"] = stem
    if _others_fit(tree, folder, files, pattern):
        options[OVERLAPS] = True
    return FoundDataset(
        name=name,
        kind=looks[0].file.kind or "parquet",
        location=tree.address(folder),
        pattern=pattern,
        columns=evidence.columns,
        identity=identity_of(files, folder),
        mark=mark_of(files),
        partitions=tuple(partitions.names),
        rows=total,
        rows_exact=exact,
        size=sum(f.size for f in files),
        files=len(files),
        changed=max(f.changed for f in files),
        keys=keys.candidates,
        read=evidence.rows,
        options=options,
        note=note,
    )


def _of_deliveries(tree: Tree, ordered: Sequence[Look], limit: int, name: str) -> tuple[Keys, dict[str, Any]]:
    """What the two newest files tell of keys and of each other; nothing where they cannot be read."""
    by_name = sorted(ordered, key=lambda look: look.file.path)
    if time_pattern([look.file.name for look in ordered]) is None:
        by_name = list(ordered)
    try:
        older, newer = (sample_of(tree, [look], look.schema, limit).rows for look in by_name[-2:])
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError):
        return Keys(), {}
    return keys_of_deliveries(older, newer, table=name)


def _together(looks: Sequence[Look]) -> tuple[pa.Schema, str]:
    """The columns of all files, the newest first; where types cannot meet, those of that one alone."""
    newest = looks[-1].schema
    try:
        return pa.unify_schemas(
            [newest, *(look.schema for look in looks[:-1])], promote_options="permissive"
        ), ""
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return newest, f"its files differ in types; those of {looks[-1].file.name} are shown"


def _partitions(looks: Sequence[Look]) -> pa.Schema:
    """The columns that folders give, with the types that their values stand for."""
    values: dict[str, list[str]] = {}
    for look in looks:
        for name, value in look.file.partition:
            values.setdefault(name, []).append(value)
    return pa.schema([(name, typed_texts(pa.chunked_array([texts])).type) for name, texts in values.items()])


def _pattern(files: Sequence[TreeFile], stem: str, *, whole: bool) -> str:
    """A pattern of base names that these files fit; ``*`` and an ending if the folder has no others."""
    if len(files) == 1 and not whole:
        return files[0].name
    endings = {file.name.removeprefix(file.stem) for file in files}
    ending = endings.pop() if len(endings) == 1 else "*"
    return f"{'' if whole else stem}*{ending}"


def _others_fit(tree: Tree, folder: str, files: Sequence[TreeFile], pattern: str) -> bool:
    """Whether a source would read files of others as well: they lie below the folder and fit the pattern."""
    own = {file.path for file in files}
    others = (f for f in tree.below(folder) if f.path not in own and fnmatch.fnmatchcase(f.name, pattern))
    hidden = tuple("_.")
    parts = (f.path.removeprefix(folder).strip("/").split("/") for f in others)
    return any(not any(part.startswith(hidden) for part in one) for one in parts)


def name_of(parts: str, root: str) -> str:
    """The name of a table out of the path of its dataset; of one without, out of its place's."""
    return identifier_of(parts.split("/") if parts else [root.rstrip("/").rpartition("/")[2]])
