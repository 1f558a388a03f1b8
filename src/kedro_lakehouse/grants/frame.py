"""The granted frame: the rows and columns of a table that a role may see, masked before any engine has them.

What is not granted never leaves the scan: rows are filtered by Iceberg while files are read, columns that are
not granted are not read, masked ones are replaced. So no query, however written, can reach more.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.config.grants import GRANTS_FILE, columns_of, row_filter
from kedro_lakehouse.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, Table
    from pyiceberg.types import NestedField

    from kedro_lakehouse.config.grants import Mask
    from kedro_lakehouse.grants.access import TableAccess

HIDDEN: Final = "****"
"""What stands for a masked text, so that its length tells nothing."""
_SHOWN_OF_LAST4: Final = 4
_LEAST_FOR_LAST4: Final = 8
"""A shorter text would be shown by half or more: nothing of it is."""


class GrantedFrame:
    """One stored table as a role may see it, in the schema of one of its states.

    Columns are known by their field ids: one that had another name at the time is masked and hidden all the
    same.

    Raises:
        ConfigurationError: The grant names a column that the table never had.
    """

    def __init__(self, access: TableAccess, table: Table, schema: Schema) -> None:
        """Settle what is shown; no row is read."""
        self._access, self._table, self._schema = access, table, schema
        access.refuse_unknown({f.name for one in (schema, *table.schemas().values()) for f in one.fields})
        if not self.columns:
            raise self._mistake("columns", "the role sees none of the table's columns.")

    @cached_property
    def columns(self) -> list[str]:
        """The columns that are shown, in the table's order, by their names in the schema."""
        return [field.name for field in self._schema.fields if self._shows(field)]

    @cached_property
    def unmasked(self) -> list[str]:
        """The shown columns that hold what is stored: by these alone may rows be chosen before the mask."""
        return [f.name for f in self._schema.fields if self._shows(f) and self._mask(f) == "none"]

    def empty(self) -> pa.Table:
        """The shown columns with their types, and no row."""
        return self._masked(self._schema.as_arrow().empty_table().select(self.columns))

    def read(
        self,
        columns: Collection[str],
        *,
        where: BooleanExpression | None = None,
        snapshot: int | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The granted rows that meet a condition, with these of the shown columns; see ``scan``."""
        found = self.scan(columns, where=where, snapshot=snapshot, limit=limit).to_arrow()
        return self.shown(found, columns)

    def scan(
        self,
        columns: Collection[str],
        *,
        where: BooleanExpression | None = None,
        snapshot: int | None = None,
        limit: int | None = None,
    ) -> DataScan:
        """The scan of the granted rows that meet a condition; what it reads is not masked: see ``shown``.

        Args:
            where: It may only be about columns that are not masked.
        """
        from pyiceberg.expressions import AlwaysTrue, And

        # Names of columns in SQL have no case.
        return self._table.scan(
            row_filter=And(self._rows, where or AlwaysTrue()),
            selected_fields=self._wanted(columns),
            snapshot_id=snapshot,
            limit=limit,
            case_sensitive=False,
        )

    def shown(self, rows: pa.Table, columns: Collection[str]) -> pa.Table:
        """The rows of a scan with these of the shown columns, masked."""
        return self._masked(rows.select(self._wanted(columns)))

    def _wanted(self, columns: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name in columns)

    @cached_property
    def _rows(self) -> BooleanExpression:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.expressions.visitors import bind

        if self._access.rows is None:
            return AlwaysTrue()
        wanted, ids = row_filter(self._access.rows), set[int]()
        names = {name.lower() for name in columns_of(wanted)}
        try:
            for schema in (self._schema, self._table.schema()):
                bind(schema, wanted, case_sensitive=False)
                ids |= {schema.find_field(name, case_sensitive=False).field_id for name in names}
        except (ValueError, TypeError) as error:
            problem = "a constant does not fit its column, or this state of the table lacks the column."
            raise self._mistake("rows", problem) from error
        if len(ids) != len(names):
            raise self._mistake("rows", "in this state of the table a column of this name is another one.")
        return wanted

    def _shows(self, field: NestedField) -> bool:
        return self._access.shows(self._present_name(field))

    def _mask(self, field: NestedField) -> Mask:
        return self._access.mask_of(self._present_name(field))

    def _present_name(self, field: NestedField) -> str:
        """The name by which grants know a column: the one that it has now, or the last one that it had."""
        now = self._table.schema().find_column_name(field.field_id)
        return now or field.name

    def _masked(self, rows: pa.Table) -> pa.Table:
        by_name = {field.name: self._mask(field) for field in self._schema.fields}
        for place, name in enumerate(rows.column_names):
            if by_name[name] != "none":
                rows = rows.set_column(place, name, masked(rows.column(name), by_name[name]))
        return rows

    def _mistake(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError(
            file=GRANTS_FILE,
            key=f"{self._access.role}[{self._access.number}].{key}",
            problem=f"{self._access.table}: {problem}",
            remedy="Correct the grant: until then the role sees nothing of the table.",
        )


def masked(values: pa.ChunkedArray, mask: Mask) -> pa.ChunkedArray:
    """Values as a mask shows them; null stays null, and no length of a text is told.

    ``last4`` shows the last four characters of texts and numbers that have eight or more. What is no text is
    null under ``redact``, and so is what has no text of its own under ``last4``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if mask == "hide" or not (is_text or (is_number and mask == "last4")):
        return pa.chunked_array([pa.nulls(len(values), kind)], kind)
    texts = pc.cast(values, pa.string())
    hidden = pa.scalar(HIDDEN)
    if mask == "last4":
        ends = pc.binary_join_element_wise(hidden, pc.utf8_slice_codeunits(texts, -_SHOWN_OF_LAST4), "")
        shown = pc.if_else(pc.greater_equal(pc.utf8_length(texts), _LEAST_FOR_LAST4), ends, hidden)
    else:
        shown = pc.if_else(pc.is_valid(texts), hidden, pa.scalar(None, pa.string()))
    made = pc.cast(shown, pa.string())
    return made if isinstance(made, pa.ChunkedArray) else pa.chunked_array([made], pa.string())
