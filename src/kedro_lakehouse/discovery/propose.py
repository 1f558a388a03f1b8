"""Declarations for what was found, to be copied into sources.yml, tables.yml and catalog.yml as they are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import yaml

from kedro_lakehouse.config.tables import spark_type
from kedro_lakehouse.discovery.deliveries import FILES, TIME, at_any_time
from kedro_lakehouse.discovery.file_datasets import OPERATION, OVERLAPS
from kedro_lakehouse.discovery.files import LAYOUT, NULL, REMARKS
from kedro_lakehouse.discovery.found import KEY, WHY
from kedro_lakehouse.discovery.written_times import DATES, TIMES
from kedro_lakehouse.errors import InvalidNameError
from kedro_lakehouse.names import TableName, is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset

_TEXT: Final = "string"
_FULL_LOAD: Final = "full_load"
_LINE: Final = 112
_CSV: Final = ("header", "delimiter", "quote", "multiline", "unnamed", "encoding", NULL, DATES, TIMES)
_LATER: Final = (
    "updated",
    "modified",
    "changed",
    "change seq",
    "last update",
    "sequence",
    "version",
    "timestamp",
)
_DATASETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "delta": {"type": "pandas.DeltaTableDataset"},
    "hudi": {"type": "spark.SparkDatasetV2", "file_format": "hudi"},
}
"""The Kedro datasets that read a table where it lies."""


@dataclass(frozen=True)
class Proposal:
    """Blocks for one dataset, by file; and what was found of it, as comments above its table."""

    name: str
    sources: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)
    catalog: Mapping[str, Any] = field(default_factory=dict)
    comments: tuple[str, ...] = ()


def propose(found: FoundDataset) -> Proposal:
    """Declarations of one dataset: a source and a table of files, an entry of the catalog of a table.

    A single file is taken for an extract: the next one in its place is compared with it. Of several files
    each adds rows, or changes those of its keys if a column says which of two rows is later.
    """
    try:
        name = str(TableName.parse(found.name))
    except InvalidNameError as error:
        return Proposal(found.name, comments=(f"No name for a table: {error.sentences()[0]}",))
    comments = tuple(_told(found))
    if found.kind in _DATASETS:
        return Proposal(
            name,
            catalog={name: dict(_DATASETS[found.kind]) | {"filepath": found.location}},
            comments=comments,
        )
    if found.kind == "iceberg":
        said = "A table of Iceberg: `register: true` in discovery.yml makes it one that `sql` finds."
        return Proposal(name, comments=(*comments, said))
    if problem := _problem(found):
        return Proposal(name, comments=(*comments, problem))
    source, entity = _source(found)
    label = name.replace(".", "_")
    table, more = _table(found, source["type"])
    return Proposal(
        name,
        {label: source},
        {name: {"source": label, "entity": entity} | table},
        comments=(*comments, *more),
    )


def proposed_files(found: Sequence[FoundDataset]) -> tuple[str, str, str]:
    """The texts of sources.yml, tables.yml and catalog.yml for all datasets; each is valid YAML."""
    proposals = [propose(one) for one in with_full_loads(found)]
    head = "# Proposed by `kedro run --pipelines=discovery`: copy what you want into conf/base/{}.\n"
    sources = [block_text(dict(p.sources)) for p in proposals if p.sources]
    tables = [commented(p.comments, p.name, dict(p.tables)) for p in proposals if not p.catalog]
    catalog = [commented(p.comments, p.name, dict(p.catalog)) for p in proposals if p.catalog]
    texts = (sources, "sources.yml"), (tables, "tables.yml"), (catalog, "catalog.yml")
    first, second, third = ("\n".join([head.format(file), *(blocks or ["{}\n"])]) for blocks, file in texts)
    return first, valid_yaml(second), valid_yaml(third)


def valid_yaml(text: str) -> str:
    """A text of comments alone is no mapping yet."""
    return text if yaml.safe_load(text) is not None else f"{text}\n{{}}\n"


def _source(found: FoundDataset) -> tuple[dict[str, Any], str]:
    """The source of a dataset of files, and the folder of its table below the source's."""
    path, _, entity = found.location.rstrip("/").rpartition("/")
    source: dict[str, Any] = {"type": "changes", "path": path, "file_format": found.kind}
    if _operations(found):
        source["type"] = "dms"
        for key, words in (("sequence_column", "change seq"), ("timestamp_column", "last update")):
            if named := next((c.name for c in found.columns if words in _words(c.name)), None):
                source[key] = named
    else:
        single = found.files == 1 and not found.partitions
        pattern = found.options.get(TIME)
        source["pattern"] = at_any_time(found.pattern) if single and pattern else found.pattern
        if single or found.options.get(FILES) == "extracts":
            time = {"from": "name", "pattern": pattern} if pattern else {"from": "modified"}
            source |= {"type": "extract", "extract_time": time}
    if LAYOUT in found.options:
        source[LAYOUT] = found.options[LAYOUT]
    if found.kind == "csv":
        source["csv"] = {key: value for key, value in found.options.items() if key in _CSV}
        if found.options.get("encoding") == "UTF-8":
            source["csv"].pop("encoding")
        if "columns" in found.options or not found.options.get("header", True):
            source["csv"]["columns"] = [c.name for c in found.columns if not c.partition]
    return source, entity


