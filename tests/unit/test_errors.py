"""Each error keeps its facts, names its code and stays short."""

import copy
import pickle
import re

import pytest
from kedro.io import DatasetError

from kedro_lakehouse import errors
from kedro_lakehouse.errors import (
    CommitConflictError,
    CommitUnknownError,
    ConfigurationError,
    ExpectationFailedError,
    IncompatibleTypeError,
    LakehouseError,
    MissingColumnError,
    RefusedExtractsError,
    SnapshotDeletesTooManyError,
    SnapshotEmptyError,
    TerminalError,
    TransientError,
    UnknownOutcomeError,
    UnreadableFileError,
    did_you_mean,
    listed,
)

pytestmark = pytest.mark.unit

MARKERS = (TransientError, TerminalError, UnknownOutcomeError)
EMPTY = SnapshotEmptyError(table="a.b", extract="x.csv")
FACTS = {
    "ERASURE_NOT_DONE": {"table": "a.b", "erasure": "0123456789ab", "found": 2, "pending": ["x"]},
    "OFFSETS_GONE": {"table": "a.b", "partition": "t:0", "wanted": 3, "earliest": 5},
    "TOPIC_REPLACED": {"table": "a.b", "topic": "t"},
    "SOURCE_UNREACHABLE": {"table": "a.b", "place": "topic t", "detail": "timed out"},
    "SOURCE_REFUSED": {"table": "a.b", "place": "postgresql://db/shop/b", "reason": "no such table"},
    "SOURCE_CHANGED": {"table": "a.b", "place": "postgresql://db/shop/b", "reason": "its server is another"},
    "PULL_UNSTABLE": {"table": "a.b", "place": "https://api/b", "reason": "its pages moved"},
    "TYPE_NOT_EXACT": {"table": "a.b", "place": "postgresql://db/shop/b", "reason": "a date of infinity"},
    "PULL_TOO_LARGE": {"table": "a.b", "number": 3, "limit": "10 rows"},
    "BOOKMARK_GONE": {"table": "a.b", "number": 3},
    "CLOCK_BEHIND": {"table": "a.b", "newest": "2026-11-23 12:00:00", "now": "2026-11-23 11:50:00"},
    "CONFIGURATION": {"file": "tables.yml", "key": "a.b.keys", "problem": "bad.", "remedy": "Mend it."},
    "INVALID_NAME": {"name": "A", "problem": "is not lower-case"},
    "UNKNOWN_NAME": {
        "option": "--namespaces",
        "kind": "namespace",
        "name": "shp",
        "known": ["shop"],
        "remedy": "`kedro registry list` names the pipelines.",
    },
    "PLACE_UNUSABLE": {"path": "/lake", "problem": "permission denied", "remedy": "Give it."},
    "UNKNOWN_PLUGIN": {"group": "g", "name": "dmss", "known": ["dms"]},
    "JAVA_NOT_FOUND": {},
    "OUT_OF_MEMORY": {"said": "OutOfMemoryError: Java heap space"},
    "SQL_VALUE": {"condition": "CAST_INVALID_INPUT"},
    "JAR_REFUSED": {"jar": "a-1.jar", "expected": "0a", "found": "0b", "folder": ".cache/ivy"},
    "JARS_NOT_FETCHED": {"packages": ["org:a:1"], "log": ".cache/ivy/fetch.log"},
    "SPARK_NOT_STARTED": {},
    "SPARK_LINE": {"needed": "spark35", "found": "spark41", "folder": ".venv-spark35"},
    "DISCOVERY_CHANGED": {"changes": ["found.orders: column note is gone: string"]},
    "AWS_REFUSED": {"what": "the secret 'x'", "reason": "AccessDeniedException"},
    "UNSUPPORTED": {"what": "No.", "remedy": "Do otherwise."},
    "MISSING_COLUMN": {"table": "a.b", "missing": ["idd"], "found": ["id"], "place": "LOAD1.parquet"},
    "RESERVED_COLUMN": {"table": "a.b", "columns": ["_op"]},
    "INCOMPATIBLE_TYPE": {
        "table": "a.b",
        "column": "c",
        "existing": "int",
        "incoming": "string",
        "place": "f.csv",
    },
    "SCHEMA_FIXED": {"table": "a.b", "columns": ["c"], "place": "f.parquet"},
    "FOLD_RULE_DRIFT": {"table": "a.b", "existing": ["on_tie upsert_wins"], "declared": ["on_tie fail"]},
    "KEY_SCHEMA_DRIFT": {"table": "a.b", "existing": ["id"], "declared": ["id", "x"]},
    "SEQUENCE_TYPE_DRIFT": {"table": "a.b", "existing": "bigint", "declared": "string"},
    "TRACK_HISTORY_DRIFT": {"table": "a.b", "existing": ["x"], "declared": ["y"]},
    "SEQUENCE_TIE": {"table": "a.b", "batch": 3, "ties": 2},
    "TOO_MANY_INVALID": {"table": "a.b", "batch": 3, "invalid": 2, "total": 10, "limit": 0.1},
    "SNAPSHOT_EMPTY": {"table": "a.b", "extract": "x.csv"},
    "SNAPSHOT_DELETES_TOO_MANY": {
        "table": "a.b",
        "extract": "x.csv",
        "deletes": 80,
        "rows": 100,
        "limit": 0.3,
    },
    "SNAPSHOT_OUT_OF_ORDER": {"table": "a.b", "extract": "x.csv", "last": "y.csv"},
    "EXTRACTS_REFUSED": {"table": "a.b", "errors": [EMPTY]},
    "BATCH_CONTENT_CHANGED": {"table": "a.b", "batch": 3, "detail": "other files"},
    "AUDIT_FAILED": {"table": "a.b", "batch": 3, "check": "row arithmetic", "expected": 5, "found": 4},
    "COMMIT_CONFLICT": {"table": "a.b", "attempts": 7},
    "LEDGER_GAP": {"table": "a.b", "batch": 4},
    "LEASE_LOST": {"table": "a.b", "stage": "current"},
    "COMMIT_UNKNOWN": {"table": "a.b", "batch": 3},
    "NO_SUCH_SNAPSHOT": {"table": "a.b", "wanted": "batch 3", "known": ["batch 2", "batch 1"]},
    "EXPECTATION_FAILED": {"table": "a.b", "batch": 3, "rows": 2, "expectations": ["expect_x(column=c)"]},
    "NOTHING_TO_WITHDRAW": {"table": "a.b", "batch": 3, "blocked_by": [4]},
    "UNREADABLE_FILE": {"table": "a.b", "file": "x.parquet", "detail": "no footer"},
    "BATCH_NOT_FOUND": {"table": "a.b", "batch": 9, "last": 3},
    "LANDED_FILES_GONE": {"table": "a.b", "missing": ["x.csv"], "purpose": "ingest them again"},
    "MODEL_NOT_FOUND": {"model": "m", "problem": "it is not there", "remedy": "Fetch it."},
    "INDEX_EMPTY": {"model": "m", "indexed": ["hash"]},
    "COLUMN_NOT_FOUND": {"column": "a.b.c", "columns": 3},
    "SEARCH_BELOW_THRESHOLD": {"measures": ["m mrr 0.1 < 0.7"]},
    "LOG_NOT_FOUND": {"id": "manual__1", "kept": ["run1"]},
    "RUN_NOT_FOUND": {"wanted": "20261", "known": ["20261125T1_a", "20261125T2_b"]},
    "SOURCE_NOT_FOUND": {"table": "a.b", "path": "/landing/b", "remedy": "Create it."},
}
LEAVES = {
    cls.code: cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, LakehouseError) and cls.code != LakehouseError.code
}


