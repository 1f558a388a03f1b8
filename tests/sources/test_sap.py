"""Tables of SAP through a double of RFC_READ_TABLE with its limits: widths, lines, no order, moving keys."""

from __future__ import annotations

import datetime as dt
import json
import logging
import random
import string
import traceback
from decimal import Decimal

import pyarrow as pa
import pytest

pytest.importorskip("pyrfc", reason="`make test-sources` installs the extra sap")

import pyrfc
from harness.sap import LINE, FakeSap, RefusedError, SapField

from kedro_lakehouse.config.sap import SapPullConfig, SapSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.errors import InexactFault, TerminalFault, TransientFault, UnstableFault
from kedro_lakehouse.pulls.protocol import Pull, PulledSource, Since
from kedro_lakehouse.pulls.sap.connection import answered
from kedro_lakehouse.pulls.sap.source import SapSource

pytestmark = pytest.mark.sources

KEYS = ("MANDT", "VBELN", "POSNR")
WHOLE = Pull(from_=None, to="2026-01-31T11:00:00+00:00")
SECRET = "geheim-0815"
CREDENTIALS = {"user": "READER", "passwd": SECRET}
ITEM = [
    SapField("MANDT", length=3),
    SapField("VBELN", length=10),
    SapField("POSNR", "N", 6),
    SapField("ARKTX", length=300),
    SapField("ZZNOTE", length=400),
    SapField("NETWR", "P", 18),
    SapField("ERDAT", "D", 8),
    SapField("UMVKZ", "I", 11),
    SapField("ZZMORE", length=186),
]
assert sum(one.length for one in ITEM) == 942


