"""Debezium's messages in files of JSON lines, as sinks write a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kedro_lakehouse.config.sources import DebeziumSourceConfig
from kedro_lakehouse.sources.base import FolderSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.decoders.debezium import DebeziumLayout
    from kedro_lakehouse.sources.files import FileShape, LandedFile


class DebeziumSource(FolderSource[DebeziumSourceConfig]):
    """The files with the messages of one table; snapshot rows are changes like others."""

    config_model: ClassVar[type[DebeziumSourceConfig]] = DebeziumSourceConfig
    decoder: ClassVar[str] = "debezium"
    keyed: ClassVar[bool] = True

    def files(self) -> list[LandedFile]:
        """The landed files, sorted by name."""
        return self._listed(self._config.pattern, shared=self._config.shared)

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:
        """The columns that Debezium adds begin with two underscores; a renamed one counts as data."""
        added = {c for c in source_columns if c.startswith("__")}
        return frozenset(added - self._table.rename.keys())

    def layout(self) -> DebeziumLayout:
        """What the decoder must know about the table."""
        from kedro_lakehouse.decoders.debezium import DebeziumLayout

        return DebeziumLayout(
            table=str(self._name),
            ordered=bool(self._table.order_by),
            entity=tuple(self._table.entity.split("/")) if self._config.shared else None,
        )

    def require_columns(self, shapes: Sequence[FileShape]) -> None:
        """Require nothing beyond the keys, which every source must have."""