def _table(found: FoundDataset, source: str) -> tuple[dict[str, Any], list[str]]:
    """The keys of a table of files, and what else is to be said of it."""
    own = [c for c in found.columns if not c.partition]
    # A column with a name of the framework gets another one, by which all other keys know it.
    renamed = {c.name: f"source_{c.name.strip('_')}" for c in own if is_reserved_column(c.name)}
    names = {c.name: renamed.get(c.name, c.name) for c in own}
    key = _key(found, names)
    later = next((c.name for c in own if _tells_order(c) and c.name not in (key or ())), None)
    table: dict[str, Any] = {}
    said = list[str]()
    if key and (source != "changes" or later):
        table["keys"] = [names[n] for n in key]
        if source == "changes":
            table["order_by"] = [names[str(later)]]
    else:
        table["write"] = "replace" if source == "extract" else "append"
        said += _without_key(found, source, key)
    # What is nested in JSON is kept as its text.
    plain = [c for c in own if c.type != _TEXT and "<" not in c.type and _is_spark(c.type)]
    types = {names[c.name]: c.type for c in plain}
    personal = [names[c.name] for c in own if c.personal]
    more = {"types": types if found.kind != "parquet" else {}, "personal": personal, "rename": renamed}
    table |= {name: value for name, value in more.items() if value}
    if missing := ", ".join(c.name for c in found.columns if c.partition):
        said.append(
            f"{missing}: from the names of folders, which a source does not read; its files are all read."
        )
    return table, said


def _key(found: FoundDataset, names: Mapping[str, str]) -> list[str] | None:
    """The columns that are taken for the key; None where none look like one."""
    chosen = found.options.get(KEY)
    if chosen is not None:
        return list(chosen) if chosen and names.keys() >= set(chosen) else None
    return next((list(k) for k in found.keys if names.keys() >= set(k)), None)


def _without_key(found: FoundDataset, source: str, key: list[str] | None) -> list[str]:
    """What is to be said of a table that gets no key."""
    if source == "dms":
        return ["No column is unique among the full load's rows: name the key, or rows are only added."]
    if key:
        return [
            "No column tells which of two rows of a key is later, so rows are added: name it in order_by."
        ]
    if source == "extract":
        return ["No key: each file replaces the rows of the one before. To keep versions, name `keys`."]
    return ["No key: each file adds its rows."] if found.read else []


def _problem(found: FoundDataset) -> str | None:
    """Why no source can be proposed for a dataset of files."""
    if not found.location.rstrip("/").rpartition("/")[0] or re.fullmatch(
        r"\w+://[^/]+", found.location.rstrip("/")
    ):
        return "It lies at the root of its bucket or disk: a source needs a folder. Move it into one."
    if found.options.get(OVERLAPS):
        return "Files of others below its folder fit its pattern, so a source would read them too: move them."
    if not found.columns:
        return "No column was found in it."
    return None


def _operations(found: FoundDataset) -> bool:
    return any(c.name == OPERATION for c in found.columns) or bool(found.options.get(_FULL_LOAD))