def test_codes_are_the_contracts_and_told_apart():
    assert set(LEAVES) == set(FACTS)


@pytest.mark.parametrize("code", FACTS)
def test_leaf_keeps_its_facts_and_says_what_to_do(code):
    error = LEAVES[code](**FACTS[code])
    assert isinstance(error, DatasetError)
    assert sum(isinstance(error, marker) for marker in MARKERS) == 1
    assert {name: getattr(error, name) for name in FACTS[code]} == FACTS[code]
    what, advice = error.sentences()
    assert str(error) == f"[{code}] {what} {advice}"
    assert advice.endswith(".")
    assert "{" not in str(error)


@pytest.mark.parametrize("code", FACTS)
def test_every_error_names_the_next_command(code):
    assert "`kedro " in LEAVES[code](**FACTS[code]).sentences()[1]


@pytest.mark.parametrize("code", FACTS)
def test_first_sentence_shows_every_fact(code):
    what, advice = LEAVES[code](**FACTS[code]).sentences()
    for fact in FACTS[code].values():
        for shown in fact if isinstance(fact, list) else [fact]:
            text = shown.extract if isinstance(shown, SnapshotEmptyError) else str(shown)
            assert text in f"{what} {advice}"


@pytest.mark.parametrize("code", FACTS)
def test_message_is_bounded_and_keeps_its_advice_whatever_the_facts(code):
    long = {
        name: "é" * 3000 if isinstance(fact, str) else [fact[0]] * 300 if isinstance(fact, list) else fact
        for name, fact in FACTS[code].items()
        if name != "table"
    }
    error = LEAVES[code](**FACTS[code] | long)
    assert len(str(error)) <= 700
    if "remedy" not in FACTS[code]:
        assert str(error).endswith(error.sentences()[1])


