"""The protocol of change decoders: the plug-ins of the group ``kedro_lakehouse.change_decoders``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from kedro_lakehouse.plugins import CHANGE_DECODERS, load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kedro_lakehouse.decoders.records import Columns, RecordGroup


class ChangeDecoder(Protocol):
    """Turns records as a source writes them into change events.

    Register a class whose constructor takes no arguments. Decoders know nothing of files: a group of
    records may come from a folder or from a topic.
    """

    def decode(self, group: RecordGroup, layout: Any, columns: Columns, keys: tuple[str, ...]) -> DataFrame:
        """Decode records of one shape.

        Schema:
            returns: the table's columns that the records have + ``_op`` (null where unknown), ``_order``
                (a struct; absent only where the table's ``order_by`` must give it), ``_time`` (absent where
                the source has no commit time: then the order's first element counts), ``_position``,
                ``_raw``, ``__failed``, ``__malformed``; where the format knows them also ``__before`` (struct
                of the old key where an update changed it, else null) and ``_unset`` (sorted names of the
                columns that were not sent, else null).

        Args:
            layout: The result of the source's ``layout()``: how this source writes the format.

        Returns:
            A lazy frame: calling this function starts no Spark job.
        """


def load_decoder(name: str) -> ChangeDecoder:
    """The decoder that is registered under a name.

    Raises:
        UnknownPluginError: No installed distribution registers the name.
    """
    return cast("Callable[[], ChangeDecoder]", load_plugin(CHANGE_DECODERS, name))()