def with_full_loads(found: Sequence[FoundDataset]) -> list[FoundDataset]:
    """Datasets among which full loads of AWS DMS are known as such: they lie beside changes of the same task.

    A full load has no column with operations, but those that the task adds to every record.
    """
    added: dict[str, set[str]] = {}
    for one in found:
        if _operations(one):
            own = {
                c.name for c in one.columns if any(w in _words(c.name) for w in ("change seq", "last update"))
            }
            added.setdefault(_above(one), set()).update(own)
    return [
        replace(one, options={**one.options, _FULL_LOAD: True})
        if (wanted := added.get(_above(one))) and wanted <= {c.name for c in one.columns}
        else one
        for one in found
    ]


def _above(found: FoundDataset) -> str:
    return found.location.rstrip("/").rpartition("/")[0]


def _tells_order(column: FoundColumn) -> bool:
    if not column.type.startswith(("timestamp", "date", "bigint", "int", "string")):
        return False
    words = _words(column.name)
    return any(word in words for word in _LATER)


def _words(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()).strip()


def _is_spark(kind: str) -> bool:
    try:
        spark_type(kind)
    except ValueError:
        return False
    return True


def _told(found: FoundDataset) -> list[str]:
    """What was found, in comments: no value of a row is among it."""
    rows = (
        "an unknown number of"
        if found.rows is None
        else f"{'' if found.rows_exact else 'about '}{found.rows:,}"
    )
    parts = f", partitioned by {', '.join(found.partitions)}" if found.partitions else ""
    lines = [
        f"{found.kind}, {rows} rows, {found.files:,} file(s), {found.size:,} bytes{parts}: {found.location}"
    ]
    lines += _told_of_keys(found)
    if (time := _time_column(found)) is not None:
        lines.append(f"Time: {time}; of many rows, months({time}) is a partition for `partition_by`")
    lines += [f"Personal: {c.name} ({c.personal})" for c in found.columns if c.personal]
    lines += found.options.get(REMARKS, [])
    odd = [f"{c.name} ({c.type})" for c in found.columns if not _is_spark(c.type)]
    if odd:
        lines.append(f"Spark has no such type: {', '.join(odd)}")
    return [*lines, *([f"Note: {found.note}"] if found.note else [])]


def _told_of_keys(found: FoundDataset) -> list[str]:
    """The candidates for the key with what speaks for each, the likeliest first."""
    lines, chosen = [], found.options.get(KEY)
    reasons = found.options.get(WHY, ())
    for number, key in enumerate(found.keys):
        word = "Key" if number == 0 and chosen != [] else "  or" if number else "No key, though unique"
        known = number < len(reasons)
        why = reasons[number] if known else f"unique, without null, in {found.read:,} rows"
        lines.append(f"{word}: {', '.join(key)} ({why})")
    if not found.keys and found.read:
        lines.append(f"Key: none found in {found.read:,} rows")
    return lines


def _time_column(found: FoundDataset) -> str | None:
    """The column with the time that rows are about: a date or a moment, of several the first."""
    timed = [c for c in found.columns if c.type.startswith(("timestamp", "date")) and not c.partition]
    return next((c.name for c in timed if _tells_order(c)), timed[0].name if timed else None)


def commented(comments: Sequence[str], name: str, block: Mapping[str, Any]) -> str:
    """A block below its comments; without a block, the comments name what they are about."""
    lines = comments if block else (name, *comments)
    return "".join([*(f"# {_plain(line)}\n" for line in lines), block_text(block)])


def _plain(line: str) -> str:
    """A comment on one line, whatever stands in a name."""
    return "".join(c if c.isprintable() else "?" for c in line)[: _LINE * 2]


def block_text(block: Mapping[str, Any]) -> str:
    """Entries as a person writes them: a line a key, lists and mappings within a line."""
    lines = []
    for name, entry in block.items():
        lines.append(_line({name: None}).removesuffix(" null\n") + "\n")
        lines += ["".join(f"  {part}\n" for part in _line({k: v}).splitlines()) for k, v in entry.items()]
    return "".join(lines)


def _line(entry: Mapping[str, Any]) -> str:
    flow = None if any(isinstance(value, (list, dict)) for value in entry.values()) else False
    return yaml.safe_dump(
        dict(entry), sort_keys=False, allow_unicode=True, width=_LINE, default_flow_style=flow
    )
