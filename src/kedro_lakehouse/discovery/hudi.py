"""A table of Hudi, by hoodie.properties and its timeline of commits; no class of Hudi, and no JVM."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset, type_of
from kedro_lakehouse.discovery.tree import mark_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.discovery.tree import Tree, TreeFile

# <file id>_<write token>_<instant>.parquet, and the log files that hold later changes of its rows.
_BASE: Final = re.compile(r"^(?P<id>.+)_(?P<token>[^_]+)_(?P<instant>\d{14,17})\.parquet$")
_LOG: Final = re.compile(r"^\.(?P<id>.+)_(?P<instant>\d{14,17})\.log\.\d+_")
# <instant>[_<time of completion>].<action>: of Hudi before 1.0 without the time.
_COMPLETED: Final = re.compile(r"^(?P<instant>\d{14,17})(?:_(?P<at>\d{14,17}))?\.(?P<action>[a-z]+)$")
_WRITES: Final = frozenset({"commit", "deltacommit", "replacecommit", "clustering"})
_META: Final = "_hoodie_"
_BATCH: Final = 65_536
_AVRO: Final = b"Obj\x01"
_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")


@dataclass(frozen=True)
class _Commit:
    instant: str
    at: str
    file: TreeFile


class HudiFiles:
    """The files of one table as they were listed; each is read when it is wanted."""

    def __init__(self, tree: Tree, root: str) -> None:
        """Keep where the table is."""
        self._tree, self._root = tree, root
        self._meta = f"{root}/.hoodie" if root else ".hoodie"

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """The table's settings: hoodie.properties, as Java writes such files."""
        text = self._tree.fs.cat_file(self._tree.at(f"{self._meta}/hoodie.properties")).decode("iso-8859-1")
        pairs = (line.partition("=") for line in text.splitlines() if line and line[0] not in "#!")
        return {_unescaped(name.strip()): _unescaped(value.strip()) for name, _, value in pairs}

    @cached_property
    def commits(self) -> Sequence[_Commit]:
        """The completed commits of the active timeline, the newest last."""
        path = self.properties.get("hoodie.timeline.path", "timeline")
        modern = int(self.properties.get("hoodie.timeline.layout.version", "1")) > 1
        folder = f"{self._meta}/{path}" if modern else self._meta
        found = []
        for file in self._tree.below(folder):
            match = _COMPLETED.match(file.name) if file.folder == folder else None
            if match and match["action"] in _WRITES and file.size:
                found.append(_Commit(match["instant"], match["at"] or match["instant"], file))
        return sorted(found, key=lambda commit: (commit.at, commit.instant))

    def metadata(self, commit: _Commit) -> Mapping[str, Any]:
        """What a commit says of itself: Avro since Hudi 1.0, JSON before."""
        content: bytes = self._tree.fs.cat_file(self._tree.at(commit.file.path))
        if not content.startswith(_AVRO):
            found: Mapping[str, Any] = json.loads(content)
            return found
        import fastavro

        records: Any = fastavro.reader(io.BytesIO(content))
        return next(iter(records), {})

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The columns as a record of Avro: those of the newest commit that names them."""
        for commit in reversed(self.commits):
            text = (self.metadata(commit).get("extraMetadata") or {}).get("schema")
            if text:
                found: Mapping[str, Any] = json.loads(text)
                return found
        made: Mapping[str, Any] = json.loads(self.properties.get("hoodie.table.create.schema", "{}"))
        return made

    @cached_property
    def bases(self) -> Sequence[TreeFile]:
        """The files that readers see: of each file group the newest one that a completed commit wrote."""
        done, replaced = {c.instant for c in self.commits}, self._replaced
        first = min(done, default="")
        newest: dict[tuple[str, str], tuple[str, TreeFile]] = {}
        for file in self._data:
            match = _BASE.match(file.name)
            if match is None or (match["instant"] not in done and match["instant"] >= first):
                continue
            group = file.folder, match["id"]
            if group not in replaced:
                newest[group] = max(
                    newest.get(group, ("", file)), (match["instant"], file), key=lambda one: one[0]
                )
        return [file for _, file in newest.values()]

    @property
    def logs(self) -> Sequence[TreeFile]:
        """The files with changes that no base file has yet."""
        bases = {
            (f.folder, match["id"]): match["instant"] for f in self.bases if (match := _BASE.match(f.name))
        }
        found = []
        for file in self._data:
            match = _LOG.match(file.name)
            if match and match["instant"] >= bases.get((file.folder, match["id"]), ""):
                found.append(file)
        return found

    @property
    def _data(self) -> list[TreeFile]:
        return [f for f in self._tree.below(self._root) if not f.path.startswith(f"{self._meta}/")]

    @cached_property
    def _replaced(self) -> set[tuple[str, str]]:
        """The file groups that a commit has put others in the place of."""
        found = set[tuple[str, str]]()
        for commit in self.commits:
            if commit.file.name.endswith((".replacecommit", ".clustering")):
                gone = self.metadata(commit).get("partitionToReplaceFileIds") or {}
                for partition, ids in gone.items():
                    folder = "/".join(filter(None, (self._root, partition)))
                    found |= {(folder, one) for one in ids}
        return found

    def mark(self) -> str:
        """Another text after each commit."""
        return mark_of([commit.file for commit in self.commits]) if self.commits else "no commit"


def hudi_dataset(tree: Tree, root: str, name: str) -> FoundDataset:
    """What properties, timeline and footers say of a table."""
    files = HudiFiles(tree, root)
    partitions = tuple(filter(None, files.properties.get("hoodie.table.partition.fields", "").split(",")))
    partitions = tuple(field.partition(":")[0] for field in partitions)
    fields = [f for f in files.schema.get("fields", ()) if not f["name"].startswith(_META)]
    columns = tuple(
        FoundColumn(name=f["name"], type=avro_type(f["type"]), partition=f["name"] in partitions)
        for f in fields
    )
    bases, logs = files.bases, files.logs
    newest = files.commits[-1] if files.commits else None
    settings = files.properties
    said = (
        "changes in its log files are not merged: rows and keys are those of its base files" if logs else ""
    )
    return FoundDataset(
        name=name,
        kind="hudi",
        location=tree.address(root),
        columns=columns,
        identity=" ".join(settings.get(f"hoodie.{key}", "") for key in ("table.checksum", "table.name")),
        mark=files.mark(),
        partitions=partitions,
        rows=sum(_rows_of(tree, file) for file in bases),
        rows_exact=not logs,
        size=sum(file.size for file in (*bases, *logs)),
        files=len(bases) + len(logs),
        changed=_time(newest.at) if newest else None,
        note=said,
    )


def hudi_rows(tree: Tree, root: str, limit: int) -> pa.Table:
    """Some rows of the base files, without Hudi's own columns."""
    import pyarrow.parquet as pq

    parts, wanted = list[pa.Table](), limit
    for file in HudiFiles(tree, root).bases:
        if wanted <= 0:
            break
        with tree.fs.open(tree.at(file.path), "rb") as handle:
            for batch in pq.ParquetFile(handle).iter_batches(batch_size=min(wanted, _BATCH)):
                names = [name for name in batch.schema.names if not name.startswith(_META)]
                parts.append(pa.table(batch).select(names))
                wanted -= batch.num_rows
                if wanted <= 0:
                    break
    return pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})