def items(count, seed=0):
    """Rows of 942 characters, with what separates and quotes elsewhere in their texts."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    letters = string.ascii_letters + "|'\" ;\\äß漢"

    def text(length):
        return "".join(chance.choices(letters, k=length - 1)) + "."

    return [
        {
            "MANDT": "100",
            "VBELN": f"{n // 3:010d}",
            "POSNR": f"{n % 3 * 10:06d}",
            "ARKTX": text(300),
            "ZZNOTE": text(400),
            "NETWR": f"{n / 100:17.2f}" + chance.choice("- "),
            "ERDAT": chance.choice(["00000000", "20240229"]),
            "UMVKZ": f"{n:10d}" + chance.choice("- "),
            "ZZMORE": text(186),
        }
        for n in range(count)
    ]


def source_of(sap, *, pull=None, keys=KEYS, table=None, **declared):
    """The source of a table, connected to a double."""
    config = SapSourceConfig.model_validate(
        {
            "type": "sap",
            "path": "landing",
            "credentials": "erp",
            "connection": {"ashost": "sap.example.com", "sysnr": "00", "client": "100"},
            **declared,
        }
    )
    what = SapPullConfig(**({"fields": [one.name for one in ITEM]} if pull is None else pull))
    declared_table = TableConfig.model_validate(
        {"source": "erp_sap", "entity": "VBAP", "keys": keys, "pull": what, **(table or {})}
    )
    source = SapSource(config, TableName("sap", "item"), declared_table, CREDENTIALS)
    source._connected = sap
    return source


def pulled(source, state=None):
    return pa.concat_tables(chunk.rows for chunk in source.read(WHOLE, state))


def expected(rows):
    """What rows of ``items`` are, typed."""

    def signed(text):
        return ("-" if text.endswith("-") else "") + text.strip(" -")

    return {
        (row["MANDT"], row["VBELN"], row["POSNR"]): {
            **row,
            "NETWR": Decimal(signed(row["NETWR"])),
            "ERDAT": None if row["ERDAT"] == "00000000" else dt.date(2024, 2, 29),
            "UMVKZ": int(signed(row["UMVKZ"])),
        }
        for row in rows
    }


def by_key(table):
    found = {tuple(row[key] for key in KEYS): row for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


@pytest.mark.parametrize("seed", range(20))
def test_wide_rows_in_no_order_are_read_whole(seed):
    rows = items(600, seed)
    sap = FakeSap(ITEM, rows, seed=seed)
    assert by_key(pulled(source_of(sap, rows=100))) == expected(rows)
    assert all(len(line) < LINE for _, options in sap.calls for line in options)


def test_2500_rows_of_942_characters_take_few_calls():
    sap = FakeSap(ITEM, items(2_500))
    assert pulled(source_of(sap, rows=250)).num_rows == 2_500
    assert len(sap.calls) < 40


def test_rowskips_of_the_double_lose_rows():
    sap = FakeSap(ITEM, items(300))
    found = set()
    for skipped in range(0, 300, 50):
        answer = sap.call(
            "RFC_READ_TABLE", QUERY_TABLE="VBAP", ROWSKIPS=skipped, ROWCOUNT=50,
            FIELDS=[{"FIELDNAME": "VBELN"}, {"FIELDNAME": "POSNR"}],
        )  # fmt: skip
        found |= {line["WA"] for line in answer["DATA"]}
    assert len(found) < 300


@pytest.mark.parametrize("seed", range(50))
def test_keys_that_come_and_go_between_calls_leave_no_wrong_row(seed):
    every = items(400, seed)
    rows = every[::2]
    spare = every[1::2]
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    stayed = expected(rows)

    def move():
        if chance.random() < 0.3:
            gone = rows.pop(chance.randrange(len(rows)))
            stayed.pop(tuple(gone[key] for key in KEYS), None)
        if chance.random() < 0.3 and spare:
            rows.append(spare.pop(chance.randrange(len(spare))))

    sap = FakeSap(ITEM, rows, seed=seed, before_call=move)
    found = by_key(pulled(source_of(sap, rows=50)))
    assert stayed.items() <= found.items()
    assert found.items() <= expected(every).items()


def test_a_busy_range_is_read_in_halves():
    every, chance = items(800), random.Random(5)  # noqa: S311 - not for secrets
    rows, stayed = every[:400], expected(every[:400])

    def move():
        for _ in range(2):
            gone = rows.pop(chance.randrange(len(rows)))
            stayed.pop(tuple(gone[key] for key in KEYS), None)
            rows.append(every[chance.randrange(len(every))])
            rows[:] = {tuple(row[key] for key in KEYS): row for row in rows}.values()

    sap = FakeSap(ITEM, rows, before_call=move)
    found = by_key(pulled(source_of(sap, rows=400)))
    assert stayed.items() <= found.items()
    assert found.items() <= expected(every).items()


def test_a_range_that_never_stands_still_is_refused():
    rows, numbers = items(10), iter(range(1_000, 2_000))

    def move():
        rows.append({**rows[0], "VBELN": "0000000001", "POSNR": f"{next(numbers):06d}"})

    sap = FakeSap(ITEM, rows, before_call=move)
    with pytest.raises(UnstableFault, match="changed in each of"):
        pulled(source_of(sap))


def test_a_reading_goes_on_after_the_state_of_a_chunk():
    rows = items(500)
    sap = FakeSap(ITEM, rows)
    landed, state = [], None
    for _ in range(100):
        chunks = source_of(sap, rows=60).read(WHOLE, state)
        chunk = next(chunks, None)
        if chunk is None:
            break
        landed.append(chunk.rows)
        state = json.loads(json.dumps(chunk.state))
    assert by_key(pa.concat_tables(landed)) == expected(rows)
    assert len(landed) > 5


def test_values_are_typed_and_keep_their_zeros():
    kinds = [
        SapField("ID", "C", 5), SapField("NUM", "N", 6), SapField("DAY", "D", 8), SapField("AT", "T", 6),
        SapField("AMOUNT", "P", 12), SapField("COUNT", "I", 11), SapField("RATE", "F", 24),
    ]  # fmt: skip
    rows = [
        {"ID": "00001", "NUM": "000042", "DAY": "19991231", "AT": "000000", "AMOUNT": "      12.50-",
         "COUNT": "        7-", "RATE": "-1.2500000000000000E+02"},
        {"ID": "00002", "NUM": "000000", "DAY": "00000000", "AT": "235959", "AMOUNT": " 123456.00 ",
         "COUNT": "         0", "RATE": " 0.0000000000000000E+00"},
    ]  # fmt: skip
    table = pulled(source_of(FakeSap(kinds, rows), keys=["ID"], pull={}))
    assert table.to_pylist() == [
        {"ID": "00001", "NUM": "000042", "DAY": dt.date(1999, 12, 31), "AT": "000000",
         "AMOUNT": Decimal("-12.50"), "COUNT": -7, "RATE": -125.0},
        {"ID": "00002", "NUM": "000000", "DAY": None, "AT": "235959", "AMOUNT": Decimal("123456.00"),
         "COUNT": 0, "RATE": 0.0},
    ]  # fmt: skip
    assert table.schema.field("AMOUNT").type == pa.decimal128(12, 2)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (SapField("V", "P", 5), "*23.4", "overflows"),
        (SapField("V", "I", 5), "*2345", "overflows"),
        (SapField("V", "I", 5), "12a", "no number"),
        (SapField("V", "D", 8), "20240230", "no date"),
        (SapField("V", "X", 8), "00FF00FF", "bytes"),
        (SapField("V", "g", 8), "text", "the type g"),
    ],
)
def test_values_that_an_answer_changes_are_refused(kind, text, said):
    sap = FakeSap([SapField("ID", "C", 5), kind], [{"ID": "1", "V": text}])
    with pytest.raises(InexactFault, match=said) as caught:
        pulled(source_of(sap, keys=["ID"], pull={"fields": ["V"]}))
    assert text not in str(caught.value)


def test_the_first_rows_can_be_looked_at():
    sap = FakeSap(ITEM, items(300))
    table = pulled(source_of(sap, rows=20, pull={"fields": ["NETWR"], "from_row": 30, "max_rows": 60}))
    keys = sorted(by_key(table))
    assert keys == sorted(expected(items(300)))[30:90]


def test_a_condition_and_quotes_in_values_reach_sap_whole():
    rows = [{"ID": f"O'Neill {n:02d}", "V": "a b"} for n in range(30)] + [{"ID": "x", "V": "y"}]
    sap = FakeSap([SapField("ID", "C", 12), SapField("V", "C", 5)], rows)
    where = "( V = 'a b' OR V = 'it''s' ) AND ID <> 'O''Neill 07' AND ID >= 'O' AND ID <= 'P' AND V <> 'x'"
    table = pulled(source_of(sap, keys=["ID"], rows=7, pull={"fields": ["V"], "where": where}))
    assert sorted(table["ID"].to_pylist()) == [f"O'Neill {n:02d}" for n in range(30) if n != 7]
    assert max(len(options) for _, options in sap.calls) > 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"table": {"entity": "VBAQ"}}, "no data: there is no such table"),
        ({"pull": {"fields": ["NETWRX"]}}, "no data: there is no such field"),
        ({"pull": {"fields": ["NETWR"], "where": "NETWR ~ 1"}}, "does not understand the condition"),
        ({"pull": {}}, "longer than an answer"),
        ({"keys": ["MANDT", "VBELN"]}, "not the primary key"),
        ({"pull": {"fields": ["NETWR"], "range_by": "NETWR"}}, "cannot be divided by NETWR"),
    ],
)
def test_what_is_wrong_of_a_declaration_is_said(change, text):
    with pytest.raises(TerminalFault, match=text) as caught:
        pulled(source_of(FakeSap(ITEM, items(9)), **change))
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.remedy


def test_no_rows_are_no_error_but_a_hint(caplog):
    table = pulled(source_of(FakeSap(ITEM, []), table={"types": {"NETWR": "decimal(15,2)"}}))
    assert table.num_rows == 0
    assert table.schema.field("NETWR").type.scale == 2
    assert "no data; check table and fields" in caplog.text


def test_a_window_has_whole_days_and_overlaps_by_one():
    sap = FakeSap(ITEM, items(9))
    source = source_of(sap, pull={"mode": "incremental", "cursor": "ERDAT", "fields": ["ERDAT"]})
    pull = source.plan(Since(number=1, to="2026-01-29T23:30:00+00:00"))
    assert (pull.from_, pull.to) == ("2026-01-28T23:30:00+00:00", "2026-01-31T11:00:00+00:00")
    assert pull.identity == {"server": "ABC, client 100", "table": "VBAP"}
    assert source._window(pull) == "ERDAT >= '20260129' AND ERDAT <= '20260131'"
    assert source.plan(Since(number=1, to="2026-02-01T00:00:00+00:00")) is None


@pytest.mark.parametrize(
    ("pull", "keys", "text"),
    [
        ({"late": {"overlap": "3 hours"}}, ["MANDT"], "overlap by a day"),
        ({"late": "open_transactions"}, ["MANDT"], "does not tell which transactions"),
    ],
)
def test_windows_of_dates_must_overlap(pull, keys, text):
    source = source_of(None, pull={"mode": "incremental", "cursor": "ERDAT", **pull}, keys=keys)
    assert text in source._config.table_problem(source._table).problem


def test_rows_need_key_fields():
    table = {"write": "append"}
    source = source_of(None, pull={"mode": "snapshot"}, keys=[], table=table)
    assert source._config.table_problem(source._table).key == "pull.key_fields"
    source = source_of(None, pull={"mode": "snapshot", "key_fields": KEYS}, keys=[], table=table)
    assert source._config.table_problem(source._table) is None


def test_sap_is_asked_for_its_time_and_no_other_counts():
    with pytest.raises(TerminalFault, match="does not tell its time"):
        source_of(FakeSap(ITEM, [], answer="")).plan(Since(number=0, to=None))


def test_fields_are_described():
    entity = source_of(FakeSap(ITEM, [])).describe()
    assert [(one.name, one.type) for one in entity.columns][:3] == [
        ("MANDT", "C"),
        ("VBELN", "C"),
        ("POSNR", "N"),
    ]


def test_the_source_has_the_interface_of_pulled_sources():
    source = source_of(FakeSap(ITEM, []))
    assert isinstance(source, PulledSource)
    source.close()


def test_a_connection_is_closed_and_said(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    given, sap = {}, FakeSap(ITEM, items(9))
    monkeypatch.setattr(pyrfc, "Connection", lambda **parameters: given.update(parameters) or sap)
    source = source_of(None)
    pulled(source)
    source.close()
    assert given == {"ashost": "sap.example.com", "sysnr": "00", "client": "100", **CREDENTIALS}
    assert "Connected to SAP at sap.example.com, client 100" in caplog.text
    assert SECRET not in caplog.text
    assert sap.is_closed


@pytest.mark.parametrize(
    ("error", "fault", "text"),
    [
        (pyrfc.CommunicationError(f"connect as READER with {SECRET}", 1, "RFC_COMMUNICATION_FAILURE"),
         TransientFault, "cannot connect to sap.example.com"),
        (pyrfc.LogonError(f"Name or password is incorrect: {SECRET}", 2, "RFC_LOGON_FAILURE"),
         TerminalFault, "does not let the user in"),
        (pyrfc.ABAPRuntimeError("No RFC authorization", 3, "RFC_NO_AUTHORITY"), TerminalFault, "no right"),
        (pyrfc.ABAPRuntimeError("Time limit exceeded", 3, "TIME_OUT"), TransientFault, "TIME_OUT"),
    ],
)  # fmt: skip
def test_no_connection_is_said_without_the_password(monkeypatch, error, fault, text):
    def refuse(**_):
        raise error

    monkeypatch.setattr(pyrfc, "Connection", refuse)
    with pytest.raises(fault, match=text) as caught:
        source_of(None).plan(Since(number=0, to=None))
    assert SECRET not in "".join(traceback.format_exception(caught.value)) + repr(caught.value)


def test_without_the_sdk_its_remedy_is_named(monkeypatch):
    monkeypatch.delenv("SAPNWRFC_HOME", raising=False)
    with pytest.raises(UnsupportedError, match="SDK is not installed"):
        source_of(None).plan(Since(number=0, to=None))


def test_without_a_secret_nothing_is_asked():
    source = source_of(None)
    source._credentials = {"user": "READER"}
    with pytest.raises(TerminalFault, match="passwd"):
        source.describe()


def test_what_sap_refuses_for_another_reason_keeps_its_code_alone():
    with pytest.raises(TerminalFault, match="SOMETHING_ELSE") as caught, answered("VBAP"):
        raise RefusedError("SOMETHING_ELSE")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
