"""Declaration of a source of type mongodb: collections and views of a database of MongoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from kedro_lakehouse.config.base import Name  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.documents import (
    DocumentRules,
    DocumentShape,
    FieldPath,
    OnMixed,
    parse_path,
)
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.pulls import PullConfig
from kedro_lakehouse.config.sources import TableProblem

if TYPE_CHECKING:
    from kedro_lakehouse.config.tables import TableConfig


class MongoPullConfig(PullConfig):
    """How a collection is pulled, and what becomes of its documents."""

    maps: tuple[FieldPath, ...] = ()
    """Fields whose keys are data, such as codes of countries: they become maps. A path is written as
    `name.native`, or `items[].prices` within an array.
    """
    document: DocumentShape | None = None
    """`nested`, `flatten` or `raw`; default: the source's."""
    on_mixed: OnMixed | None = None
    """`quarantine` or `string`; default: the source's."""


class MongoSourceConfig(PulledSourceConfig):
    """Collections and views of a database of MongoDB; the connection string stands in credentials.yml."""

    pull_model: ClassVar[type[PullConfig]] = MongoPullConfig

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
    sample: int = Field(10_000, ge=0)
    """So many documents of a collection are looked at by `kedro lakehouse crawl`; 0: all."""

    def place_of(self, table: TableConfig) -> str:
        """The entry of credentials.yml, which names the server, the database and the collection.

        An address with a server's name could hold a password.
        """
        return f"mongodb://{self.credentials or 'default'}/{self.database}/{table.entity}".rstrip("/")

    def table_problem(self, table: TableConfig) -> TableProblem | None:
        """The server does not tell which transactions are open."""
        if table.pull is not None and table.pull.late == "open_transactions":
            return TableProblem(
                key="pull.late",
                problem="MongoDB does not tell which transactions are open.",
                remedy="Write for example {overlap: 10 min}.",
            )
        return super().table_problem(table)

    def documents_of(self, table: TableConfig) -> DocumentRules | None:
        """How a table's documents become rows; None where they stay bytes."""
        pull = self.pull_of(table)
        own = pull if isinstance(pull, MongoPullConfig) else MongoPullConfig()
        shape, mixed = own.document or self.document, own.on_mixed or self.on_mixed
        if shape == "raw":
            return None
        return DocumentRules(
            flatten=shape == "flatten",
            as_text=mixed == "string",
            maps=frozenset(map(parse_path, own.maps)),
        )
