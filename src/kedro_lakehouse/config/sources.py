"""Declarations of sources.yml: where records come from, and how their files are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AwareDatetime, BeforeValidator, Discriminator, Field, Tag, model_validator

from kedro_lakehouse.config.base import Declaration, Name, Names, RelativePath, Size, parse_bytes, refuse
from kedro_lakehouse.config.lifetimes import LandingLifetime
from kedro_lakehouse.config.metadata import KafkaMetadataConfig, KinesisMetadataConfig, metadata_of

if TYPE_CHECKING:
    from kedro_lakehouse.config.documents import DocumentRules
    from kedro_lakehouse.config.tables import TableConfig

Load = Literal["full_load", "changes"]
Operation = Literal["upsert", "delete", "truncate"]


class TableProblem(NamedTuple):
    """Why a source cannot feed a table as it is declared: the table's key to blame, and what to do."""

    key: str
    problem: str
    remedy: str


class SourceConfig(Declaration):
    """A source of any type; the model of a plug-in's source inherits from it."""

    type: Name
    """Kind of source: a name that `kedro lakehouse plugins` lists."""
    path: Name
    """Folder of the source's files."""
    max_files: int = Field(10_000, ge=1)
    """Most files that one batch of a table takes."""
    max_bytes: Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=Size)] = Field(
        2 * 1024**3, ge=1
    )
    """Most bytes that one batch takes, at least one file; `512 MiB` works too."""

    def place_of(self, table: TableConfig) -> str:
        """The path or address at which the records of a table arrive."""
        return f"{self.path.rstrip('/')}/{table.entity}"

    def completed(self, table: TableConfig) -> TableConfig:
        """The table's declaration with what its source makes of keys that are not written."""
        return table

    def documents_of(self, table: TableConfig) -> DocumentRules | None:  # noqa: ARG002 - few have documents
        """How the documents that land for a table become rows; None where files hold rows."""
        return None

    def table_problem(self, table: TableConfig) -> TableProblem | None:  # noqa: ARG002 - for plug-ins
        """Say why this source cannot feed a table as it is declared; None where it can."""
        return None


class CsvOptions(Declaration):
    """How text files with separated values are read."""

    header: bool | None = None
    """Whether the first line names the columns; default: by source type."""
    columns: Names | None = None
    """Names of the columns in their order: for files without header, or in the place of what the header says.
    """
    unnamed: Name | None = None
    """Name of the one column that the header leaves without a name, as R and pandas write the names of rows;
    default: such a file is refused.
    """
    delimiter: Name = ","
    """What separates two values."""
    quote: str = Field('"', max_length=1)
    """Character around a value; empty: none."""
    null_value: str = ""
    """Text that stands for null."""
    date_format: Name | None = None
    """Spark pattern of dates; default: ISO 8601."""
    timestamp_format: Name | None = None
    """Spark pattern of timestamps; default: ISO 8601."""
    encoding: Name = "UTF-8"
    """Character set of the files."""
    compression: Name | None = None
    """Codec of the files; default: by the ending of their names."""
    multiline: bool = False
    """Whether a quoted value may hold line ends; such files are not split."""


class CsvByLoad(Declaration):
    """How text files are read where a full load is written otherwise than its changes."""

    full_load: CsvOptions = CsvOptions()
    """Options for files of the full load."""
    changes: CsvOptions = CsvOptions()
    """Options for files of changes."""


def _csv_kind(value: object) -> str:
    by_load = (
        bool({"full_load", "changes"} & set(value))
        if isinstance(value, Mapping)
        else isinstance(value, CsvByLoad)
    )
    return "<by load>" if by_load else "<one>"


CsvChoice = Annotated[
    Annotated[CsvOptions, Tag("<one>")] | Annotated[CsvByLoad, Tag("<by load>")], Discriminator(_csv_kind)
]


class FileSourceConfig(SourceConfig):
    """A source that lands files in a folder."""

    lifetime: LandingLifetime = LandingLifetime()
    """What becomes of landed files in S3 as they grow old: see `lifetime` below."""

    file_format: Literal["parquet", "csv", "json"] = "parquet"
    """Format of the files; json means JSON lines, an object a line, or see `json_layout`."""
    json_layout: Literal["lines", "array"] = "lines"
    """How files of JSON are written: an object a line, or all objects of a file in one array."""
    csv: CsvChoice = CsvOptions()
    """CSV options, for all files or apart as {full_load: {...}, changes: {...}}."""

    def csv_for(self, load: Load) -> CsvOptions:
        """Return the CSV options of one kind of file."""
        return self.csv if isinstance(self.csv, CsvOptions) else getattr(self.csv, load)

    @model_validator(mode="after")
    def _layout_is_of_json(self) -> Self:
        if self.json_layout == "array" and self.file_format != "json":
            raise refuse("only JSON comes in arrays", "Write `file_format: json`.", key="json_layout")
        return self


