"""An SQL catalog that parses the metadata of a table again only after it has changed."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import Table


class KnownMetadataCatalog(SqlCatalog):
    """Pyiceberg's SQL catalog, which keeps the newest metadata of each table that it has parsed.

    Every lookup asks the catalog where the newest metadata is. A file of metadata never changes, so what was
    parsed from that place is as good as new. Whoever gets a table must not change its metadata in place.
    """

    def __init__(self, name: str, **properties: str) -> None:
        """Open the catalog; no table is known yet."""
        super().__init__(name, **properties)
        self._known: dict[tuple[str | None, str | None], Table] = {}

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        name = orm_table.table_namespace, orm_table.table_name
        known = self._known.get(name)
        if known is None or known.metadata_location != orm_table.metadata_location:
            known = self._known[name] = super()._convert_orm_to_iceberg(orm_table)
        return Table(
            identifier=Catalog.identifier_to_tuple(known.name()),
            metadata=known.metadata,
            metadata_location=known.metadata_location,
            io=known.io,
            catalog=self,
        )
