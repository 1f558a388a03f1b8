"""Tables of Iceberg that lie elsewhere, registered in the lake's own catalog, so that ``sql`` finds them."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kedro_lakehouse.discovery.found import FoundDataset
    from kedro_lakehouse.session.catalog import MetadataCatalog

logger = logging.getLogger(__name__)

REGISTERED: Final = "register"
"""Option of a dataset whose place says ``register: true``."""


def tables_to_register(found: Sequence[FoundDataset]) -> dict[str, str]:
    """The file of metadata of each table that is to be registered, by the table's name."""
    return {one.name: one.mark for one in found if one.kind == "iceberg" and one.options.get(REGISTERED)}


def register_tables(
    catalog: MetadataCatalog, wanted: Mapping[str, str], declared: Collection[TableName]
) -> list[str]:
    """Let the lake's catalog name these tables as they are now; those that it names already stay as they are.

    A registered table is read only: it belongs to the catalog that it comes from. Where its metadata went on,
    the lake's entry is removed and made anew: for a moment there is none.

    Args:
        catalog: The lake's catalog.
        wanted: The file of metadata of each table, by name.
        declared: The tables of tables.yml and convert.yml, whose names are taken.

    Returns:
        The names of the tables whose entry was written.

    Raises:
        ConfigurationError: A name is that of another table of the lake.
    """
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    written = []
    for text, metadata in wanted.items():
        name = TableName.parse(text)
        held = catalog.find(name)
        if name in declared or (held is not None and not _is_same(held.metadata_location, metadata)):
            raise ConfigurationError(
                file="discovery.yml",
                key="places",
                problem=f"'{text}' is to be registered, but is another table of the lake.",
                remedy="Give the place another `namespace` or `table_prefix`.",
            )
        if held is not None and held.metadata_location == metadata:
            continue
        lake = catalog.create()
        with contextlib.suppress(NamespaceAlreadyExistsError):
            lake.create_namespace(name.namespace)
        if held is not None:
            lake.drop_table(name.identifier)  # the entry alone: no file is touched
        lake.register_table(name.identifier, metadata)
        written.append(text)
        logger.info("%s is registered in the lake's catalog.", text)
    return written


def _is_same(one: str, other: str) -> bool:
    """Whether two files are metadata of one table: they lie in one folder."""
    return one.rpartition("/")[0] == other.rpartition("/")[0]
