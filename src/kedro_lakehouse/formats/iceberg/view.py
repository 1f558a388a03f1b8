"""Views in Iceberg's catalog ``lake``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.iceberg.stage import utilities_of
from kedro_lakehouse.names import CATALOG, TableName
from kedro_lakehouse.session.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFINITION: Final = "kedro_lakehouse.definition"


def ensure_iceberg_view(session: SparkSession, view: TableName, definition: str, digest: str) -> bool:
    """Create a view unless one with this digest exists; True if it was created.

    Raises:
        UnsupportedError: A table has the view's name.
    """
    catalog = utilities_of(session).loadIcebergCatalog(session._jsparkSession, CATALOG)
    name = java_class(session, "org.apache.iceberg.catalog.TableIdentifier").parse(str(view))
    if catalog.viewExists(name):
        if catalog.loadView(name).properties().get(_DEFINITION) == digest:
            return False
    elif catalog.tableExists(name):
        raise UnsupportedError(
            what=f"The name {view} is a table's: no view can bear it.",
            remedy="Give the view another `name` in tables.yml.",
        )
    # Safe in an f-string: the digest is hexadecimal, the definition holds only quoted names and constants
    # of its own.
    session.sql(
        f"CREATE OR REPLACE VIEW {view.sql} TBLPROPERTIES ('{_DEFINITION}' = '{digest}') AS {definition}"
    )
    return True
