"""Names and values as words, and what their characters look like."""

import pytest

from kedro_lakehouse.column_search.personal import looks_personal
from kedro_lakehouse.column_search.values import format_of, kind_of_text, number_of
from kedro_lakehouse.column_search.words import expanded, trigrams

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("custAddr", "customer address"),
        ("postalcode", "postal code"),
        ("zcode", "zip code"),
        ("GICS Sector", "gics sector"),
        ("HTTPServerId", "http server id"),
        ("last_update", "last update"),
        ("TotalQty2024", "total quantity 2024"),
        ("----", "----"),
        ("straße", "straße"),
    ],
)
def test_a_name_becomes_a_phrase(name, phrase):
    assert expanded(name) == phrase


def test_names_that_differ_only_in_style_have_the_same_trigrams():
    assert trigrams("zip_code") == trigrams("ZipCode") == trigrams("zip code")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2", "+30"], "integer"),
        (["1.5", "2", "1e-3"], "decimal"),
        (["1,234.50", "7"], "decimal"),
        (["true", "False"], "boolean"),
        (["2024-01-31", "31/01/2024"], "date"),
        (["2024-01-31T10:20:30Z", "2024-01-31 10:20"], "timestamp"),
        (["10:20", "23:59:59"], "time"),
        (["E18", "1"], "text"),
        ([], "empty"),
    ],
)
def test_text_counts_as_what_it_stands_for(values, kind):
    assert kind_of_text(values) == kind


@pytest.mark.parametrize("text", ["E18", "1e", ".", "1,23,4", "", "NaN", "٣a"])
def test_what_is_no_number_is_none(text):
    assert number_of(text) is None


def test_a_format_holds_no_letter_or_digit_of_its_value():
    value = "Zoë-4711 @ Köln\u202e\x00"
    assert format_of(value) == "Aa-9{4} @ Aa??"


@pytest.mark.parametrize(
    ("name", "table", "values", "expected"),
    [
        ("contact", "shop", ["ann@mail.org", "bob@mail.org", "none"], True),
        ("email_id", "t", [], True),
        ("dob", "t", [], True),
        ("name", "persons", [], True),
        ("name", "sport_team", ["Rams"], False),
        ("ssn_hint", "t", ["123-45-6789"], True),
        ("number", "t", ["4111 1111 1111 1111"], True),
        ("number", "t", ["4111 1111 1111 1112"], False),
        ("first", "t", ["2024-01-31"], False),
    ],
)
def test_personal_data_are_told_by_name_and_by_look(name, table, values, expected):
    assert looks_personal(name, table, values) is expected
