"""Iceberg metadata without a JVM: the catalog that Spark writes to, opened by pyiceberg."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import PlaceUnusableError, UnsupportedError
from kedro_lakehouse.names import CATALOG, TableName
from kedro_lakehouse.private import private_file, private_folder
from kedro_lakehouse.session.embedded import EmbeddedTable, UnusualError, locations

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_PREFIX: Final = f"spark.sql.catalog.{CATALOG}."
_WAL: Final = "journal_mode=WAL"
_EMBEDDED: Final = re.compile(r"jdbc:sqlite:(file:)?(?P<path>[^?]*)")
# Settings that have the same name in Java and Python, by the catalog's type.
_SHARED: Final = ("warehouse", "client.region", "s3.endpoint")
_ON_AWS: Final[Mapping[str, tuple[str, ...]]] = {
    "glue": (*_SHARED, "glue.id", "glue.endpoint"),
    "rest": (*_SHARED, "uri", "rest."),
}
_IMPLEMENTED: Final = "py-catalog-impl"
_KNOWING: Final = "kedro_lakehouse.session.known_metadata.KnownMetadataCatalog"
_OWN_TABLES: Final = 2
"""How many tables of its own pyiceberg creates in a new SQL catalog, one after the other."""
_ENCRYPTIONS: Final = {"kms": "aws:kms", "s3": "AES256"}


def catalog_properties(spark_conf: Mapping[str, str]) -> dict[str, str]:
    """Translate the Spark settings of catalog ``lake`` into pyiceberg's, so that only one place has them.

    Raises:
        UnsupportedError: The catalog's type has no translation.
    """
    given = {k.removeprefix(_PREFIX): v for k, v in spark_conf.items() if k.startswith(_PREFIX)}
    kind = given.get("type", "")
    if kind == "jdbc" and (embedded := re.match(_EMBEDDED, given.get("uri", ""))):
        uri, warehouse = f"sqlite:///{embedded['path']}", f"file://{given['warehouse']}"
        return {"type": "sql", "uri": uri, "warehouse": warehouse}
    if kind in _ON_AWS:
        return {"type": kind} | _on_aws(given, _ON_AWS[kind])
    raise UnsupportedError(
        what=f"There is no catalog of type '{kind or 'none'}' for '{CATALOG}'.",
        remedy=f"Set {_PREFIX}type to jdbc (with an SQLite file as its uri), glue or rest in spark.yml.",
    )


def _on_aws(given: Mapping[str, str], alike: tuple[str, ...]) -> dict[str, str]:
    found = {name: value for name, value in given.items() if name.startswith(alike)}
    # Of pyiceberg's two ways to S3 this one obeys the settings of encryption.
    found["py-io-impl"] = "pyiceberg.io.fsspec.FsspecFileIO"
    if encryption := _ENCRYPTIONS.get(given.get("s3.sse.type", "")):
        found["s3.server-side-encryption"] = encryption
    if "s3.sse.key" in given:
        found["s3.sse-kms-key-id"] = given["s3.sse.key"]
    return found


def close_to_others(spark_conf: Mapping[str, str]) -> None:
    """Create folder and file of an embedded catalog ``lake``, so that only their owner can use them.

    Does nothing for other catalogs. The tables lie in that folder as well. It is called before Python or
    the JVM opens the catalog. SQLite gives the files that it creates beside its own the same mode.
    """
    found = re.match(_EMBEDDED, spark_conf.get(f"{_PREFIX}uri", ""))
    if found is not None:
        file = Path(found["path"])
        private_folder(file.parent)
        private_file(file)
        if _WAL in found.string and file.stat().st_size == 0:
            _begin_in_wal(file)


def _begin_in_wal(file: Path) -> None:
    """Turn an empty file into a database with a write-ahead log, before two open it at the same moment.

    SQLite waits for no lock when it changes this mode: the second one would fail with SQLITE_BUSY.
    """
    busy = sqlite3.OperationalError  # another process is doing the same
    with contextlib.closing(sqlite3.connect(file)) as connection, contextlib.suppress(busy):
        connection.execute(f"PRAGMA {_WAL}")


def rows_of(snapshot: Snapshot | None) -> int:
    """Row count of a snapshot, by its summary; 0 of a table that has none yet."""
    counts = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    return int(counts.get("total-records", 0)) - int(counts.get("total-position-deletes", 0))


@dataclass(frozen=True)
class TableOutline:
    """What a table's metadata says in short; ``summary`` is that of its current snapshot, if there is one."""

    columns: int
    properties: Mapping[str, str]
    snapshot_id: int | None
    summary: Mapping[str, str]
    location: str


