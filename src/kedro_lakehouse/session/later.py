"""A Spark frame that is made when something is first done with it: until then no Spark is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING or is_spark3():
    from pyspark.sql import DataFrame
else:
    from pyspark.sql.classic.dataframe import DataFrame

if TYPE_CHECKING:
    from collections.abc import Callable


class FrameLater(DataFrame):
    """A frame like any other, but for the time of its making."""

    def __new__(cls, *_: Any) -> Self:
        """Make no frame yet."""
        return object.__new__(cls)

    def __init__(self, make: Callable[[], DataFrame], attached: object) -> None:
        """Store how the frame is made, and what is ``attached`` to it: that can be looked at before."""
        self.make, self.attached = make, attached

    def __getattr__(self, name: str) -> Any:
        """Make the frame if that was not done, then do as frames do: a missing attribute is a column."""
        if "_jdf" in vars(self):
            return super().__getattr__(name)
        vars(self).update(vars(self.make()))
        return getattr(self, name)

    def __deepcopy__(self, _: Any) -> Self:
        """The frame itself, for frames never change; Kedro hands a frame on as it is by its class's name."""
        return self
