"""A table of SAP as a pulled source."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from kedro_lakehouse.config.pulls import Overlap
from kedro_lakehouse.config.sap import SapSourceConfig
from kedro_lakehouse.pulls.errors import SourceFault
from kedro_lakehouse.pulls.protocol import Chunk, Entity, EntityColumn, Pull, PullCapabilities, Since
from kedro_lakehouse.pulls.sap.conditions import both, literal
from kedro_lakehouse.pulls.sap.connection import CanCall, answered, clock, connect
from kedro_lakehouse.pulls.sap.table import Key, Row, SapTable
from kedro_lakehouse.pulls.sap.values import column, scale_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kedro_lakehouse.config.sap import SapPullConfig
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName

logger = logging.getLogger(__name__)

_ONE_DAY: Final = dt.timedelta(days=1)
_SCALE: Final = re.compile(r"\(\s*\d+\s*,\s*(\d+)\s*\)")


class SapSource:
    """The rows of one table of SAP."""

    config_model: ClassVar[type[SapSourceConfig]] = SapSourceConfig
    capabilities: ClassVar[PullCapabilities] = PullCapabilities(
        modes=frozenset({"full", "incremental", "snapshot"}), lands="parquet", resumes=True
    )

    def __init__(
        self, config: SapSourceConfig, name: TableName, table: TableConfig, credentials: Mapping[str, Any]
    ) -> None:
        """Keep the declarations and the secrets."""
        self._config, self._name, self._table, self._credentials = config, name, table, credentials
        self._pull = cast("SapPullConfig", config.pull_of(table))
        self._connected: CanCall | None = None

    def describe(self) -> Entity:
        """The fields that are read, with their types in ABAP; RFC_READ_TABLE does not tell keys."""
        fields = self._sap.fields.values()
        return Entity(
            columns=tuple(EntityColumn(name=one.name, type=one.type, nullable=False) for one in fields)
        )

    def plan(self, since: Since) -> Pull | None:
        """The table as it is at SAP's own time, or rows with a date since a day before the last pull."""
        now, ahead, system = clock(self._connection)
        client = str(self._config.connection["client"])
        identity = {"server": f"{system}, client {client}", "table": self._table.entity}
        facts = {"ahead": ahead.total_seconds()}
        begin = None
        if self._mode == "incremental" and since.to is not None:
            last = dt.datetime.fromisoformat(since.to)
            begin = (last - self._overlap).isoformat()
            if now < last:
                return None
        return Pull(from_=begin, to=now.isoformat(), identity=identity, facts=facts)

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """The rows, a range of keys after the other; a state is the last value of the field of ranges."""
        sap, condition = self._sap, both(self._pull.where, self._window(pull))
        keys = sap.read_keys(condition)
        if not keys:
            logger.warning("%s: no data; check table and fields", self._name)
        by = sap.field_for_ranges(keys, self._pull.range_by)
        scales: dict[str, int] = {**(state or {}).get("scales", {})}
        for span, expected in sap.ranges(self._left(keys, by, state), by):
            rows = sap.read_range(span, by, expected, condition)
            table = self._typed(rows, scales)
            yield Chunk(rows=table, state=None if by is None else {"after": span.last, "scales": scales})
        if not keys and state is None:
            yield Chunk(rows=self._typed([], scales))

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connected = self._connected, None
        if connection is not None and hasattr(connection, "close"):
            with contextlib.suppress(SourceFault), answered("close"):
                connection.close()

    @property
    def _connection(self) -> CanCall:
        if self._connected is None:
            self._connected = connect(self._config.connection, self._credentials)
        return self._connected

    @cached_property
    def _sap(self) -> SapTable:
        return SapTable(
            connection=self._connection,
            function=self._config.function,
            name=self._table.entity,
            keys=self._pull.key_fields or self._table.keys,
            wanted=self._pull.fields,
            width=self._config.width,
            rows=self._config.rows,
        )

    @property
    def _mode(self) -> str:
        return self._config.mode_of(self._table)

    @property
    def _overlap(self) -> dt.timedelta:
        late = self._pull.late
        return late.overlap if isinstance(late, Overlap) else _ONE_DAY

    @property
    def _cursor(self) -> str:
        return str(self._pull.cursor)

    def _window(self, pull: Pull) -> str:
        """The condition of a window: dates in SAP's local time, both days included."""
        if self._mode != "incremental":
            return ""
        ahead = dt.timedelta(seconds=pull.facts.get("ahead", 0))
        ends = ((">=", pull.from_), ("<=", pull.to))
        return " AND ".join(
            f"{self._cursor} {sign} {literal((dt.datetime.fromisoformat(end) + ahead).strftime('%Y%m%d'))}"
            for sign, end in ends
            if end is not None
        )

    def _left(self, keys: Sequence[Key], by: str | None, state: Mapping[str, Any] | None) -> Sequence[Key]:
        """The keys that are to be read: those that the declaration limits them to, after the state."""
        at = 0 if by is None else self._sap.keys.index(by)
        first, count = self._pull.from_row, self._pull.max_rows
        if first or count is not None:
            chosen = sorted(keys, key=lambda key: (key[at], key))[first:]
            keys = chosen if count is None else chosen[:count]
        return keys if state is None else [key for key in keys if key[at] > state["after"]]

    def _typed(self, rows: Sequence[Row], scales: dict[str, int]) -> pa.Table:
        """Rows as an Arrow table; the decimals of packed numbers are noted with the first of them."""
        import pyarrow as pa

        columns = {}
        for name, field in self._sap.fields.items():
            texts = [row[name] for row in rows]
            if field.type == "P" and (found := scale_of(field, texts)) is not None:
                scales.setdefault(name, found)
            scale = scales.get(name, self._declared_scale(name))
            columns[name] = column(field, texts, scale)
        return pa.table(columns)

    def _declared_scale(self, name: str) -> int:
        found = _SCALE.search(self._table.types.get(self._table.rename.get(name, name), ""))
        return int(found[1]) if found else 0