class MetadataCatalog:
    """Looks tables up in catalog ``lake``; every lookup reads the newest metadata."""

    def __init__(self, spark_conf: Mapping[str, str]) -> None:
        """Store the settings; the catalog is opened at first use."""
        self._conf = spark_conf
        self._catalog: Catalog | None = None
        self._opening = threading.Lock()
        self._listing: Mapping[tuple[str, str], str] | None = None

    @property
    def catalog(self) -> Catalog:
        """Pyiceberg's catalog; an empty one in memory as long as the embedded one was not created."""
        with self._opening:
            if self._catalog is None and self._is_missing():
                return self._empty()
            return self._opened()

    def create(self) -> Catalog:
        """Pyiceberg's catalog, to write to: an embedded one is created if it is not there."""
        with self._opening:
            return self._opened()

    def _opened(self) -> Catalog:
        if self._catalog is None:
            self._catalog = self._open()
        return self._catalog

    def _is_missing(self) -> bool:
        """Whether an embedded catalog has no file yet; then nobody has written to the lake."""
        found = re.match(_EMBEDDED, self._conf.get(f"{_PREFIX}uri", ""))
        if found is None or self._conf.get(f"{_PREFIX}type") != "jdbc":
            return False
        try:
            Path(found["path"]).stat()
        except FileNotFoundError:
            return True
        return False

    def _empty(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        return load_catalog(CATALOG, **(catalog_properties(self._conf) | {"uri": "sqlite:///:memory:"}))

    def _open(self) -> Catalog:
        from pyiceberg.catalog import load_catalog
        from sqlalchemy.exc import OperationalError

        from kedro_lakehouse.session.known_metadata import parse_manifests_once

        properties = catalog_properties(self._conf)
        if properties["type"] == "sql":
            properties = {k: v for k, v in properties.items() if k != "type"} | {_IMPLEMENTED: _KNOWING}
        close_to_others(self._conf)
        parse_manifests_once()
        for _ in range(_OWN_TABLES):
            with contextlib.suppress(OperationalError):  # another run created the same table meanwhile
                return load_catalog(CATALOG, **properties)
        return load_catalog(CATALOG, **properties)

    @property
    def place(self) -> str:
        """The file of an embedded catalog; the address of another one."""
        uri = self._conf.get(f"{_PREFIX}uri", "")
        embedded = re.match(_EMBEDDED, uri)
        return embedded["path"] if embedded else uri

    @property
    def is_embedded(self) -> bool:
        """Whether it is a file of this machine."""
        return re.match(_EMBEDDED, self._conf.get(f"{_PREFIX}uri", "")) is not None

    @property
    def is_glue(self) -> bool:
        """Whether it is the Glue Data Catalog, in which other engines find tables too."""
        return self._conf.get(f"{_PREFIX}type") == "glue"

    @property
    def keeps_views(self) -> bool:
        """Whether Iceberg can store views in it; in Glue's it can store tables only."""
        return not self.is_glue

    def find(self, name: TableName) -> Table | None:
        """The table's newest metadata, or None if there is no such table."""
        return self.load(name.identifier)

    def load(self, identifier: tuple[str, ...]) -> Table | None:
        """The newest metadata of any table of the catalog, or None; its name need not be one of ours."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self.load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        """The newest metadata of a table that the catalog names.

        Raises:
            PlaceUnusableError: The file of its metadata is empty or damaged, or it is no Iceberg table.
        """
        from pyiceberg.exceptions import NoSuchPropertyException, ValidationError

        try:
            return self.catalog.load_table(identifier)
        except NoSuchPropertyException as error:
            raise PlaceUnusableError(
                path=f"{self.place or 'Glue'}, table {'.'.join(identifier)}",
                problem="a table of this name is there that is no Iceberg table",
                remedy="Give the table another name in tables.yml, or drop or rename the one that is there.",
            ) from error
        except (ValidationError, UnicodeDecodeError) as error:
            raise PlaceUnusableError(
                path=f"{self.place}, table {'.'.join(identifier)}",
                problem="the file *.metadata.json that the catalog names for it is empty or damaged",
                remedy=(
                    "Restore it from a copy; or move the whole folder of the lakehouse away, and `kedro run` "
                    "builds it anew from the landed files."
                ),
            ) from error

    @contextlib.contextmanager
    def listed(self) -> Iterator[None]:
        """Find the tables of the block's outlines by one query of an embedded catalog, made now."""
        try:
            with contextlib.suppress(UnusualError):
                self._listing = self._locations()
            yield
        finally:
            self._listing = None

    def outline(self, name: TableName) -> TableOutline | None:
        """The newest metadata of a table in short; None if there is no such table.

        Raises:
            PlaceUnusableError: The file of its metadata is empty or damaged.
        """
        return self.outline_at(name.identifier)

    def outline_at(self, identifier: tuple[str, str]) -> TableOutline | None:
        """The same of any table of the catalog; its name need not be one of ours.

        Raises:
            PlaceUnusableError: The file of its metadata is empty or damaged.
        """
        with contextlib.suppress(UnusualError):
            plain = self._embedded(identifier, self._listing)
            if plain is None:
                return None
            return TableOutline(
                len(plain.columns), plain.properties, plain.snapshot_id, plain.summary, plain.location
            )
        found = self.load(identifier)
        return None if found is None else _outline_of(found)

    def read_rows(
        self,
        name: TableName,
        where: tuple[str, object] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table | None:
        """The rows of a small table, in no order; None if there is no such table.

        Args:
            where: One of the columns and a value: only rows that have it, None standing for null.
            columns: The wanted columns; default: all.
        """
        with contextlib.suppress(UnusualError):
            plain = self._embedded(name.identifier)
            return None if plain is None else _having(plain.read_rows(where, columns), where)
        found = self.find(name)
        wanted = ("*",) if columns is None else tuple(columns)
        return None if found is None else found.scan(_expression(where), wanted).to_arrow()

    def read_files(
        self, name: TableName, where: tuple[str, object], known: Collection[str]
    ) -> dict[str, pa.Table | None] | None:
        """The data files of a small table, each with its rows that have a value in a column.

        Args:
            name: The table.
            where: The column and the value.
            known: Files whose rows are not wanted: None stands for these.

        Returns:
            None if only pyiceberg knows the files.
        """
        with contextlib.suppress(UnusualError):
            plain = self._embedded(name.identifier)
            if plain is None:
                return {}
            paths = {str(path): path for path in plain.data_files()}
            return {
                text: None if text in known else _having(plain.rows_in(path, where), where)
                for text, path in paths.items()
            }
        return None

    def _embedded(
        self, identifier: tuple[str, str], listing: Mapping[tuple[str, str], str] | None = None
    ) -> EmbeddedTable | None:
        """A table of an embedded catalog, read without pyiceberg; None if there is no such table.

        Raises:
            UnusualError: The catalog is another one, or only pyiceberg can read this or say what is wrong.
        """
        known = self._locations(identifier) if listing is None else listing
        location = known.get(identifier)
        return EmbeddedTable.read(location) if location else None

    def _locations(self, identifier: tuple[str, str] | None = None) -> Mapping[tuple[str, str], str]:
        """Where the metadata of each table is, or of one."""
        if self._is_missing():
            return {}
        if catalog_properties(self._conf)["type"] != "sql":
            raise UnusualError
        close_to_others(self._conf)
        return locations(Path(self.place), CATALOG, identifier)

    def pointers(self, names: Sequence[TableName]) -> tuple[str | None, ...]:
        """Where the newest metadata of each table is: equal ones mean that nothing was committed between."""
        with contextlib.suppress(UnusualError):
            known = self._locations()
            return tuple(known.get(name.identifier) for name in names)
        found = map(self.find, names)
        return tuple(table.metadata_location if table is not None else None for table in found)

    def rows(self, name: TableName) -> int | None:
        """Row count of a table, from its metadata; None if there is no such table."""
        found = self.find(name)
        return rows_of(found.current_snapshot()) if found is not None else None

    def purge(self, name: TableName) -> None:
        """Drop a table with its files, and with its folder if that is a local one."""
        found = self.find(name)
        if found is None:
            return
        self.catalog.purge_table(name.identifier)
        place = found.location().removeprefix("file:")
        if place.startswith("/"):
            shutil.rmtree(place, ignore_errors=True)  # what a stage or a killed run left, and empty folders

    def view_exists(self, name: TableName) -> bool:
        """Whether the catalog has a view of this name."""
        return bool(self._views(name, lambda rows: rows.count()))

    def view_properties(self, name: TableName) -> Mapping[str, str]:
        """The properties of a view that an SQL catalog stores; empty without it, or in another catalog."""
        from pyiceberg.io import load_file_io
        from pyiceberg.serializers import Compressor

        found = list[str]()

        def read(rows: Any) -> int:
            found.extend(row.metadata_location for row in rows)
            return len(found)

        if not self._views(name, read):
            return {}
        stored = load_file_io(catalog_properties(self._conf), found[0]).new_input(found[0])
        packed = Compressor.get_compressor(found[0])
        with stored.open() as file, packed.stream_decompressor(file) as text:
            properties: Mapping[str, str] = json.load(text).get("properties") or {}
        return properties

    def drop_view(self, name: TableName) -> None:
        """Drop a view, if it exists; the small files of its definition stay."""
        self._views(name, lambda rows: rows.delete())

    def _views(self, name: TableName, act: Callable[[Any], int]) -> int:
        """Run ``act`` on an SQL catalog's own rows of a view, because pyiceberg handles only its tables."""
        from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
        from sqlalchemy.orm import Session

        catalog = self.catalog
        if not isinstance(catalog, SqlCatalog):
            return 0  # such a catalog's views are looked up by its own format
        with Session(catalog.engine) as session:
            rows = session.query(IcebergTables).filter_by(
                catalog_name=catalog.name,
                table_namespace=name.namespace,
                table_name=name.table,
                iceberg_type="VIEW",
            )
            done = act(rows)
            session.commit()
            return done

    def ensure_namespace(self, namespace: str) -> None:
        """Create the namespace if it does not exist, even if another thread or run creates it just now."""
        from sqlalchemy.exc import IntegrityError

        try:
            self.create().create_namespace_if_not_exists(namespace)
        except IntegrityError:  # two writers found none, both created it, one was first
            if not self.catalog.namespace_exists(namespace):
                raise

    def namespaces(self) -> list[str]:
        """The names of the catalog's namespaces."""
        return sorted(".".join(parts) for parts in self.catalog.list_namespaces())

    def tables(self, namespace: str) -> list[Any]:
        """The identifiers of a namespace's tables."""
        return list(self.catalog.list_tables(namespace))

    def all_tables(self) -> list[tuple[str, str]]:
        """Namespace and name of each table of the catalog."""
        with contextlib.suppress(UnusualError):
            return sorted(self._locations() if self._listing is None else self._listing)
        return [(n, str(found[-1])) for n in self.namespaces() for found in self.tables(n)]


def _outline_of(table: Table) -> TableOutline:
    snapshot = table.current_snapshot()
    return TableOutline(
        columns=len(table.schema().fields),
        properties=table.properties,
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        summary=snapshot.summary.additional_properties if snapshot and snapshot.summary else {},
        location=table.location(),
    )


def _having(rows: pa.Table, where: tuple[str, object] | None) -> pa.Table:
    """The rows that have a value in a column; all of them where none is asked for."""
    if where is None:
        return rows
    import pyarrow.compute as pc

    column, value = where
    held = rows.column(column)
    if value is None:
        return rows.filter(pc.is_null(held))
    values = held.to_pylist()
    if value not in values:
        return rows.slice(0, 0)
    # To make a scalar of a value of Python's, pyarrow imports pandas.
    return rows.filter(pc.equal(held, held[values.index(value)]))


def _expression(where: tuple[str, object] | None) -> Any:
    """The same condition in pyiceberg's words, whose constructors are typed for pydantic, not for callers."""
    from pyiceberg import expressions

    if where is None:
        return expressions.AlwaysTrue()
    column, value = where
    built: Any = expressions
    return built.IsNull(column) if value is None else built.EqualTo(column, value)
