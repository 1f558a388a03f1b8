"""Rows that are read without Spark are those that Spark reads from the same bytes."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.json_tokens import TOKENS, listed
from harness.project import TemporaryProject
from harness.soak import soaking
from property.seeds import SWITCH, the_seed
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import POSITION
from kedro_lakehouse.changes.validate import convert
from kedro_lakehouse.decoders.few_rows import rows_here
from kedro_lakehouse.decoders.lines import RowLines, texts
from kedro_lakehouse.decoders.plain_json import NotPlainError
from kedro_lakehouse.decoders.records import FAILED, FILE, MALFORMED_RECORD, Columns
from kedro_lakehouse.project import Project
from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4: `make test` runs it"),
]

KINDS: dict[str, T.DataType] = {
    "id": T.LongType(), "n": T.IntegerType(), "s": T.ShortType(), "d": T.DecimalType(10, 2),
    "big": T.DecimalType(38, 18), "x": T.DoubleType(), "yes": T.BooleanType(), "day": T.DateType(),
    "at": T.TimestampType(), "local": T.TimestampNTZType(), "word": T.StringType(),
    "odd name": T.StringType(),
}  # fmt: skip
NO_ROWS = (
    "", " ", "null", "7", '"x"', "[]", "[{}]", "{", "}", "{}", "{}{}", "{} x", "{},", "\ufeff{}",
    "{'id': 1}", "{id: 1}",
    '{"id": 1,}', '{"id" 1}', '{"id": 1} // x', '{"id": 1}\n', '\t{"id":1}', '{"id": 1, "id": 2}', "\x00",
    '{"id": 1}{"id": 2}', '{"id": 1} {', '{"i\\u0064": 1}', '{"ID": 1}', '{"": 1}', '{"a.b": 1}', "[1",
    '{"\\ud800": 1}', '{"\\ue000#": 1}', '{"' + "n" * 2000 + '": 1}', '{"id": 1, "x": ' + "9" * 1500 + "}",
    "[" * 3000, '{"word": ' + "[" * 1500 + "]" * 1500 + "}", "base64:AAAA", '{"word": "' + "x" * 70000 + '"}',
)  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session with the project's settings."""
    project = TemporaryProject.make(tmp_path_factory.mktemp("few") / "project", {}, {})
    return Project.load(str(project.path / "conf"), None).session


def random_row(chance: random.Random) -> str:
    """An object of some columns, of which most have a token of their own kind."""
    names = chance.sample(list(KINDS), chance.randint(0, len(KINDS)))
    if chance.random() < 0.03:
        names.append("new")
    parts = [f"{json.dumps(n)}{chance.choice([':', ': ', ' : '])}{random_token(n, chance)}" for n in names]
    return "{" + chance.choice([",", ", "]).join(parts) + "}"


def random_token(name: str, chance: random.Random) -> str:
    if chance.random() < 0.06:
        return chance.choice(TOKENS)
    whole = chance.randint(-(10 ** chance.randint(0, 12)), 10 ** chance.randint(0, 12))
    day = f"{chance.randint(1, 9999):04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    time = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"
    time += chance.choice(["", f".{chance.randint(0, 10**6 - 1):06}", f".{chance.randint(0, 9)}"])
    zone = chance.choice(
        ["", "Z", f"{chance.choice('+-')}{chance.randint(0, 14):02}:{chance.choice(['00', '30'])}"]
    )
    found = {
        "id": str(whole), "n": str(whole % 2**31), "s": str(whole % 2**15),
        "d": f"{whole % 10**8}.{chance.randint(0, 99):02}", "big": f"{whole}.{chance.randint(0, 10**17)}",
        "x": f"{whole}.{chance.randint(0, 10**12)}", "yes": chance.choice(["true", "false"]),
        "day": f'"{day}"', "at": f'"{day}{chance.choice("T ")}{time}{zone}"', "local": f'"{day} {time}"',
    }.get(name)  # fmt: skip
    return found if found is not None else json.dumps(chance.choice(["", "a", "\u00e9", "1.5", "x" * 30]))


def lines_of(messages: list[str]) -> pa.Table:
    """Messages as lines, each in a place of its own."""
    places = pa.array([str(n) for n in range(len(messages))])
    numbers = pa.array(range(len(messages)), pa.int64())
    position = pa.StructArray.from_arrays([places, numbers], ["file", "row"])
    columns = [pa.array(messages), pa.array([None] * len(messages), pa.string()), position, places]
    return pa.Table.from_arrays(columns, names=["value", "key", POSITION, FILE])


def by_spark(lines: DataFrame) -> list[dict[str, Any]]:
    """The rows of lines as Spark decodes them."""
    shape = RowLines().discover(lines)[0]
    group = RowLines().unwrap(lines, [type(shape)(place="", columns=texts(KINDS))], None, load="changes")[0]
    conversions = Columns(types=KINDS).conversions(group.columns)
    rows = convert(group.records, conversions, keep=[POSITION, MALFORMED_RECORD]).toArrow()
    return sorted(listed(rows), key=lambda row: row[POSITION]["row"])


def tried(work: Callable[..., Any], *arguments: Any) -> Any:
    """What something gives; None where it leaves its work to Spark."""
    try:
        return work(*arguments)
    except NotPlainError:
        return None


def test_what_is_read_without_spark_is_what_spark_reads(session: SparkSession) -> None:
    chance, number = random.Random(the_seed()), 40_000 if soaking() else 4_000  # noqa: S311 - no secret
    messages = [
        *NO_ROWS, *(f'{{"{name}": {token}}}' for name in KINDS for token in TOKENS),
        *(random_row(chance) for _ in range(number)),
    ]  # fmt: skip
    lines = lines_of(messages)
    frame = session.createDataFrame(lines).cache()
    names = {shape.place: dict(shape.columns) for shape in RowLines().discover(frame)}
    quick = RowLines().names(frame)
    spark = by_spark(frame)
    read = wrong = 0
    failures: list[Any] = []
    for n, (message, theirs) in enumerate(zip(messages, spark, strict=True)):
        line = lines.slice(n, 1)
        shapes, rows = tried(RowLines().discover_few, line), tried(rows_here, line, KINDS)
        if not names[str(n)].keys() <= quick[str(n)]:
            failures.append(("names", message, names[str(n)], quick[str(n)]))
        if shapes is not None and dict(shapes[0].columns) != names[str(n)]:
            failures.append(("shapes", message, shapes, names[str(n)]))
        if rows is None:
            wrong += bool(theirs[FAILED] or theirs[MALFORMED_RECORD])
            continue
        read += 1
        ours = listed(rows)[0]
        expected = {name: theirs[name] for name in KINDS}
        if theirs[FAILED] or theirs[MALFORMED_RECORD] or repr(ours) != repr(expected):
            failures.append(("rows", message, ours, theirs))
    frame.unpersist()
    assert not failures, (f"again with {SWITCH}={the_seed()}", len(failures), failures[:5])
    assert read > number * 0.4, "else nothing was compared"
    assert wrong > 100