class DmsSourceConfig(FileSourceConfig):
    """Files of an AWS DMS task: a full load, then changes."""

    sequence_column: Name | None = None
    """Column with AR_H_CHANGE_SEQ, as the task names it."""
    timestamp_column: Name | None = None
    """Column with the commit time, as the task names it."""
    before_image_prefix: Name = "BI_"
    """Prefix of the columns that hold values before the change."""
    full_load: RelativePath = "LOAD*"
    """Pattern of the base names of full-load files."""
    changes: RelativePath = "*"
    """Pattern of the base names of change files; a full-load file is none."""
    op_column: Name = "Op"
    """Column with the operation: I, U or D."""
    shared: bool = False
    """Whether the records of all tables lie together in `path`, as JSON; `entity` then picks a table's own:
    `table` or `schema/table`.
    """
    control_columns: Names = ("db", "schema_name", "table_name")
    """Columns that a table gets only where its `columns` list them."""

    @model_validator(mode="after")
    def _shared_is_json(self) -> Self:
        if self.shared and self.file_format != "json":
            raise refuse("only JSON records name their table", "Remove it, or land JSON.", key="shared")
        return self


_OPERATIONS: Final[Mapping[str, Operation]] = {
    **dict.fromkeys(("I", "U", "insert", "update", "upsert", "c", "r"), "upsert"),
    **dict.fromkeys(("D", "delete", "d"), "delete"),
    **dict.fromkeys(("T", "truncate", "t"), "truncate"),
}


class ChangesSourceConfig(FileSourceConfig):
    """Files that hold only new and changed rows; a key that a file lacks stays as it was."""

    pattern: RelativePath = "*"
    """Pattern of the base names of the files."""
    op_column: Name | None = None
    """Column with the operation; default: every row is an upsert."""
    op_mapping: Mapping[str, Operation] = _OPERATIONS
    """What the values of `op_column` mean; others are quarantined."""

    @model_validator(mode="after")
    def _one_kind_of_file(self) -> Self:
        if isinstance(self.csv, CsvByLoad):
            raise refuse("a source of changes has one kind of file", "Give the options directly.", key="csv")
        if self.op_column is None and "op_mapping" in self.model_fields_set:
            raise refuse(
                "a mapping needs the column that it speaks of", "Name `op_column`.", key="op_mapping"
            )
        return self

    def table_problem(self, table: TableConfig) -> TableProblem | None:
        """Change-only files have no order of their own that would say which row of a key is later."""
        if table.write != "merge" or table.order_by:
            return None
        return TableProblem(
            key="order_by",
            problem="files of changes do not tell which of two rows of a key is later.",
            remedy="List the columns that do, such as [updated_at]; or use a source of type extract.",
        )


class DebeziumSourceConfig(SourceConfig):
    """Files of Debezium's messages: JSON lines, each a message's value or {"key": ..., "value": ...}."""

    file_format: Literal["json"] = "json"
    """Format of the files; json means JSON lines, an object a line."""
    pattern: RelativePath = "*"
    """Pattern of the base names of the files."""
    shared: bool = False
    """Whether the messages of all tables lie together in `path`; `entity` then picks a table's own: `table`,
    `schema/table` or `database/table`.
    """


Compatibility = Literal[
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
]
_RECORD_SOURCES: Final[Mapping[str, str]] = {"json": "changes", "dms-json": "dms"}


class StreamSourceConfig(SourceConfig):
    """A stream of records; a batch of a table is a range of each partition."""

    path: Name = ""
    """Nothing: a stream lies in no folder."""
    file_format: Literal["json"] = "json"
    """Format of the records."""
    decoder: Name = "debezium"
    """What the records are: debezium, dms-json, json (rows, as for a source of changes), or the type of a
    plug-in's source.
    """
    records: Mapping[Name, Any] = {}
    """Keys of a source of that type which say how its records are read, such as `op_column` or `shared`."""
    start: Literal["earliest", "latest"] | AwareDatetime = "earliest"
    """Where a partition begins that no batch has read yet; a time with its zone is possible too."""
    max_records: int = Field(100_000, ge=1)
    """Most records that one batch of a table takes."""
    credentials: Name | None = None
    """Entry of credentials.yml with settings of the stream's client."""
    schema_registry: Name | None = None
    """A registry in registries.yml: records are in Avro, and name their schema there. Default: they are in
    JSON.
    """

    raw: Name | None = None
    """Folder for a copy of what was read, as it was sent: parquet, in a folder for each partition."""
    compatibility: Compatibility = "BACKWARD"
    """Which versions of a schema are read, whatever the registry lets in. BACKWARD: those whose reader can
    read the version before. FORWARD: those that a reader of the version before can read. FULL: both. With
    _TRANSITIVE: the same with all versions before. NONE: every version. Records of others are quarantined.
    """

    @model_validator(mode="after")
    def _compatibility_is_of_schemas(self) -> Self:
        if self.schema_registry is None and "compatibility" in self.model_fields_set:
            raise refuse(
                "only records that name a schema have versions",
                "Name `schema_registry`.",
                key="compatibility",
            )
        return self

    @property
    def record_source(self) -> str:
        """The type of source whose records these are."""
        return _RECORD_SOURCES.get(self.decoder, self.decoder)

    @property
    def of_records(self) -> Mapping[str, Any]:
        """The declaration of a source of that type."""
        return {"type": self.record_source, "path": "none", "file_format": "json", **self.records}

    def stream_of(self, table: TableConfig) -> str:
        """The stream of a table."""
        raise NotImplementedError

    def table_problem(self, table: TableConfig) -> TableProblem | None:
        """Rows have no order of their own: two partitions hold them side by side."""
        facts = {table.rename.get(one.name, one.name) for one in metadata_of(self)}
        if self.decoder != "json" and (named := facts.intersection(table.keys)):
            return TableProblem(
                key="keys",
                problem=f"'{min(named)}' is no column of the row that a change concerns.",
                remedy="List columns of the row; `metadata` can be keys where `decoder` is json.",
            )
        if self.decoder != "json" or table.write != "merge" or table.order_by:
            return None
        return TableProblem(
            key="order_by",
            problem="rows of a stream do not tell which of two rows of a key is later.",
            remedy="List the columns that do, such as [updated_at].",
        )


