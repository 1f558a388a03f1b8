"""Mistakes in a declaration that the table's own metadata show, also while no new file has landed."""

from __future__ import annotations

import dataclasses
import logging

import pytest
from pyspark.sql import types as T

from kedro_lakehouse.changes.extract import ORDER_TYPE
from kedro_lakehouse.changes.validate import without_values
from kedro_lakehouse.commits.drift import made_for
from kedro_lakehouse.config.loading import Declarations
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import (
    IncompatibleTypeError,
    KeySchemaDriftError,
    MissingColumnError,
    SequenceTypeDriftError,
)
from kedro_lakehouse.formats.base import TableState
from kedro_lakehouse.ingestion.declared import look_at_declaration
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project

pytestmark = pytest.mark.unit

PLANE = TableName("air", "plane")
DECLARED = {"source": "air", "keys": ["tailnum"], "order_by": ["changed_at"], "history": True}
COLUMNS = {
    "tailnum": T.StringType(),
    "seats": T.IntegerType(),
    "lat": T.DoubleType(),
    "faa": T.StringType(),
    "changed_at": T.TimestampType(),
    "_order": T.StructType([T.StructField("changed_at", T.TimestampType())]),
}


def bound(**keys):
    table = TableConfig.model_validate({"entity": "plane"} | DECLARED | keys)
    project = Project(
        env="test", declarations=Declarations(sources={}, tables={PLANE: table}), spark_conf={}, lakehouse=""
    )
    return project.bind(PLANE)


def looked_at(source_columns=(), order=COLUMNS["_order"], **keys):
    found = {f.name: None for f in dataclasses.fields(TableState)}
    made = {"columns": COLUMNS | {"_order": order}, "properties": made_for(bound().contract)}
    look_at_declaration(bound(**keys), TableState(**found | made), source_columns)


@pytest.mark.parametrize(
    ("keys", "error", "said"),
    [
        ({"keys": ["tailnumm"]}, KeySchemaDriftError, r"built with the keys tailnum; now declared: tailnumm"),
        ({"order_by": ["changed_att"]}, MissingColumnError, r"no changed_att .* Did you mean 'changed_at'\?"),
        ({"order_by": ["changed_at", "seats"]}, SequenceTypeDriftError, r"now: changed_at, seats\."),
        ({"types": {"faa": "int"}}, IncompatibleTypeError, r"column faa: .* string, tables\.yml has int\."),
        (
            {"types": {"seats": "string"}},
            IncompatibleTypeError,
            r"`kedro lakehouse rebuild air\.plane --from",
        ),
    ],
)
def test_other_keys_and_orders_are_refused(keys, error, said):
    with pytest.raises(error, match=said):
        looked_at(**keys)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"types": {"seatss": "int"}}, "'seatss' under types. Did you mean 'seats'?"),
        ({"columns": {"include": ["faa", "latt"]}}, "'latt' under columns.include. Did you mean 'lat'?"),
        ({"history": {"track": {"include": ["set", "lat"]}}}, "'set' under history.track. Did you"),
        (
            {"history": {"track": {"exclude": ["seatz"]}}},
            "'seatz' under history.track. Did you mean 'seats'?",
        ),
        (
            {"columns": {"exclude": ["fa"]}, "source_columns": ["tailnum", "faa"]},
            "'fa' under columns.exclude.",
        ),
        ({"types": {"old": "int"}, "rename": {"old": "new"}}, "'old' under types. Did you mean 'new'?"),
        ({"types": {"quite_new": "int"}}, "'quite_new' under types."),
    ],
)
def test_one_warning_names_the_columns_that_are_not_there(keys, said, caplog):
    looked_at(**keys)
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert record.getMessage().startswith("air.plane: ")
    assert said in record.getMessage()


@pytest.mark.parametrize(
    "keys",
    [
        {"types": {"seats": "bigint", "changed_at": "timestamp"}},
        {"columns": {"exclude": ["built"]}, "source_columns": ["tailnum", "built"]},
        {"columns": {"exclude": ["seat"]}},  # a table never has what it excludes
        {"types": {"title": "string"}, "rename": {"name": "title"}},
        {"columns": {"include": ["seats", "lat", "faa"]}},
        {"order_by": []},
        {"order_by": ["since"], "rename": {"changed_at": "since"}},
        {"order_by": ["seats"], "order": ORDER_TYPE},  # of the rows of one extract, the newest counts
    ],
)
def test_a_right_declaration_is_silent(keys, caplog):
    looked_at(**keys)
    assert caplog.records == []


def test_a_check_of_a_column_that_nobody_has_sent_names_the_nearest():
    said = "columns without values so far: seatz, wings. Did you mean 'seats'?"
    assert without_values(["seatz", "wings"], ["lat", "seats"]) == said
