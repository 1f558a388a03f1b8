"""The metrics that Spark observed during a write, asked for without waiting for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING:
    from pyspark.sql import Observation


def observed(observation: Observation) -> dict[str, Any]:
    """The metrics of a finished write; none where Spark saw beforehand that no row would come.

    An adaptive plan that turns out empty loses its observations. ``Observation.get`` then fails in
    Spark 4, and waits for ever in Spark 3.
    """
    python: Any = cast("Any", observation)
    inner = python._jo  # noqa: SLF001 - the only way to ask without failing
    if is_spark3():
        # Metrics come with the event of the write's end: once all events are told, they are there or never.
        python._jvm.org.apache.spark.SparkContext.getOrCreate().listenerBus().waitUntilEmpty()
        metrics = inner.getClass().getDeclaredField("metrics")
        metrics.setAccessible(True)
        arrived = metrics.get(inner).isDefined()
    else:
        arrived = inner.getRow().schema() is not None
    return dict(observation.get) if arrived else {}
