"""Sources of type rest and sap without their packages: declarations, conditions, imports."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from harness.project import environment
from pydantic import ValidationError

from kedro_lakehouse.config.rest import RestSourceConfig
from kedro_lakehouse.config.sap import SapSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.errors import TerminalFault
from kedro_lakehouse.pulls.protocol import Since
from kedro_lakehouse.pulls.rest.source import RestSource
from kedro_lakehouse.pulls.sap.conditions import lines
from kedro_lakehouse.pulls.sap.source import SapSource

pytestmark = pytest.mark.unit

SAP = {"type": "sap", "path": "x", "connection": {"ashost": "sap", "sysnr": "00", "client": "100"}}
REST = {"type": "rest", "path": "x", "base_url": "https://api.example.com/v1"}
TABLE = TableConfig(source="s", entity="parcels", keys=("id",))


def declared(**keys):
    return RestSourceConfig.model_validate({**REST, **keys})


def test_nothing_optional_is_imported_with_the_sources():
    code = (
        "import sys, kedro_lakehouse.pulls.rest.source, kedro_lakehouse.pulls.sap.source; "
        "print(sorted({'httpx2', 'msgspec', 'pyrfc', 'stamina', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment()
    )
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    ("made", "package", "extra"),
    [
        (lambda: RestSource(declared(), TableName("a", "b"), TABLE, {}), "httpx2", "rest"),
        (
            lambda: SapSource(
                SapSourceConfig.model_validate(SAP), TableName("a", "b"), TABLE, {"user": "u", "passwd": "p"}
            ),
            "pyrfc",
            "sap",
        ),
    ],
)
def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch, made, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError, match=package) as caught:
        made().plan(Since(number=0, to=None))
    assert f"kedro-lakehouse[{extra}]" in str(caught.value)


@pytest.mark.parametrize("paging", ["page", "offset"])
def test_counted_pages_need_to_stand_still_or_to_be_read_twice(paging):
    with pytest.raises(ValidationError) as caught:
        declared(paging={"type": paging})
    (line,) = caught.value.errors()
    assert "verify: twice" in line["ctx"]["remedy"]
    assert "stable: true" in line["ctx"]["remedy"]
    declared(paging={"type": paging}, verify="twice")
    declared(paging={"type": paging}, stable=True)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"base_url": "https://api.example.com/v1?key=1"}, "has a query"),
        ({"base_url": "https://me:secret@api.example.com"}, "a user or a password"),
        ({"paging": {"type": "cursor", "next": "x"}}, "needs 'parameter'"),
        ({"paging": {"type": "link", "parameter": "x"}}, "not a key of type link"),
        ({"auth": {"type": "oauth2"}, "credentials": "x"}, "needs the address of tokens"),
        ({"auth": {"type": "basic", "in": "query"}, "credentials": "x"}, "not a key of type basic"),
        ({"auth": {"type": "api_key", "in": "body"}, "credentials": "x"}, "sends nothing in the body"),
        ({"auth": {"type": "bearer"}}, "needs 'credentials'"),
        ({"credentials": "x"}, "needs 'auth'"),
        ({"headers": {"authorization": "x"}}, "a header logs in"),
        ({"rate": "5 a second"}, "not a number of requests"),
        ({"rate": "0/s"}, "not a number of requests"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(keys, text):
    with pytest.raises(ValidationError, match=text):
        declared(**keys)


@pytest.mark.parametrize("seed", range(30))
def test_lines_are_short_and_cut_outside_of_quotes(seed):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    words = []
    for _ in range(60):
        text = "b '' c"[: chance.choice([0, 1, 6])] * chance.randint(0, 8)
        words.append(chance.choice(["A" * chance.randint(1, 20), f"'{text}'"]))
    condition = " ".join(words)
    found = lines(condition)
    assert " ".join(found) == condition
    assert all(len(line) <= 71 and line.count("'") % 2 == 0 for line in found)


@pytest.mark.parametrize(
    ("condition", "text"), [("A = 'b", "open quote"), ("A = '" + "b" * 80 + "'", "a line takes")]
)
def test_a_condition_that_does_not_fit_lines_is_refused(condition, text):
    with pytest.raises(TerminalFault, match=text):
        lines(condition)


@pytest.mark.parametrize(
    ("connection", "text"),
    [
        ({"ashost": "x", "client": "100", "passwd": "y"}, "logs in"),
        ({"ashost": "x"}, "no client"),
        ({"client": "100"}, "no server"),
    ],
)
def test_a_connection_that_makes_no_sense_is_refused(connection, text):
    with pytest.raises(ValidationError, match=text):
        SapSourceConfig.model_validate({**SAP, "connection": connection})
