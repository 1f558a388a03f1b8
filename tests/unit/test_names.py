"""Names are checked once, at the border, and quoted by one function."""

import pytest

from kedro_lakehouse.errors import InvalidNameError
from kedro_lakehouse.names import RESERVED_COLUMNS, TableName, is_reserved_column, quote

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("lake", "a", "b"), "`lake`.`a`.`b`"),
        (("odd`name",), "`odd``name`"),
        (("x`; drop table y; --",), "`x``; drop table y; --`"),
        (("with.dot", 'with "quotes"'), '`with.dot`.`with "quotes"`'),
    ],
)
def test_quote_keeps_every_part_one_identifier(parts, expected):
    assert quote(*parts) == expected


@pytest.mark.parametrize("parts", [(), ("",), ("a", "")])
def test_quote_refuses_an_empty_part(parts):
    with pytest.raises(InvalidNameError):
        quote(*parts)


def test_parsed_name_knows_its_forms():
    name = TableName.parse("dms_sample.person")
    assert (name.namespace, name.table) == ("dms_sample", "person")
    assert str(name) == "dms_sample.person"
    assert name.sql == "`lake`.`dms_sample`.`person`"
    assert name.identifier == ("dms_sample", "person")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "person",
        "a.b.c",
        ".b",
        "a.",
        "A.b",
        "a.B",
        "1a.b",
        "a._b",
        "a.b-c",
        "a.b c",
        "a.b`",
        "a.b\n",
        "a.é",
        "a.b__c",
        "a__b.c",
        "a.b_",
        "../a.b",
        "ops.batches",
    ],
)
def test_parse_refuses_what_is_no_declared_name(text):
    with pytest.raises(InvalidNameError) as caught:
        TableName.parse(text)
    assert caught.value.name == text


def test_constructor_refuses_what_parse_refuses_but_for_ops():
    with pytest.raises(InvalidNameError):
        TableName("a", "b`c")
    assert TableName.ops("batches") == TableName("ops", "batches")


@pytest.mark.parametrize(
    ("role", "table"),
    [("current", "t"), ("changes", "t_changes"), ("quarantine", "t_quarantine"), ("history", "t_history")],
)
def test_derived_table_carries_its_role(role, table):
    assert TableName("a", "t").with_suffix(role) == TableName("a", table)


def test_unknown_role_is_refused():
    with pytest.raises(InvalidNameError, match="changes, quarantine, history"):
        TableName("a", "t").with_suffix("landing")


def test_names_sort_and_hash_by_value():
    names = {TableName("b", "a"), TableName("a", "z"), TableName("a", "z")}
    assert [str(name) for name in sorted(names)] == ["a.z", "b.a"]


def test_reserved_columns_are_the_contracts():
    wanted = "_order _time _op _batch _position _order_from _order_to _order_last _deleted"
    more = "_tombstone _surrogate_key _unset _lookup _moved"
    assert {
        *wanted.split(),
        *more.split(),
        "effective_from",
        "effective_to",
        "is_current",
    } == RESERVED_COLUMNS


@pytest.mark.parametrize(
    ("column", "reserved"), [("_op", True), ("_OP", True), ("Is_Current", True), ("op", False)]
)
def test_reserved_columns_are_reserved_in_any_case(column, reserved):
    assert is_reserved_column(column) is reserved
