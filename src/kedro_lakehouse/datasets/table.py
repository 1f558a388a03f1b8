"""Current and history tables, and the events that they do not have yet."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, ClassVar

from kedro_lakehouse.commits.published import Published, published
from kedro_lakehouse.datasets.base import DeclaredDataset, ReadOnlyDataset
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.logs.context import working_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.plan import Kind, MergePlan
    from kedro_lakehouse.datasets.viz import TablePreview
    from kedro_lakehouse.names import Role, TableName


class TableDataset(DeclaredDataset):
    """The current or the history table of a declaration.

    ``load_args`` may hold ``as_of``, a time (UTC where it names no zone): of a current table
    the state that was published then, of a history the versions that were in effect then.

    Example:
        In YAML::

            "{namespace}.{table}.history":
              type: kedro_lakehouse.datasets.TableDataset
              table: "{namespace}.{table}"
              kind: history
    """

    role: ClassVar[str] = "table"

    def __init__(
        self,
        *,
        table: str,
        kind: Kind,
        load_args: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Keep the names: nothing is read yet."""
        super().__init__(table=table, metadata=metadata)
        self._kind = self._stored_as = kind
        self._load_args = dict(load_args or {})

    def load(self) -> DataFrame:
        """The published table as a lazy frame.

        Raises:
            UnsupportedError: Nothing was published yet.
        """
        if not self._exists():
            raise UnsupportedError(
                what=f"The table {self._stored} holds nothing yet.",
                remedy="Run `kedro run` after its files have landed.",
            )
        as_of = self._load_args.get("as_of")
        if as_of is None:
            return self.table.format.read(self._stored)
        time = as_of if isinstance(as_of, dt.datetime) else dt.datetime.fromisoformat(str(as_of))
        time = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
        if self._kind == "current":
            return self.table.format.read_at(self._stored, time)
        from kedro_lakehouse.changes.history import as_of as versions_as_of

        return versions_as_of(self.table.format.read(self._stored), time, self.table.contract)

    def preview(self, nrows: int = 5) -> TablePreview:
        """Some published rows for kedro-viz; personal columns stay closed."""
        return self._preview(nrows, "effective_from", "effective_to", "is_current")

    def save(self, data: MergePlan | DataFrame) -> None:
        """Apply the events of a plan that are pending, and commit what changes, with the bookmark.

        A frame of events is applied by the declared rules. After a history's commit the view beside it is as
        declared.
        """
        from kedro_lakehouse.changes.plan import MergePlan
        from kedro_lakehouse.commits.target import commit_pending
        from kedro_lakehouse.commits.token import BatchToken

        plan = data
        if not isinstance(plan, MergePlan):
            plan = MergePlan(kind=self._kind, contract=self.table.contract, events=plan)
        token = BatchToken.of(plan.events)
        with working_on(batch=token.batch or None):
            commit_pending(self.table, (plan, token))


class PendingDataset(DeclaredDataset, ReadOnlyDataset):
    """The accepted events that the current or history table does not have yet.

    Loading fixes which batches these are: events that arrive later are left to the next run. For a table
    that is up to date it gives an empty frame.

    Example:
        In YAML::

            "{namespace}.{table}.pending_current":
              type: kedro_lakehouse.datasets.PendingDataset
              table: "{namespace}.{table}"
              target: current
    """

    role: ClassVar[str] = "pending"
    _itself: ClassVar[str] = "the pending events of {}"
    _instead: ClassVar[str] = "Save to the dataset 'changes'."
    _stored_as: Role = "changes"

    def __init__(self, *, table: str, target: Kind, metadata: dict[str, Any] | None = None) -> None:
        """Keep the names: nothing is read yet."""
        super().__init__(table=table, metadata=metadata)
        self._target: Kind = target

    def load(self) -> DataFrame:
        """A lazy frame of change events; starts no Spark job."""
        from kedro_lakehouse.commits.target import load_pending

        plan, token = load_pending(self.table, self._target)
        return token.mark(plan.events)


class PublishedDataset(DeclaredDataset):
    """A table as others read it: tables that are made from it, expectations, the column index.

    With ``kind: history`` it is the table's history, for lookups as of the time of an event.

    Saving stores nothing: the plan of the table itself is saved to ``current`` or ``history`` before it.

    Example:
        In YAML::

            "{namespace}.{table}.published":
              type: kedro_lakehouse.datasets.PublishedDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "published"

    def __init__(
        self, *, table: str, kind: Kind | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        """Keep the names: nothing is read yet."""
        super().__init__(table=table, metadata=metadata)
        self._kind = kind

    def load(self) -> Published | None:
        """The published state, with its rows as a lazy frame; None before the table's first commit."""
        return published(self.table, self._kind)

    def preview(self, nrows: int = 5) -> TablePreview:
        """Some published rows for kedro-viz; personal columns stay closed."""
        return self._preview(nrows, "effective_from", "effective_to", "is_current")

    @property
    def _stored(self) -> TableName:
        return self._name.with_suffix(self._kind or self.table.targets[0])

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._name), "role": self.role}

    def save(self, data: object) -> None:
        """Store nothing."""