@pytest.mark.parametrize("code", FACTS)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301
def test_error_crosses_a_process_border_with_its_facts(code, again):
    error = LEAVES[code](**FACTS[code])
    other = again(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert other.__dict__.keys() == error.__dict__.keys()


@pytest.mark.parametrize("code", [code for code in FACTS if FACTS[code]])
def test_facts_are_given_by_keyword_only(code):
    with pytest.raises(TypeError):
        LEAVES[code](*FACTS[code].values())


@pytest.mark.parametrize(
    ("leaf", "marker"),
    [
        (CommitConflictError, TransientError),
        (CommitUnknownError, UnknownOutcomeError),
        (RefusedExtractsError, TerminalError),
    ],
)
def test_marker_says_whether_to_call_again(leaf, marker):
    assert issubclass(leaf, marker)


def test_at_most_five_examples_are_shown():
    error = MissingColumnError(table="a.b", missing=["id"], found=[f"column_{i}" for i in range(20)])
    assert len(re.findall(r"column_\d+", str(error))) == 5
    assert "and 15 more" in str(error)


def test_missing_column_points_at_the_nearest_one():
    assert "Did you mean 'person_id'?" in str(
        MissingColumnError(table="t", missing=["personid"], found=["person_id"])
    )


@pytest.mark.parametrize(
    ("found", "place", "said"),
    [
        (["id,name,ts"], "1.csv", "If ',' separates columns, say so by csv.delimiter in sources.yml"),
        (["id"], "1.csv", "Correct keys, order_by,"),
        (["id"], "1.csv, for op_column", "Correct op_column in sources.yml, or the source; then"),
        (["id"], "the table, for expectations", "Correct expectations in tables.yml"),
    ],
)
def test_a_missing_column_is_told_with_what_may_be_wrong(found, place, said):
    assert said in str(MissingColumnError(table="a.b", missing=["ts"], found=found, place=place))


def test_refused_extracts_are_each_named_with_the_reason():
    many = SnapshotDeletesTooManyError(table="a.b", extract="2024-01-02.csv", deletes=9, rows=10, limit=0.3)
    error = RefusedExtractsError(table="a.b", errors=[EMPTY, many])
    assert error.published is True
    assert "x.csv is empty; 2024-01-02.csv lacks 9 of 10 rows, the limit is 0.3 of them." in str(error)
    assert "allow_empty_extract" in str(error)
    assert "max_delete_fraction" in str(error)
    assert "Nothing of the table was published" in str(
        RefusedExtractsError(table="a.b", errors=[EMPTY], published=False)
    )


def test_a_name_from_outside_cannot_forge_a_line_or_a_template():
    error = UnreadableFileError(table="a.b", file="x\n[ok] {table}\x1b[2J", detail="no footer")
    assert "x?[ok] {table}?[2J" in str(error)
    assert str(error).isprintable()


def test_a_place_need_not_be_given():
    error = IncompatibleTypeError(table="a.b", column="c", existing="int", incoming="string")
    assert "the incoming data has string" in str(error)


def test_a_plug_in_adds_a_leaf_by_its_facts():
    class OwnError(TerminalError):
        code = "OWN"
        table: str
        summary = "Table {table} is odd."
        advice = "Even it."

    assert str(OwnError(table="a.b")) == "[OWN] Table a.b is odd. Even it."


@pytest.mark.parametrize(
    ("word", "expected"),
    [("kyes", " Did you mean 'keys'?"), ("KEYS", " Did you mean 'keys'?"), ("zzz", "")],
)
def test_did_you_mean_names_only_a_near_word(word, expected):
    assert did_you_mean(word, ["keys", "source"]) == expected


def test_listed_says_when_there_is_nothing():
    assert listed([]) == "none"


def test_long_configuration_problem_is_shown_whole():
    problem = "p" * 300 + "."
    assert problem in str(ConfigurationError(file="tables.yml", key="a.b", problem=problem, remedy="Do."))


LONG = 'expect_column_values_to_be_between(column="seats", max_value=850, min_value=1, strict_max=true)'


@pytest.mark.parametrize(
    ("rows", "expectations", "said"),
    [
        (1, [LONG], f"batch 3: 1 row fails the expectation {LONG}."),
        (2, [LONG, LONG], f"batch 3: 2 rows fail the expectation {LONG} and 1 more."),
        (0, ["a(b=1)", "c(d=2)"], "batch 3: the table as a whole fails the expectation a(b=1), c(d=2)."),
        (2, ["one word, " * 30], "one word, one word, …."),
    ],
)
def test_a_failed_expectation_is_named_whole(rows, expectations, said):
    error = ExpectationFailedError(table="a.b", batch=3, rows=rows, expectations=expectations)
    assert said in str(error)
    assert len(str(error)) <= 6 * 80
