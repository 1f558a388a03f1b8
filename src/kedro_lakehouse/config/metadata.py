"""What a stream tells of a record beside its value, named as columns: declarations of sources.yml."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import model_validator

from kedro_lakehouse.config.base import Declaration, Name, refuse
from kedro_lakehouse.names import is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELD: Final = "metadata"
"""The field of ``_position`` in which facts travel from a source to the columns of its records."""
Fact = Literal["key", "time", "partition", "partition_number", "offset", "sequence_number", "header"]


class MetadataColumn(NamedTuple):
    """A column with a fact about each record; ``header`` is the name of a header of Kafka."""

    name: str
    fact: Fact
    header: str = ""


class MetadataConfig(Declaration):
    """The facts of any stream: a plug-in's model inherits from it, and says what its keys mean."""

    facts: ClassVar[Mapping[str, Fact]] = {}
    """What each key stands for."""

    def columns(self) -> tuple[MetadataColumn, ...]:
        """The declared columns, in the order of the keys."""
        return tuple(self._found())

    def _found(self) -> Iterator[MetadataColumn]:
        for key, fact in self.facts.items():
            name = getattr(self, key)
            if name is not None:
                yield MetadataColumn(name, fact)

    @model_validator(mode="after")
    def _names_are_free(self) -> Self:
        seen = set[str]()
        for name, *_ in self.columns():
            # Names that begin with two underscores are those of decoders.
            if is_reserved_column(name) or name.startswith("__") or not name:
                raise refuse(f"the column name '{name}' is reserved", "Choose another name.")
            if name.lower() in seen:
                raise refuse(
                    f"two facts are to be the column '{name}' (case does not count)",
                    "Give each a name of its own.",
                )
            seen.add(name.lower())
        return self


class KafkaMetadataConfig(MetadataConfig):
    """What Kafka tells of a record, each as a column with the name that is given here.

    Key and headers are text; bytes that are no text are `base64:...`. Where `types` of the table declares
    `binary` for such a column, it has the bytes as they were sent.
    """

    facts: ClassVar[Mapping[str, Fact]] = {
        "key": "key",
        "timestamp": "time",
        "partition": "partition_number",
        "offset": "offset",
    }

    key: Name | None = None
    """The record's key; in Avro it becomes JSON, as values do."""
    timestamp: Name | None = None
    """The record's time: when the broker stored it, or when its producer made it, as the topic is set up."""
    partition: Name | None = None
    """The number of the partition, int."""
    offset: Name | None = None
    """The offset, bigint."""
    headers: Mapping[Name, Name] = {}
    """Columns by the names of headers. Null where a record has no such header; of several the last."""

    def _found(self) -> Iterator[MetadataColumn]:
        yield from super()._found()
        for header, name in self.headers.items():
            yield MetadataColumn(name, "header", header)


class KinesisMetadataConfig(MetadataConfig):
    """What Kinesis tells of a record, each as a column with the name that is given here."""

    facts: ClassVar[Mapping[str, Fact]] = {
        "partition_key": "key",
        "arrival_time": "time",
        "shard": "partition",
        "sequence_number": "sequence_number",
    }

    partition_key: Name | None = None
    """The partition key, text."""
    arrival_time: Name | None = None
    """When the record came, approximately (ApproximateArrivalTimestamp), timestamp."""
    shard: Name | None = None
    """The id of the shard, text."""
    sequence_number: Name | None = None
    """The sequence number, text of 56 digits: so it is ordered as the numbers are."""


def metadata_of(declared: Any) -> tuple[MetadataColumn, ...]:
    """The columns of a source's declaration; none where its type has no such key."""
    found = getattr(declared, "metadata", None)
    return found.columns() if isinstance(found, MetadataConfig) else ()