def avro_type(schema: Any) -> str:  # noqa: PLR0911 - a table of cases
    """Spark's name of a type of Avro, as Hudi keeps it.

    Example:
        >>> avro_type(["null", {"type": "long", "logicalType": "timestamp-micros"}])
        'timestamp'
        >>> avro_type({"type": "array", "items": "int"})
        'array<int>'
    """
    if isinstance(schema, list):
        (kind,) = [part for part in schema if part != "null"][:1] or ["null"]
        return avro_type(kind)
    if isinstance(schema, str):
        return _SIMPLE.get(schema, schema)
    logical = str(schema.get("logicalType", ""))
    if logical == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    match schema["type"]:
        case "record":
            inner = ",".join(f"{f['name']}:{avro_type(f['type'])}" for f in schema["fields"])
            return f"struct<{inner}>"
        case "array":
            return f"array<{avro_type(schema['items'])}>"
        case "map":
            return f"map<string,{avro_type(schema['values'])}>"
        case "fixed":
            return type_of(pa.binary())
        case other:
            return avro_type(other)


_SIMPLE: Final[Mapping[str, str]] = {"long": "bigint", "bytes": "binary", "enum": "string"}
_LOGICAL: Final[Mapping[str, str]] = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
}


def _rows_of(tree: Tree, file: TreeFile) -> int:
    import pyarrow.parquet as pq

    with tree.fs.open(tree.at(file.path), "rb") as handle:
        return int(pq.ParquetFile(handle).metadata.num_rows)


def _time(instant: str) -> datetime:
    """The time in an instant's name, taken as UTC: Hudi writes the writer's zone unless it is told UTC."""
    moment = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return moment.replace(microsecond=1000 * int(instant[14:17] or 0))


def _unescaped(text: str) -> str:
    plain = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def letter(match: re.Match[str]) -> str:
        one = match[1]
        return chr(int(one[1:], 16)) if len(one) > 1 else plain.get(one, one)

    return _ESCAPED.sub(letter, text)
