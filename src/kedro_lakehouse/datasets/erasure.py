"""Requests to erase persons, and the erasure itself, as datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kedro_lakehouse.datasets.base import DeclaredDataset, ReadOnlyDataset
from kedro_lakehouse.erasure.requests import Request, interrupted_requests, known_erasures
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.erasure.requests import KnownErasure


class ErasureRequestsDataset(DeclaredDataset, ReadOnlyDataset):
    """The open requests of a table with ``erasure_requests``: the rows of its current table.

    An erasure takes the current rows first. So where one was interrupted, the persons of whom the change log
    still has events come too. Starts no Spark where there are none.

    Example:
        In YAML::

            "{namespace}.{table}.erasure_requests":
              type: kedro_lakehouse.datasets.ErasureRequestsDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "erasure_requests"
    _itself: ClassVar[str] = "the requests of {}"
    _instead: ClassVar[str] = "Land the requests as the table's source says."

    def load(self) -> list[Request]:
        """The requests, in no order."""
        table, state = self.table, self.table.state("current")
        declared, subject = table.config.erasure_requests, table.config.subject
        if declared is None or subject is None:
            raise UnsupportedError(
                what=f"{self._name} holds no requests.", remedy="Declare `erasure_requests: true`."
            )
        interrupted = interrupted_requests(table, subject.column)
        if state is None or not state.rows:
            return interrupted
        from pyspark.sql import functions as F

        due = f"cast({quote(declared.due)} AS timestamp)" if declared.due else "cast(NULL AS timestamp)"
        rows = table.read("current").select(
            F.expr(f"cast({quote(subject.column)} AS string)").alias("subject"),
            F.expr(f"unix_micros({due}) / 1e6").alias("due"),
        )
        found = rows.where("subject IS NOT NULL").collect()
        return [*(Request.at(row["subject"], row["due"]) for row in found), *interrupted]


class ErasureDataset(DeclaredDataset):
    """The erasure of the persons of requests: saving requests does it, loading says what was done.

    Saving none finishes an erasure that was interrupted after its requests were gone.

    Example:
        In YAML::

            "{namespace}.{table}.erasure":
              type: kedro_lakehouse.datasets.ErasureDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "erasure"

    def load(self) -> list[KnownErasure]:
        """The recorded erasures of the project, newest first."""
        return known_erasures(self.project.ops)

    def save(self, data: Sequence[Request]) -> None:
        """Erase the persons of these requests; the evidence is kept in ``lake.ops.erasures``.

        Raises:
            ErasureNotDoneError: Files still hold a person, or something is left to do.
        """
        from kedro_lakehouse.erasure.erase import erase_requested  # it imports Spark
        from kedro_lakehouse.errors import ErasureNotDoneError

        evidence = erase_requested(self.project, self.table, data)
        if evidence is not None and not evidence.is_done:
            raise ErasureNotDoneError(
                table=self._name,
                erasure=evidence.erasure,
                found=len(evidence.found),
                pending=list(evidence.pending),
            )

    def _exists(self) -> bool:
        return False  # Kedro asks whether a node's output is there already: an erasure never is
