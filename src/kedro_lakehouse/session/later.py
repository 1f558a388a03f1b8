"""A Spark frame that is made when something is first done with it: until then no Spark is started."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Self

from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING or is_spark3():
    from pyspark.sql import DataFrame
else:
    from pyspark.sql.classic.dataframe import DataFrame

if TYPE_CHECKING:
    from collections.abc import Callable


spark_may_wait: ContextVar[bool] = ContextVar("spark_may_wait", default=False)
"""Whether the node that is about to run touches frames only if there is something to do: only our own do.

Another node may make columns before it touches a frame, and PySpark makes none before Spark is there.
"""
_BEFORE: Final = frozenset({"make", "attached", "origin", "__class__", "__dict__", "__deepcopy__"})
"""What can be looked at before the frame is made."""


class FrameLater(DataFrame):
    """A frame like any other, but for the time of its making."""

    def __new__(cls, *_: Any) -> Self:
        """Make no frame yet."""
        return object.__new__(cls)

    def __init__(self, make: Callable[[], DataFrame], attached: object, origin: object = None) -> None:
        """Store how the frame is made; ``attached`` and ``origin`` can be looked at before.

        Args:
            make: Makes the frame.
            attached: The token of the frame's batches.
            origin: What the frame is made of, for who can do without the frame.
        """
        vars(self).update(make=make, attached=attached, origin=origin)

    def __getattribute__(self, name: str) -> Any:
        """Make the frame if that was not done, before anything is asked of it."""
        if name not in _BEFORE and "_jdf" not in vars(self):
            vars(self).update(vars(vars(self)["make"]()))
        return super().__getattribute__(name)

    def __deepcopy__(self, _: Any) -> Self:
        """The frame itself, for frames never change; Kedro hands a frame on as it is by its class's name."""
        return self
