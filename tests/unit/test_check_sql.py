"""SQL that is right in Spark passes without a word; what is wrong in it is found in its line."""

import pytest

from kedro_lakehouse.preview.sql_text import (
    parse_condition,
    parse_query,
    resolve_query,
    unknown_in_condition,
)

pytestmark = pytest.mark.unit

INPUTS = {"o": ["id", "c_id", "amount", "tags", "place", "at"], "c": ["id", "name"], "x": None}

RIGHT = [
    "select * from o",
    "SELECT o.*, c.name FROM o JOIN c ON c.id = o.c_id",
    "select id, AMOUNT from O where amount > 1",
    "select c_id, sum(amount) as total from o group by c_id having total > 3 order by total",
    "select amount * 2 as twice, twice + 1 as more from o",
    "select id, t from o lateral view explode(tags) e as t",
    "select id, exploded.col from o lateral view explode(tags) exploded",
    "select id, place.city.name as city, o.place.zip from o",
    "select filter(tags, t -> t <> 'a') as tags, transform(tags, (t, i) -> concat(t, i)) as n from o",
    "with big as (select id as key, amount from o where amount > 9) select key, amount from big",
    "with a as (select * from o), b as (select * from a) select b.c_id from b",
    "select id from o union all select id from c",
    "select c.name, (select max(amount) from o where o.c_id = c.id) as most from c",
    "select name from c where exists (select 1 from o where o.c_id = c.id and amount > 0)",
    "select name from c where id in (select c_id from o)",
    "select id, row_number() over (partition by c_id order by at desc) as n from o qualify n = 1",
    "select * from (select id, amount from o) q where q.amount > 0",
    "select name, amount from o join c using (id)",
    "select anything, x.other from x",
    "select o.id, unknown from o join x on x.id = o.id",
    "select * except (amount) from o",
    "select id from lake.shop.other",
    "select date_format(at, 'y') as y, amount <=> 1 as same, tags[0] as t from o where f(id) rlike '^a'",
    "select stack(2, 'a', 1, 'b', 2) as (k, v) from o",
    "select s.a from (select named_struct('a', id) as s from o)",
    "select `id` from o limit 3",
    "values (1, 'a'), (2, 'b')",
    "select case when amount > 1 then 'big' else 'small' end as size, cast(at as date) as day from o",
    "select id from o tablesample (10 percent)",
    "select c_id, percentile_approx(amount, 0.5) as median, count_if(amount > 1) as n from o group by all",
    "select o.id from o left anti join c on o.c_id = c.id",
]


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_passes(text):
    parsed = parse_query(text)
    resolve_query(parsed, INPUTS)
    assert parsed.found == []


WRONG = {
    "select nme from c": (1, "there is no column 'nme'. Did you mean 'name'?"),
    "select c.nme from c": (1, "'c' has no column 'nme'. Did you mean 'name'?"),
    "select d.name from c": (1, "nothing in the query is named 'd'."),
    "select id\nfrom o\nwhere amnt > 1": (3, "there is no column 'amnt'. Did you mean 'amount'?"),
    "select id from orders": (1, "there is no input 'orders'."),
    "with b as (select id as k from c)\nselect b.id from b": (2, "'b' has no column 'id'."),
    "select id from c union all select nam from c": (1, "there is no column 'nam'. Did you mean 'name'?"),
    "select uper(name) from c": (1, "there is no function 'uper'. Did you mean 'upper'?"),
    "select id,\n from c where": (2, "the SQL cannot be parsed at 'where'"),
    "select id from c c_id o": (1, "the SQL cannot be parsed at 'o'"),
    "delete from c": (1, "the text is no query."),
    "select s.nme from (select name from c) s": (1, "'s' has no column 'nme'. Did you mean 'name'?"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_found_in_its_line(text):
    parsed = parse_query(text)
    resolve_query(parsed, INPUTS)
    line, said = WRONG[text]
    assert [one.line for one in parsed.found] == [line], parsed.found
    assert parsed.found[0].problem.startswith(said), parsed.found


OUTPUTS = {
    "select * from c": ("id", "name"),
    "select c.*, o.amount as a from o join c on c.id = o.c_id": ("id", "name", "a"),
    "with q as (select name as n from c) select q.*, 1 as one from q": ("n", "one"),
    "select id from c union select c_id from o": ("id",),
    "select *, id from x": None,
    "select count(*) from c": None,
}


@pytest.mark.parametrize("text", OUTPUTS)
def test_the_columns_that_a_query_gives(text):
    parsed = parse_query(text)
    resolve_query(parsed, INPUTS)
    assert parsed.outputs == OUTPUTS[text]


@pytest.mark.parametrize(
    "text",
    [
        "amount >= 0",
        "ID is not null and name rlike '^[a-z]+$'",
        "exists(tags, t -> t = name)",
        "_op <> 'D' or amount between 1 and 2",
        "place.zip in ('1', '2')",
        "coalesce(try_cast(name as int), 0) < length(name)",
        "at < current_timestamp() - interval 1 day",
    ],
)
def test_conditions_that_are_right_pass(text):
    parsed = parse_condition(text)
    columns = ["id", "name", "amount", "tags", "place", "at"]
    assert [*parsed.found, *unknown_in_condition(parsed.tree, columns)] == []


@pytest.mark.parametrize(
    "text", ["amount >=", "amount => 0", "a in (1", "case when a then 1", "name name", "a = 'secret' b"]
)
def test_conditions_that_cannot_be_parsed_are_told_without_their_values(text):
    (found,) = parse_condition(text).found
    assert found.problem.startswith("the SQL cannot be parsed")
    assert "secret" not in found.problem + found.remedy
