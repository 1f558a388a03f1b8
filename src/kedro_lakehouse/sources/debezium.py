"""Debezium's messages in files of JSON lines, as sinks write a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from kedro_lakehouse.config.sources import CsvOptions, DebeziumSourceConfig
from kedro_lakehouse.sources.files import FileShape, LandedFile, Load, list_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.decoders.debezium import DebeziumLayout
    from kedro_lakehouse.names import TableName


class DebeziumSource:
    """The files with the messages of one table."""

    config_model: ClassVar[type[DebeziumSourceConfig]] = DebeziumSourceConfig
    gives: ClassVar[Literal["changes", "extracts"]] = "changes"
    decoder: ClassVar[str] = "debezium"
    keyed: ClassVar[bool] = True

    def __init__(self, config: DebeziumSourceConfig, name: TableName, table: TableConfig) -> None:
        """Store the declarations; no file is listed yet."""
        self._config, self._name, self._table = config, name, table

    def files(self) -> list[LandedFile]:
        """The landed files, sorted by name."""
        root = self._config.path.rstrip("/")
        if not self._config.shared:
            root = f"{root}/{self._table.entity}"
        found = list_files(root, [self._config.pattern], table=self._name, within=self._config.path)
        return sorted(found, key=lambda f: (f.name, f.path))

    def load_of(self, file: LandedFile) -> Load:  # noqa: ARG002 - snapshot rows are changes like others
        """Every file holds changes."""
        return "changes"

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """CSV defaults: JSON has no such options; text without a schema is cast as Spark casts it."""
        return dict.fromkeys(("full_load", "changes"), CsvOptions())

    @property
    def headers(self) -> Mapping[Load, bool]:
        """JSON names its columns in every line."""
        return dict.fromkeys(("full_load", "changes"), True)

    @property
    def unnamed_columns(self) -> Mapping[Load, Sequence[str]]:
        """None: JSON names its columns."""
        return {"full_load": [], "changes": []}

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
