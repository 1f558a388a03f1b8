"""Which types a column may take on, what has to be altered for it, and which values a cast can lose."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import castable, lossless
from kedro_lakehouse.errors import MissingColumnError, UnsupportedError
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.formats.ddl import case_clash, clash, refuse_layout, schema_changes, storable, widened
from kedro_lakehouse.names import TableName

pytestmark = pytest.mark.unit

INT, LONG, TEXT, DATE = T.IntegerType(), T.LongType(), T.StringType(), T.DateType()
ZONED, LOCAL = T.TimestampType(), T.TimestampNTZType()


def dec(precision: int, scale: int = 2) -> T.DecimalType:
    return T.DecimalType(precision, scale)


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(n, t) for n, t in fields.items()])


def array(kind: T.DataType) -> T.ArrayType:
    return T.ArrayType(kind)


def mapped(kind: T.DataType, key: T.DataType = TEXT) -> T.MapType:
    return T.MapType(key, kind)


@pytest.mark.parametrize(
    ("existing", "incoming", "becomes"),
    [
        (INT, LONG, LONG),
        (LONG, INT, LONG),
        (INT, T.ShortType(), INT),
        (T.FloatType(), T.DoubleType(), T.DoubleType()),
        (T.DoubleType(), T.FloatType(), T.DoubleType()),
        (dec(6), dec(12), dec(12)),
        (dec(12), dec(6), dec(12)),
        (dec(12, 4), dec(6, 2), dec(12, 4)),
        (dec(38, 0), LONG, dec(38, 0)),
        (LOCAL, DATE, LOCAL),
        (ZONED, DATE, ZONED),
        (TEXT, T.NullType(), TEXT),
        (LONG, T.NullType(), LONG),
    ],
)
def test_a_type_without_loss_is_found(existing, incoming, becomes):
    assert widened(existing, incoming) == becomes


@pytest.mark.parametrize(
    ("existing", "incoming"),
    [
        (LONG, TEXT), (TEXT, LONG), (INT, T.BooleanType()), (T.FloatType(), INT), (LONG, T.DoubleType()),
        (dec(6, 2), dec(12, 4)), (dec(6, 2), INT), (LOCAL, ZONED), (TEXT, array(TEXT)),
        (array(INT), array(TEXT)),
        (mapped(INT, key=INT), mapped(INT, key=LONG)), (struct(a=INT), struct(a=TEXT)),
    ],
)  # fmt: skip
def test_a_type_that_would_lose_values_is_none(existing, incoming):
    assert widened(existing, incoming) is None


def test_what_only_the_format_refuses_says_so():
    found = clash("day", DATE, LOCAL)
    assert found is not None
    assert "Iceberg" in found.reason
    other = clash("n", LONG, TEXT)
    assert other is not None
    assert other.reason == ""


def test_structs_keep_their_fields_and_take_on_new_ones_at_any_depth():
    old = struct(a=INT, gone=TEXT, list=array(struct(x=INT)), map=mapped(struct(y=T.FloatType())))
    new = struct(
        a=LONG, new=DATE, list=array(struct(x=LONG, z=TEXT)), map=mapped(struct(w=INT, y=T.DoubleType()))
    )
    merged = struct(
        a=LONG, gone=TEXT, list=array(struct(x=LONG, z=TEXT)),
        map=mapped(struct(y=T.DoubleType(), w=INT)), new=DATE,
    )  # fmt: skip
    assert widened(old, new) == merged
    changes = {
        (c.what, ".".join(c.path)): c.kind for c in schema_changes({"s": old}, {"s": merged, "t": INT})
    }
    assert changes == {
        ("widen", "s.a"): LONG,
        ("widen", "s.list.element.x"): LONG,
        ("add", "s.list.element.z"): TEXT,
        ("widen", "s.map.value.y"): T.DoubleType(),
        ("add", "s.map.value.w"): INT,
        ("add", "s.new"): DATE,
        ("add", "t"): INT,
    }


def test_a_clash_inside_is_named_by_its_path():
    found = clash("s", struct(list=array(struct(x=INT))), struct(list=array(struct(x=TEXT))))
    assert found is not None
    assert (found.column, found.existing, found.incoming) == ("s.list.element.x", INT, TEXT)


def test_nothing_changes_where_the_table_holds_all_of_it():
    wide = {"s": struct(a=LONG, b=array(LONG)), "n": LONG}
    assert schema_changes(wide, {c: storable(t) for c, t in wide.items()}) == []


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ({"a": INT, "b": INT}, None),
        ({"a": INT, "A": INT}, ("a", "A")),
        ({"s": struct(a=INT, A=INT)}, ("s.a", "s.A")),
        ({"s": array(mapped(struct(b=INT, B=INT)))}, ("s.b", "s.B")),
    ],
)
def test_names_that_differ_only_in_case_are_found_at_any_depth(kinds, found):
    assert case_clash(kinds, kinds) == found


def test_integers_fit_a_double_only_where_every_one_of_them_is_exact():
    assert lossless(INT, T.DoubleType())
    assert not lossless(LONG, T.DoubleType())
    assert lossless(T.DecimalType(5, 2), T.DecimalType(7, 3))
    assert not lossless(T.DecimalType(5, 2), T.DecimalType(7, 1))  # it would round
    assert not lossless(T.DecimalType(5, 2), T.DecimalType(5, 3))  # 999.99 does not fit


@pytest.mark.parametrize(
    ("have", "want", "possible"),
    [
        (TEXT, INT, True), (LONG, TEXT, True), (INT, DATE, False), (T.BinaryType(), INT, False),
        (struct(a=TEXT), struct(a=INT, b=DATE), True), (struct(a=INT), struct(a=DATE), False),
        (struct(a=INT), TEXT, True), (TEXT, struct(a=INT), False), (array(TEXT), array(INT), True),
    ],
)  # fmt: skip
def test_casts_that_spark_has_not_are_known_before(have, want, possible):
    assert castable(have, want) is possible


COLUMNS = {"id": T.LongType(), "name": T.StringType(), "at": T.TimestampType(), "day": T.DateType()}


@pytest.mark.parametrize(
    ("layout", "error", "said"),
    [
        ({"partition_by": ["nmae"]}, MissingColumnError, r"'name'\? Correct partition_by in tables\.yml"),
        ({"partition_by": ["bucket(4, idd)"]}, MissingColumnError, "no idd in the table, for partition_by"),
        ({"sort_by": ["att"]}, MissingColumnError, r"Correct sort_by in tables\.yml"),
        (
            {"partition_by": ["days(name)"]},
            UnsupportedError,
            r"days\(name\) needs a time, and name is string",
        ),
        ({"partition_by": ["hours(day)"]}, UnsupportedError, r"hours\(day\) needs a time, and day is date"),
    ],
)
def test_a_layout_that_the_columns_do_not_allow_is_refused(layout, error, said):
    with pytest.raises(error, match=said):
        refuse_layout(TableName("a", "b"), COLUMNS, Layout(**layout))


def test_a_layout_of_the_tables_columns_is_allowed_whatever_their_case():
    layout = Layout(partition_by=["days(Day)", "hours(at)", "truncate(2, NAME)", "ID"], sort_by=["Name"])
    refuse_layout(TableName("a", "b"), COLUMNS, layout)
