"""Change-only files: they hold new and changed rows, and nothing about all other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from kedro_lakehouse.config.sources import ChangesSourceConfig
from kedro_lakehouse.errors import MissingColumnError
from kedro_lakehouse.sources.files import FileShape, LandedFile, Load, list_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.config.sources import CsvOptions
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.decoders.changes import ChangesLayout
    from kedro_lakehouse.names import TableName


class ChangesSource:
    """The change-only files of one table."""

    config_model: ClassVar[type[ChangesSourceConfig]] = ChangesSourceConfig
    gives: ClassVar[Literal["changes", "extracts"]] = "changes"
    decoder: ClassVar[str] = "changes"

    def __init__(self, config: ChangesSourceConfig, name: TableName, table: TableConfig) -> None:
        """Store the declarations; no file is listed yet."""
        self._config, self._name, self._table = config, name, table

    def files(self) -> list[LandedFile]:
        """The landed files, sorted by name."""
        root = f"{self._config.path.rstrip('/')}/{self._table.entity}"
        found = list_files(root, [self._config.pattern], table=self._name, within=self._config.path)
        return sorted(found, key=lambda f: (f.name, f.path))

    def load_of(self, file: LandedFile) -> Load:  # noqa: ARG002 - every file is one
        """Every file holds changes."""
        return "changes"

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """CSV options."""
        return dict.fromkeys(("full_load", "changes"), self._config.csv_for("changes"))

    @property
    def headers(self) -> Mapping[Load, bool]:
        """Such files have a header, unless they are declared without one."""
        given = self._config.csv_for("changes").header
        return dict.fromkeys(("full_load", "changes"), given is not False)

    @property
    def unnamed_columns(self) -> Mapping[Load, Sequence[str]]:
        """The columns of ``types``, in their order."""
        return {"full_load": [], "changes": list(self._table.types)}

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:  # noqa: ARG002
        """The operation column, unless the table's ``columns`` list it."""
        wanted = self._table.columns
        listed = set(wanted.include or ()) if wanted else set()
        return frozenset(c for c in [self._config.op_column] if c is not None and c not in listed)

    def layout(self) -> ChangesLayout:
        """How the decoder finds the operation."""
        from kedro_lakehouse.decoders.changes import ChangesLayout

        return ChangesLayout(
            op=self._config.op_column,
            mapping=self._config.operations,
            upserts_only=self._table.write != "merge",
        )

    def require_columns(self, shapes: Sequence[FileShape]) -> None:
        """Refuse files that lack the operation, an order column or the effective time.

        Raises:
            MissingColumnError: A file with rows lacks such a column.
        """
        table = self._table
        for shape in shapes:
            found = [n for n, _ in shape.columns]
            renamed = {table.rename.get(n, n) for n in found}
            missing = [
                c for c in (*table.order_by, *filter(None, [table.effective_time])) if c not in renamed
            ]
            missing += [c for c in filter(None, [self._config.op_column]) if c not in found]
            if missing and shape.has_rows is not False:
                raise MissingColumnError(
                    table=self._name, missing=missing, found=found, place=shape.file.name
                )
