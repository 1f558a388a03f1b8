"""Declarations are exact: what is not understood is refused, with the place and what to write instead."""

import datetime as dt

import pytest
from pydantic import ValidationError

from kedro_lakehouse.config.history import HistoryConfig
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import CsvOptions, DmsSourceConfig, ExtractSourceConfig, KafkaSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import ConfigurationError, InvalidNameError
from kedro_lakehouse.lineage.places import Place, place_of
from kedro_lakehouse.names import TableName

pytestmark = pytest.mark.unit

MODELS = {"dms": DmsSourceConfig, "extract": ExtractSourceConfig}
DMS = {"type": "dms", "path": "data/01_raw/dms_sample"}
EXTRACT = {
    "type": "extract",
    "path": "data/01_raw/sp500",
    "pattern": "*_constituents.csv.gz",
    "extract_time": {"from": "name", "pattern": "%Y-%m-%dT%H%M%SZ"},
    "file_format": "csv",
}
TABLE = {"source": "lake_in", "keys": ["id"]}
PERSON = TableName("dms_sample", "person")


def table(**keys):
    declared = load_declarations({"lake_in": DMS}, {"dms_sample.person": TABLE | keys}, MODELS)
    return declared.tables[PERSON]


def source(raw):
    return load_declarations({"lake_in": raw}, {}, MODELS).sources["lake_in"]


def refusal(sources, tables):
    with pytest.raises(ConfigurationError) as caught:
        load_declarations(sources, tables, MODELS)
    assert all(len(line) <= 700 for line in str(caught.value).splitlines())
    return caught.value


def test_the_interfaces_own_examples_load():
    declared = load_declarations(
        {
            "dms_sample": DMS
            | {
                "file_format": "parquet",
                "sequence_column": "change_seq",
                "timestamp_column": "last_update_time",
            },
            "sp500": EXTRACT,
        },
        {
            "dms_sample.person": {
                "source": "dms_sample",
                "entity": "person",
                "keys": ["id"],
                "history": {"track": {"exclude": ["last_seen"]}},
                "checks": {"email_has_at": "email is null or email like '%@%'"},
            },
            "sp500.constituents": {"source": "sp500", "keys": ["symbol"], "history": True},
        },
        MODELS,
    )
    person = declared.tables[PERSON]
    assert person.history.track_exclude == ("last_seen",)
    assert person.history.track_include is None
    assert declared.sources["dms_sample"].sequence_column == "change_seq"
    assert declared.sources["sp500"].extract_time.from_ == "name"
    assert declared.tables[TableName("sp500", "constituents")].entity == "constituents"


def test_defaults_are_the_contracts():
    bare = table()
    assert bare.model_dump(exclude={"source", "keys"}) == {
        "derive": None,
        "entity": "person",
        "ignore_null": (),
        "unset_marker": None,
        "on_invalid": "quarantine",
        "valid_from": {"column": None, "updated_at": None},
        "delete_scope": (),
        "changes_retention": None,
        "enrich": (),
        "reenrich": False,
        "personal": (),
        "public": (),
        "schema_policy": "evolve",
        "write": "merge",
        "order_by": (),
        "effective_time": None,
        "current": True,
        "history": None,
        "columns": None,
        "types": {},
        "rename": {},
        "on_tie": "delete_wins",
        "max_invalid_fraction": 1.0,
        "initial_valid_from": "event",
        "hard_deletes": "close",
        "max_delete_fraction": 0.3,
        "allow_empty_extract": False,
        "checks": {},
        "expectations": (),
        "format": None,
        "partition_by": (),
        "sort_by": (),
        "properties": {},
        "subject": None,
        "after_erasure": "refuse",
        "erasure_requests": None,
        "payment": (),
        "column_tags": {},
        "retention": None,
        "pull": None,
        "tags": (),
    }


def test_source_defaults_are_the_contracts():
    dms = source(DMS)
    assert (dms.file_format, dms.max_files, dms.max_bytes) == ("parquet", 10_000, 2 * 1024**3)
    assert (dms.sequence_column, dms.timestamp_column, dms.before_image_prefix) == (None, None, "BI_")
    assert (dms.full_load, dms.changes, dms.op_column) == ("LOAD*", "*", "Op")
    assert dms.control_columns == ("db", "schema_name", "table_name")
    assert dms.csv.header is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (False, None),
        (True, HistoryConfig()),
        ({}, HistoryConfig()),
        ({"track": None}, HistoryConfig()),
        ({"track": {"include": ["a"]}}, HistoryConfig(track={"include": ["a"]})),
    ],
)
def test_history_is_normalised(written, read):
    assert table(history=written).history == read


