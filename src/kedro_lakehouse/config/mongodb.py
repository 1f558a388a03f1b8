"""Declaration of a source of type mongodb: collections of a database of MongoDB."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from kedro_lakehouse.config.base import Name
from kedro_lakehouse.config.documents import (
    DocumentRules,
    DocumentShape,
    FieldPath,
    OnMixed,
    parse_path,
)
from kedro_lakehouse.config.sources import SourceConfig

if TYPE_CHECKING:
    from kedro_lakehouse.config.tables import TableConfig


class MongoSourceConfig(SourceConfig):
    """Collections and views of a database of MongoDB; the connection string stands in credentials.yml."""

    file_format: Literal["parquet"] = "parquet"
    """Format of landed files: documents as the database stores them, with their `_id`."""
    database: Name
    """Name of the database."""
    document: DocumentShape = "nested"
    """What becomes of a document. `nested`: a column for each of its fields, structs and arrays kept.
    `flatten`: the fields of structs are columns too, as `outer__inner`. `raw`: `_id` and the bytes.
    """
    on_mixed: OnMixed = "quarantine"
    """What becomes of a field whose values have no common type. `quarantine`: it has the type of most, and
    documents with others are set aside. `string`: it is text.
    """
    maps: Mapping[Name, tuple[FieldPath, ...]] = {}
    """Fields whose keys are data, such as codes of countries, as {collection: [paths]}: they become maps."""
    sample: int = Field(10_000, ge=0)
    """So many documents of a collection are looked at by `kedro lakehouse crawl`; 0: all."""

    def documents_of(self, table: TableConfig) -> DocumentRules | None:
        """How a table's documents become rows; None where they stay bytes."""
        if self.document == "raw":
            return None
        return self.rules_of(table.entity)

    def rules_of(self, collection: str) -> DocumentRules:
        """How the documents of a collection become rows."""
        return DocumentRules(
            flatten=self.document == "flatten",
            as_text=self.on_mixed == "string",
            maps=frozenset(map(parse_path, self.maps.get(collection, ()))),
        )
