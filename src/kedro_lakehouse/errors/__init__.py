"""What can go wrong, as types: each leaf keeps its facts, and says what to do."""

from kedro_lakehouse.errors.aws import AwsRefusedError
from kedro_lakehouse.errors.base import (
    MAX_EXAMPLES,
    MAX_MESSAGE,
    LakehouseError,
    TerminalError,
    TransientError,
    UnknownOutcomeError,
    did_you_mean,
    listed,
)
from kedro_lakehouse.errors.batches import (
    BatchContentChangedError,
    BatchNotFoundError,
    RefusedExtractsError,
    SequenceTieError,
    SnapshotDeletesTooManyError,
    SnapshotEmptyError,
    SnapshotOutOfOrderError,
    TooManyInvalidError,
)
from kedro_lakehouse.errors.commits import (
    AuditFailedError,
    CommitConflictError,
    CommitUnknownError,
    NoSuchSnapshotError,
)
from kedro_lakehouse.errors.declarations import (
    ConfigurationError,
    InvalidNameError,
    JavaNotFoundError,
    SparkLineError,
    UnknownPluginError,
    UnsupportedError,
)
from kedro_lakehouse.errors.files import (
    LandedFilesGoneError,
    LogNotFoundError,
    SourceNotFoundError,
    UnreadableFileError,
)
from kedro_lakehouse.errors.models import (
    ColumnNotFoundError,
    IndexEmptyError,
    ModelNotFoundError,
    SearchBelowThresholdError,
)
from kedro_lakehouse.errors.quality import ExpectationFailedError, NothingToWithdrawError
from kedro_lakehouse.errors.schema import (
    FoldRuleDriftError,
    IncompatibleTypeError,
    KeySchemaDriftError,
    MissingColumnError,
    ReservedColumnError,
    SchemaFixedError,
    SequenceTypeDriftError,
    TrackHistoryDriftError,
)

__all__ = [
    "MAX_EXAMPLES",
    "MAX_MESSAGE",
    "AuditFailedError",
    "AwsRefusedError",
    "BatchContentChangedError",
    "BatchNotFoundError",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitUnknownError",
    "ConfigurationError",
    "ExpectationFailedError",
    "FoldRuleDriftError",
    "IncompatibleTypeError",
    "IndexEmptyError",
    "InvalidNameError",
    "JavaNotFoundError",
    "KeySchemaDriftError",
    "LakehouseError",
    "LandedFilesGoneError",
    "LogNotFoundError",
    "MissingColumnError",
    "ModelNotFoundError",
    "NoSuchSnapshotError",
    "NothingToWithdrawError",
    "RefusedExtractsError",
    "ReservedColumnError",
    "SchemaFixedError",
    "SearchBelowThresholdError",
    "SequenceTieError",
    "SequenceTypeDriftError",
    "SnapshotDeletesTooManyError",
    "SnapshotEmptyError",
    "SnapshotOutOfOrderError",
    "SourceNotFoundError",
    "SparkLineError",
    "TerminalError",
    "TooManyInvalidError",
    "TrackHistoryDriftError",
    "TransientError",
    "UnknownOutcomeError",
    "UnknownPluginError",
    "UnreadableFileError",
    "UnsupportedError",
    "did_you_mean",
    "listed",
]