class KafkaSourceConfig(StreamSourceConfig):
    """Topics of Apache Kafka; a batch of a table is a range of offsets of each partition of its topic.

    `credentials` may hold any setting of Kafka's client, such as `sasl.password`.
    """

    bootstrap_servers: Name
    """Addresses of brokers, `host:port`, with commas between them."""
    topic: Name = "{entity}"
    """Name of a table's topic; `{entity}` stands for the table's `entity`."""
    metadata: KafkaMetadataConfig = KafkaMetadataConfig()
    """Columns with what Kafka tells of a record: `{key: message_key, timestamp: stored_at}`."""
    dead_letter_topic: Name | None = None
    """A topic to which quarantined records are written too, each once; `{entity}` as in `topic`."""

    def dead_letters_of(self, table: TableConfig) -> str | None:
        """The topic for the dead letters of a table."""
        return self.dead_letter_topic and self.dead_letter_topic.replace("{entity}", table.entity)

    def stream_of(self, table: TableConfig) -> str:
        """The topic of a table."""
        return self.topic.replace("{entity}", table.entity)

    def place_of(self, table: TableConfig) -> str:
        """The first broker and the topic."""
        return f"kafka://{self.bootstrap_servers.partition(',')[0]}/{self.stream_of(table)}"


class KinesisSourceConfig(StreamSourceConfig):
    """Streams of Amazon Kinesis; a batch of a table is a range of sequence numbers of each shard.

    `credentials` may hold arguments of boto3's client, such as `endpoint_url`; default: those of the machine
    or the job.
    """

    stream: Name = "{entity}"
    """Name of a table's stream; `{entity}` stands for the table's `entity`."""
    region: Name | None = None
    """Region of AWS; default: that of the machine or the job."""
    metadata: KinesisMetadataConfig = KinesisMetadataConfig()
    """Columns with what Kinesis tells of a record: `{partition_key: user, arrival_time: arrived_at}`."""

    def stream_of(self, table: TableConfig) -> str:
        """The stream of a table."""
        return self.stream.replace("{entity}", table.entity)

    def place_of(self, table: TableConfig) -> str:
        """The region, where it is declared, and the stream."""
        return f"kinesis://{self.region or 'default'}/{self.stream_of(table)}"


class ExtractTime(Declaration):
    """Where an extract's time comes from; never from the clock."""

    from_: Literal["name", "modified"] = Field(alias="from")
    """`name`: the file's name, by `pattern`; `modified`: the file's modification time."""
    pattern: Name | None = None
    """Pattern of the time in the name, such as '%Y-%m-%dT%H%M%SZ'."""

    @model_validator(mode="after")
    def _pattern_goes_with_name(self) -> Self:
        if self.from_ == "name" and (self.pattern is None or "%" not in self.pattern):
            raise refuse(
                "a time from the file's name needs a pattern", "Write for example '%Y-%m-%d'.", key="pattern"
            )
        if self.from_ == "modified" and self.pattern is not None:
            raise refuse(
                "a modification time has no pattern", "Remove it, or use 'from: name'.", key="pattern"
            )
        return self


class ExtractSourceConfig(FileSourceConfig):
    """Full extracts of a table, one file each, distinguished by their times."""

    pattern: RelativePath = "*"
    """Pattern of the names of the files that are extracts."""
    extract_time: ExtractTime
    """Where an extract's time comes from."""

    @model_validator(mode="after")
    def _one_kind_of_file(self) -> Self:
        if isinstance(self.csv, CsvByLoad):
            raise refuse("an extract source has one kind of file", "Give the options directly.", key="csv")
        return self
