"""The protocol of change decoders: the plug-ins of the group ``kedro_lakehouse.change_decoders``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from kedro_lakehouse.plugins import CHANGE_DECODERS, load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kedro_lakehouse.decoders.lines import LineShape
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


@runtime_checkable
class DecodesFew(Protocol):
    """A decoder that can decode a few lines without Spark; a decoder need not have this.

    Its reader of lines (the decoder itself, or that of plain rows) must find their shapes without Spark, too:
    see ``decoders.lines.ReadsFewLines``. What is decoded here must be what ``decode`` gives.
    """

    def decode_few(
        self,
        lines: pa.Table,
        shapes: Sequence[LineShape],
        layout: Any,
        columns: Columns,
        keys: tuple[str, ...],
    ) -> pa.Table:
        """Decode lines into events, in Arrow.

        Schema:
            lines: ``value``, ``key``, ``_position``, ``__file``.
            returns: as ``ChangeDecoder.decode``, of all lines that are changes; ``_raw`` may be null.

        Raises:
            NotPlainError: A line means something that only Spark is known to tell, or it cannot be
                accepted: Spark then decodes all of them, and keeps the raw record of a bad one.
        """


def load_decoder(name: str) -> ChangeDecoder:
    """The decoder that is registered under a name.

    Raises:
        UnknownPluginError: No installed distribution registers the name.
    """
    return cast("Callable[[], ChangeDecoder]", load_plugin(CHANGE_DECODERS, name))()