@pytest.mark.parametrize(
    ("written", "read"), [("event", "event"), ("epoch", "epoch"), ("2022-07-01", dt.date(2022, 7, 1))]
)
def test_initial_valid_from_is_a_word_or_a_date(written, read):
    assert table(initial_valid_from=written).initial_valid_from == read


@pytest.mark.parametrize(
    "spark_type",
    [
        "bigint",
        "STRING",
        "decimal(10,2)",
        "decimal(38, 0)",
        "timestamp_ntz",
        "array<int>",
        "map<string,array<int>>",
    ],
)
def test_spark_types_are_accepted(spark_type):
    assert table(types={"c": spark_type}).types == {"c": spark_type}


@pytest.mark.parametrize("text", ["day", "days(ts)", "bucket(8, id)", "truncate(4,name)"])
def test_partition_transforms_are_accepted(text):
    assert table(partition_by=[text]).partition_by == (text,)


def test_several_old_names_may_become_one_new():
    assert table(rename={"a": "x", "b": "x"}).rename == {"a": "x", "b": "x"}


@pytest.mark.parametrize(
    ("keys", "key", "words"),
    [
        (
            {"historie": True},
            "historie",
            ["not a known key", "Did you mean 'history'?", "Allowed: source, entity"],
        ),
        ({"history": {"trak": {}}}, "history.trak", ["Did you mean 'track'?", "Allowed: track"]),
        ({"history": {"track": {"include": ["a"], "exclude": ["b"]}}}, "history.track", ["exactly one of"]),
        ({"history": {"track": {"exclude": []}}}, "history.track.exclude", ["at least 1"]),
        ({"history": "yes"}, "history", ["found text", "true, false, or keys"]),
        ({"columns": {}}, "columns", ["exactly one of"]),
        ({"columns": {"exclude": ["ID"]}}, "columns.exclude", ["'id' is excluded"]),
        ({"keys": []}, "keys", ["needs at least one key"]),
        ({"keys": None}, "keys", ["needs at least one key"]),
        ({"keys": "id"}, "keys", ["a list of column names, such as [id]", "found text"]),
        ({"keys": ["id", "ID"]}, "keys", ["'ID' is listed twice"]),
        ({"keys": ["id", 7]}, "keys[1]", ["expected text", "found a number"]),
        ({"keys": ["_op"]}, "keys", ["'_op' is reserved"]),
        ({"rename": {"a": "_order"}}, "rename.a", ["'_order' is reserved"]),
        ({"rename": {"a": "Is_Current"}}, "rename.a", ["'Is_Current' is reserved"]),
        ({"rename": {"a": "x", "b": "X"}}, "rename.b", ["differ only in case"]),
        ({"types": {"effective_to": "date"}}, "types.effective_to", ["'effective_to' is reserved"]),
        ({"types": {"a": "bigin"}}, "types.a", ["not a type of Spark", "Did you mean 'bigint'?"]),
        ({"types": {"a": "int); drop table x"}}, "types.a", ["not a type of Spark"]),
        ({"types": {"a": "decimal(39,0)"}}, "types.a", ["not a type of Spark"]),
        ({"types": {"a": "decimal(4,5)"}}, "types.a", ["not a type of Spark"]),
        ({"on_tie": "delet_wins"}, "on_tie", ["Did you mean 'delete_wins'?", "'upsert_wins'"]),
        ({"on_tie": 3}, "on_tie", ["a number is not allowed", "'fail'"]),
        ({"max_invalid_fraction": 1.5}, "max_invalid_fraction", ["at most 1"]),
        ({"max_delete_fraction": -0.1}, "max_delete_fraction", ["at least 0"]),
        ({"max_delete_fraction": float("nan")}, "max_delete_fraction", ["finite"]),
        ({"initial_valid_from": "first"}, "initial_valid_from", ["neither 'event' nor 'epoch' nor a date"]),
        ({"initial_valid_from": 7}, "initial_valid_from", ["neither 'event' nor 'epoch' nor a date"]),
        ({"partition_by": ["day(ts"]}, "partition_by[0]", ["bucket(n, c)"]),
        ({"checks": {"null_key": "a > 1"}}, "checks.null_key", ["built-in quarantine reason"]),
        ({"checks": {"a b": "a > 1"}}, "checks.a b", ["letters, digits and underscores"]),
        ({"entity": "../other"}, "entity", ["leaves its source's folder"]),
        ({"entity": "s3://bucket/x"}, "entity", ["leaves its source's folder"]),
        ({"tags": ["a b"]}, "tags[0]", ["letters, digits"]),
        ({"source": None}, "source", ["needed"]),
        (
            {"source": "lake_im"},
            "source",
            ["no source 'lake_im'", "Did you mean 'lake_in'?", "Use one of: lake_in"],
        ),
    ],
)
def test_wrong_table_key_is_named_with_its_remedy(keys, key, words):
    error = refusal({"lake_in": DMS}, {"dms_sample.person": TABLE | keys})
    assert (error.file, error.key) == ("tables.yml", f"dms_sample.person.{key}")
    for word in words:
        assert word in str(error)


