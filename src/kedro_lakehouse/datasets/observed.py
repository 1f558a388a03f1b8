"""What Spark observed while it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import Observation


def observed(observation: Observation) -> dict[str, Any]:
    """The metrics of a finished write; none where Spark saw beforehand that no row would come.

    An adaptive plan that turns out empty loses its observations, and ``Observation.get`` then fails.
    """
    row = cast("Any", observation)._jo.getRow()  # noqa: SLF001 - the only way to ask without failing
    return dict(observation.get) if row.schema() is not None else {}
