"""Read the metrics that Spark observed during a write, without waiting for ever."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, cast

from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING:
    from pyspark.sql import Observation


def observed(observation: Observation) -> dict[str, Any]:
    """The metrics of a finished write; empty if Spark saw beforehand that there would be no rows.

    An adaptive plan that turns out empty loses its observations. ``Observation.get`` then fails in
    Spark 4, and waits for ever in Spark 3.
    """
    python: Any = cast("Any", observation)
    inner = python._jo  # noqa: SLF001 - the only way to ask without failing
    if is_spark3():
        # Metrics arrive with the event of the write's end: once all events are handled, no more will come.
        getattr(python._jvm, "org.apache.spark.SparkContext").getOrCreate().listenerBus().waitUntilEmpty()
        metrics = inner.getClass().getDeclaredField("metrics")
        metrics.setAccessible(True)
        if not metrics.get(inner).isDefined():
            return {}
        return {name: _python(value) for name, value in observation.get.items()}
    return dict(observation.get) if inner.getRow().schema() is not None else {}


def _python(value: Any) -> Any:
    """A metric as Spark 4 returns it: Spark 3 returns times as Java objects."""
    from py4j.java_gateway import JavaObject
    from pyspark.sql.types import TimestampType

    if not isinstance(value, JavaObject):
        return value
    kind = value.getClass().getName()
    if kind == "java.sql.Timestamp":
        return TimestampType().fromInternal(value.getTime() // 1000 * 10**6 + value.getNanos() // 1000)
    return (dt.date if kind == "java.sql.Date" else dt.datetime).fromisoformat(value.toString())