def test_every_key_of_the_interface_is_available():
    interface = (
        "source entity derive keys write order_by effective_time current history columns types rename "
        "ignore_null unset_marker on_tie on_invalid max_invalid_fraction valid_from initial_valid_from "
        "hard_deletes delete_scope max_delete_fraction allow_empty_extract changes_retention enrich "
        "reenrich schema_policy checks expectations format partition_by sort_by properties subject "
        "after_erasure erasure_requests retention pull personal public payment column_tags tags"
    )
    assert set(TableConfig.allowed_keys()) == set(interface.split())


@pytest.mark.parametrize(
    ("raw", "key", "words"),
    [
        (
            DMS | {"type": "dmss"},
            "type",
            ["no source type 'dmss'", "Did you mean 'dms'?", "Use one of: "],
        ),
        (DMS | {"type": None}, "type", ["missing", "Use one of: "]),
        (DMS | {"path": None}, "path", ["missing"]),
        (DMS | {"pth": "x"}, "pth", ["Did you mean 'path'?"]),
        (DMS | {"shared": True}, "shared", ["only JSON records name their table"]),
        (DMS | {"file_format": "parket"}, "file_format", ["Did you mean 'parquet'?"]),
        (DMS | {"max_files": 0}, "max_files", ["at least 1"]),
        (DMS | {"max_bytes": "2 gigs"}, "max_bytes", ["'512 MiB'"]),
        (DMS | {"max_bytes": "0 B"}, "max_bytes", ["at least 1"]),
        (DMS | {"full_load": "/etc/*"}, "full_load", ["leaves its source's folder"]),
        (DMS | {"csv": {"delimitr": ";"}}, "csv.delimitr", ["Did you mean 'delimiter'?"]),
        (DMS | {"csv": {"quote": "''"}}, "csv.quote", ["at most 1"]),
        (DMS | {"csv": {"full_load": {"header": "x"}}}, "csv.full_load.header", ["Write true or false"]),
        (DMS | {"csv": {"full_load": {}, "header": True}}, "csv.header", ["Allowed: full_load, changes"]),
        (DMS | {"csv": 7}, "csv", ["keys such as header"]),
        (EXTRACT | {"extract_time": None}, "extract_time", ["missing"]),
        (EXTRACT | {"extract_time": {"from": "clock"}}, "extract_time.from", ["'name' or 'modified'"]),
        (EXTRACT | {"extract_time": {"from_": "name"}}, "extract_time.from_", ["Did you mean 'from'?"]),
        (EXTRACT | {"extract_time": {"from": "name"}}, "extract_time.pattern", ["needs a pattern"]),
        (
            EXTRACT | {"extract_time": {"from": "modified", "pattern": "%Y"}},
            "extract_time.pattern",
            ["Remove it"],
        ),
        (EXTRACT | {"csv": {"full_load": {}}}, "csv", ["one kind of file"]),
    ],
)
def test_wrong_source_key_is_named_with_its_remedy(raw, key, words):
    error = refusal({"lake_in": raw}, {})
    assert (error.file, error.key) == ("sources.yml", f"lake_in.{key}")
    for word in words:
        assert word in str(error)


@pytest.mark.parametrize(
    ("written", "read"), [("512 MiB", 512 * 1024**2), ("1gib", 1024**3), ("7", 7), (7, 7)]
)
def test_sizes_are_numbers_or_text(written, read):
    assert source(DMS | {"max_bytes": written}).max_bytes == read


def test_csv_options_hold_for_all_files_or_apart():
    one = source(DMS | {"csv": {"delimiter": ";"}})
    assert one.csv_for("full_load").delimiter == one.csv_for("changes").delimiter == ";"
    apart = source(DMS | {"csv": {"changes": {"columns": ["Op", "id"], "header": False}}})
    assert apart.csv_for("full_load") == CsvOptions()
    assert apart.csv_for("changes").columns == ("Op", "id")


def test_none_removes_a_key_at_any_depth_and_whole_entries():
    declared = load_declarations(
        {"gone": None, "lake_in": DMS | {"max_files": None, "csv": {"delimiter": None, "quote": "'"}}},
        {
            "a.gone": None,
            "a.kept": TABLE | {"max_delete_fraction": None, "columns": {"exclude": None, "include": ["id"]}},
        },
        MODELS,
    )
    assert list(declared.sources) == ["lake_in"]
    assert declared.sources["lake_in"].csv == CsvOptions(quote="'")
    kept = declared.tables[TableName("a", "kept")]
    assert len(declared.tables) == 1
    assert (kept.max_delete_fraction, kept.columns.include) == (0.3, ("id",))


