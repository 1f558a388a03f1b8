"""Change-only files: they hold new and changed rows, and nothing about all other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kedro_lakehouse.config.sources import ChangesSourceConfig
from kedro_lakehouse.sources.base import FolderSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.decoders.changes import ChangesLayout
    from kedro_lakehouse.sources.files import FileShape, LandedFile


class ChangesSource(FolderSource[ChangesSourceConfig]):
    """The change-only files of one table."""

    config_model: ClassVar[type[ChangesSourceConfig]] = ChangesSourceConfig
    decoder: ClassVar[str] = "changes"

    def files(self) -> list[LandedFile]:
        """The landed files, sorted by name."""
        return self._listed(self._config.pattern)

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:  # noqa: ARG002
        """The operation column, unless the table's ``columns`` list it."""
        return self._unless_chosen([self._config.op_column])

    def layout(self) -> ChangesLayout:
        """How the decoder finds the operation."""
        from kedro_lakehouse.decoders.changes import ChangesLayout

        return ChangesLayout(
            op=self._config.op_column,
            mapping=self._config.op_mapping,
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
            missing = [c for c in (*table.order_by, table.effective_time) if c and c not in renamed]
            self._refuse_lack(shape, missing)
            self._refuse_lack(
                shape, [c for c in [self._config.op_column] if c and c not in found], "op_column"
            )