def test_a_table_of_a_removed_source_is_refused():
    error = refusal({"other": DMS, "lake_in": None}, {"a.b": TABLE})
    assert error.key == "a.b.source"
    assert "Use one of: other" in str(error)


@pytest.mark.parametrize("name", ["person", "a.b.c", "A.b", "ops.batches", "a.b__c", "a.b`"])
def test_a_wrong_table_name_names_its_file(name):
    error = refusal({"lake_in": DMS}, {name: TABLE})
    assert (error.file, error.key) == ("tables.yml", name)
    assert isinstance(error.__cause__, InvalidNameError)


@pytest.mark.parametrize("role", ["changes", "quarantine", "history"])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_name_that_another_table_derives_is_refused(role, turn):
    names = ["a.t", f"a.t_{role}"][::turn]
    error = refusal({"lake_in": DMS}, dict.fromkeys(names, TABLE))
    assert error.key == f"a.t_{role}"
    assert f"the {role} table of 'a.t'" in str(error)


def test_a_name_that_only_looks_derived_is_accepted():
    declared = load_declarations({"lake_in": DMS}, {"a.t_history": TABLE, "b.t": TABLE}, MODELS)
    assert len(declared.tables) == 2


@pytest.mark.parametrize(
    ("sources", "tables", "key"), [({"s": "x"}, {}, "s"), ({7: DMS}, {}, "7"), ({}, {"a.b": ["id"]}, "a.b")]
)
def test_an_entry_that_is_no_mapping_is_refused(sources, tables, key):
    assert refusal(sources, tables).key == key


def test_all_wrong_keys_of_an_entry_are_named_in_one_error():
    error = refusal({"lake_in": DMS}, {"a.b": TABLE | {"on_tie": "x", "max_delete_fraction": 7}})
    assert error.key == "a.b.on_tie"
    assert [one.key for one in error.others] == ["a.b.max_delete_fraction"]
    assert "a.b.max_delete_fraction': expected a number of at most 1." in str(error)


def test_all_mistakes_of_all_files_are_named_at_once_and_what_follows_from_them_is_not():
    error = refusal(
        {"lake_in": DMS | {"pth": "x"}, "other": {"type": "dsm"}},
        {
            "a.b": TABLE | {"kyes": ["id"], "keys": None, "on_tie": "x"},
            "a.c": TABLE | {"source": "lake_im"},
            "a.d": {"derive": {"inputs": {"b": "a.b"}, "sql": "select 1"}, "write": "replace"},
            "a.e": ["id"],
        },
    )
    assert [one.key for one in (error, *error.others)] == [
        "lake_in.pth", "other.type", "a.e", "a.b.kyes", "a.b.on_tie", "a.c.source",
    ]  # fmt: skip


def test_ten_mistakes_are_shown_and_the_others_counted():
    with pytest.raises(ConfigurationError) as caught:
        load_declarations({"lake_in": DMS}, {f"a.t{n}": TABLE | {"on_tie": 7} for n in range(13)}, MODELS)
    lines = str(caught.value).splitlines()
    assert len(lines) == 12
    assert lines[-2:] == ["... and 3 more.", "Correct them, then `kedro run`."]


def test_as_many_allowed_keys_are_named_as_fit_six_lines_of_a_terminal():
    error = refusal(
        {"lake_in": DMS}, {"dms_sample.sporting_event_ticket": TABLE | {"max_delete_fractoin": 0.5}}
    )
    text, more = f"Error: {error}", len(TableConfig.allowed_keys()) - 15
    assert "Did you mean 'max_delete_fraction'? Allowed: source, entity, derive, keys," in text
    assert f"on_tie and {more} more (docs/reference/configuration.md). Then `kedro run`." in text
    assert len(text) <= 6 * 80


def test_values_that_may_be_secret_are_not_repeated():
    error = refusal({"lake_in": DMS | {"max_files": "hunter2"}}, {})
    assert "hunter2" not in f"{error} {error.__cause__}"


def test_declarations_cannot_be_changed():
    declared = load_declarations({"lake_in": DMS}, {"a.b": TABLE}, MODELS)
    with pytest.raises(ValidationError):
        declared.sources["lake_in"].path = "elsewhere"
    with pytest.raises(TypeError):
        declared.tables[PERSON] = None


def test_the_records_of_a_topic_arrive_at_the_first_broker() -> None:
    kafka = {"type": "kafka", "bootstrap_servers": "a:9092,b:9092", "topic": "shop.{entity}"}
    found = load_declarations(
        {"in": kafka}, {"s.t": {"source": "in", "keys": ["id"]}}, {"kafka": KafkaSourceConfig}
    )
    place = found.sources["in"].place_of(found.tables[TableName("s", "t")])
    assert place_of(place) == Place("kafka://a:9092", "shop.t")
