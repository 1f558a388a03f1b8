"""A REST API on a real server: each paging with each log-in, faults, stops, and what stands in messages."""

from __future__ import annotations

import itertools
import json
import logging
import traceback
from email.utils import formatdate
from types import SimpleNamespace

import pytest

pytest.importorskip("httpx2", reason="`make test-sources` installs the extra rest")

from harness.rest_api import CREDENTIALS, SECRET, USER, WHOLE, RestApi, rest_api, source_of

from kedro_lakehouse.errors import SourceUnreachableError
from kedro_lakehouse.pulls import retries
from kedro_lakehouse.pulls.errors import TerminalFault, TransientFault, UnstableFault
from kedro_lakehouse.pulls.manifest import SealedPulls
from kedro_lakehouse.pulls.protocol import PulledSource, Since
from kedro_lakehouse.pulls.run import TablePulls, pull_together

pytestmark = pytest.mark.sources

NOTHING = Since(number=0, to=None)


def rows(count):
    """Records that Python's floats would change."""
    return [
        f'{{"id": {n}, "price": {n}.10, "big": {2**70 + n}, "text": "a\\n|\\"{n}"}}' for n in range(count)
    ]


def pulled(api, *, stop_after=None, tries=500, **keys):
    """All records of a pull that is tried again after each fault, and by a new process after some chunks."""
    source, state, landed, chunks = source_of(api, **keys), None, [], 0
    pull = planned(source)
    for _ in range(tries):
        try:
            for chunk in source.read(pull, state):
                landed += chunk.rows
                state = json.loads(json.dumps(chunk.state))
                chunks += 1
                if stop_after and chunks % stop_after == 0:
                    break
            else:
                return landed
        except TransientFault:
            pass
        else:
            source.close()
            source = source_of(api, **keys)
    pytest.fail("the pull did not end")


def planned(source):
    while True:
        try:
            return source.plan(NOTHING)
        except TransientFault:
            continue


def said(error):
    """Everything that a fault shows."""
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize(
    ("paging", "verify", "auth"),
    [
        *itertools.product(["page", "offset"], ["twice"], CREDENTIALS),
        *itertools.product(["cursor", "link"], ["once"], CREDENTIALS),
        ("page", "once", "bearer"),
        ("offset", "once", "bearer"),
        ("link", "twice", "bearer"),
    ],
)
def test_all_records_come_once_in_their_own_bytes_whatever_fails_and_stops(paging, auth, verify):
    expected = [row.encode() for row in rows(1_000)]
    api = RestApi(rows(1_000), paging=paging, auth=auth, fault_rate=0.1, seed=len(paging) * 10 + len(auth))
    with rest_api(api):
        landed = pulled(api, stop_after=4, verify=verify)
    assert landed == expected
    if auth == "oauth2":
        assert api.tokens > 3


def test_one_answer_without_pages():
    api = RestApi(rows(1_000), paging="none")
    with rest_api(api):
        assert pulled(api) == [row.encode() for row in rows(1_000)]


def test_the_source_has_the_interface_of_pulled_sources():
    assert isinstance(source_of(RestApi([])), PulledSource)


def test_line_ends_between_tokens_become_spaces_and_those_in_texts_stay_escaped():
    api = RestApi(['{\n  "id": 1,\r\n  "text": "a\\nb"\n}'], paging="none")
    with rest_api(api):
        (line,) = pulled(api)
    assert b"\n" not in line
    assert json.loads(line) == {"id": 1, "text": "a\nb"}


def test_a_token_that_expires_is_fetched_before_it_is_refused():
    api = RestApi(rows(500), auth="oauth2", token_uses=1_000, expires_in=0)
    with rest_api(api):
        assert len(pulled(api)) == 500
    assert api.tokens == 1 + 10
    assert api.refused == 0


@pytest.mark.parametrize("where", ["header", "body"])
def test_the_client_of_oauth2_shows_its_secret_where_it_is_declared(where):
    api = RestApi(rows(10), auth="oauth2")
    with rest_api(api):
        auth = {"type": "oauth2", "token_url": f"{api.address}/token", "in": where}
        assert len(pulled(api, auth=auth)) == 10


@pytest.mark.parametrize("auth", CREDENTIALS)
def test_wrong_credentials_are_tried_once_and_shown_nowhere(auth, caplog):
    caplog.set_level(logging.DEBUG)
    api = RestApi(rows(10), auth=auth)
    wrong = {key: f"wrong-{value}" for key, value in CREDENTIALS[auth].items()}
    with rest_api(api), pytest.raises(TerminalFault, match="answers 401") as caught:
        source_of(api, secrets=wrong).plan(NOTHING)
    assert api.refused == 1
    assert "credentials" in caught.value.remedy
    assert SECRET not in said(caught.value) + caplog.text


def test_a_secret_that_is_not_there_is_named_before_anything_is_asked():
    api = RestApi(rows(10), auth="oauth2")
    with rest_api(api), pytest.raises(TerminalFault, match="client_secret"):
        source_of(api, secrets={"client_id": USER}).plan(NOTHING)
    assert api.asked == []


@pytest.mark.parametrize(
    ("status", "headers", "after"),
    [
        (429, {"Retry-After": "17"}, 17),
        (503, {"Retry-After": formatdate(2_000_000_030, usegmt=True), "Date": formatdate(2_000_000_000)}, 30),
        (503, {"Retry-After": formatdate(1_000_000_000, usegmt=True)}, 0),
        (429, {"Retry-After": "soon"}, None),
        (500, {}, None),
        (408, {}, None),
    ],
)
def test_what_may_pass_is_transient_and_tells_how_long_to_wait(status, headers, after):
    api = RestApi(rows(10), auth="api_key", answer=lambda _p, _q: (status, headers, b""))
    with rest_api(api), pytest.raises(TransientFault) as caught:
        list(source_of(api).read(WHOLE, None))
    if "Date" in headers:  # the server adds its own before
        assert caught.value.retry_after > 0
    else:
        assert caught.value.retry_after == after
    assert caught.value.reason == f"/v1/parcels answers {status}"


@pytest.mark.parametrize(
    ("status", "body", "fault", "text"),
    [
        (403, b"", TerminalFault, "answers 403"),
        (404, b"", TerminalFault, "answers 404"),
        (400, b"", TerminalFault, "answers 400"),
        (302, b"", TerminalFault, "at another address"),
        (200, b'{"data": {"items": [{"id": 1}', TransientFault, "no whole JSON"),
        (200, b"<html>", TransientFault, "no whole JSON"),
        (200, b'{"rows": []}', TerminalFault, "without a list at `data.items`"),
        (200, b'{"data": {"items": {"id": 1}}}', TerminalFault, "without a list"),
        (200, b'{"data": {"items": [1, 2]}}', TerminalFault, "no JSON objects"),
        (200, b'{"data": {"items": [{"id": "\xff"}]}}', TerminalFault, "not UTF-8"),
    ],
)
def test_what_is_no_answer_is_a_fault_without_secrets(status, body, fault, text):
    headers = {"Location": f"/elsewhere?key={SECRET}"} if status == 302 else {}
    api = RestApi([], auth="api_key", answer=lambda _p, _q: (status, headers, body))
    with rest_api(api), pytest.raises(fault, match=text) as caught:
        list(source_of(api).read(WHOLE, None))
    assert SECRET not in said(caught.value)


def test_the_keys_of_an_answer_are_named_where_records_are_missed():
    api = RestApi([], answer=lambda _p, _q: (200, {}, b'{"rows": [], "total": 0}'))
    with rest_api(api), pytest.raises(TerminalFault) as caught:
        list(source_of(api).read(WHOLE, None))
    assert "'rows'" in caught.value.remedy or "rows" in caught.value.remedy


def test_no_server_is_transient_and_names_the_path_alone():
    api = RestApi([], auth="api_key", port=1)
    with pytest.raises(TransientFault, match="/v1/parcels gave no answer") as caught:
        source_of(api).plan(NOTHING)
    assert SECRET not in said(caught.value)


def test_a_log_holds_no_key(caplog):
    caplog.set_level(logging.INFO)
    api = RestApi(rows(120), auth="api_key")
    with rest_api(api):
        pulled(api)
    assert SECRET not in caplog.text


def test_a_state_holds_no_key_that_a_link_repeats():
    api = RestApi(rows(120), paging="link", auth="api_key")
    with rest_api(api):
        source = source_of(api)
        states = [chunk.state for chunk in source.read(WHOLE, None)]
    assert len(states) == 3
    assert SECRET not in json.dumps(states)


def test_a_link_to_another_server_is_not_followed():
    link = {"Link": f'<http://127.0.0.1:9/v1/parcels?key={SECRET}>; rel="next"'}
    body = b'{"data": {"items": [{"id": 1}]}}'
    api = RestApi([], paging="link", auth="bearer", answer=lambda _p, _q: (200, link, body))
    with rest_api(api), pytest.raises(TerminalFault, match="another server") as caught:
        list(source_of(api).read(WHOLE, None))
    assert SECRET not in said(caught.value)


def test_a_cursor_that_stays_is_refused():
    body = b'{"data": {"items": [{"id": 1}]}, "meta": {"next": 7}}'
    api = RestApi([], answer=lambda _p, _q: (200, {}, body))
    with rest_api(api), pytest.raises(TerminalFault, match="the one that it just gave"):
        list(source_of(api).read(WHOLE, None))


def test_a_flag_ends_pages_where_one_behind_the_last_is_an_error():
    def answer(_path, query):
        page = int(query["number"])
        more = "true" if page < 3 else "false"
        body = f'{{"data": {{"items": [{{"id": {page}}}]}}, "more": {more}}}'.encode()
        return (200, {}, body) if page <= 3 else (404, {}, b"")

    api = RestApi([], answer=answer)
    paging = {"type": "page", "parameter": "number", "first": 0, "more": "more"}
    with rest_api(api):
        landed = list(itertools.chain(*(c.rows for c in source_of(api, paging=paging).read(WHOLE, None))))
    assert [json.loads(row)["id"] for row in landed] == [0, 1, 2, 3]


def test_a_window_goes_from_the_last_ones_end_less_an_overlap_to_the_servers_time():
    api = RestApi(rows(3), paging="none")
    with rest_api(api):
        window = {"from": "updated_since", "to": "updated_before"}
        source = source_of(api, window=window, mode="incremental", parameters={"limit": 100})
        pull = source.plan(Since(number=1, to="2026-01-31T00:00:00Z"))
        list(source.read(pull, None))
    assert pull.from_ == "2026-01-30T23:50:00Z"
    assert pull.identity == {"server": api.address, "table": "/v1/parcels"}
    begin, end = "updated_since=2026-01-30T23%3A50%3A00Z", f"updated_before={pull.to.replace(':', '%3A')}"
    assert api.asked[-1] == ("GET", f"/v1/parcels?limit=100&{begin}&{end}")


def test_a_window_may_be_in_seconds_and_open():
    api = RestApi(rows(3), paging="none")
    with rest_api(api):
        source = source_of(
            api,
            window={"from": "since", "format": "unix"},
            pull={"mode": "incremental", "cursor": "at", "late": {"overlap": "15 min"}},
        )
        list(source.read(source.plan(Since(number=1, to="1970-01-01T00:20:00Z")), None))
    assert api.asked[-1] == ("GET", "/v1/parcels?since=300")


def test_nothing_is_planned_within_the_second_of_the_last_window():
    api = RestApi(rows(3))
    with rest_api(api):
        source = source_of(api, window={"from": "since"}, mode="incremental")
        assert source.plan(Since(number=1, to="2999-01-01T00:00:00Z")) is None


def test_requests_of_an_api_keep_their_distance(monkeypatch):
    waited = []
    monkeypatch.setattr("threading.Event.wait", lambda _self, timeout=None: waited.append(timeout))
    from threading import Event

    from kedro_lakehouse.pulls.rest.client import _Pace

    pace = _Pace(0.2)
    for _ in range(3):
        pace.wait(Event())
    assert waited[0] == 0
    assert 0.15 < waited[1] <= 0.2
    assert 0.35 < waited[2] <= 0.4


def test_fields_are_described_by_the_first_page():
    api = RestApi(['{"id": 1, "name": null}', '{"id": 2.5, "name": "x", "tags": []}'], paging="none")
    with rest_api(api):
        entity = source_of(api).describe()
    assert [(c.name, c.type, c.nullable) for c in entity.columns] == [
        ("id", "number", False),
        ("name", "string", True),
        ("tags", "array", False),
    ]


def test_a_reading_that_is_ended_from_another_thread_ends():
    api = RestApi(rows(1_000))
    with rest_api(api):
        source = source_of(api)
        reading = source.read(WHOLE, None)
        next(reading)
        source.close()
        with pytest.raises(TransientFault, match="ended"):
            next(reading)


@pytest.mark.parametrize(
    ("pull", "window", "key"),
    [
        ({}, None, "pull.mode"),
        ({"late": "open_transactions"}, {"from": "since"}, "pull.late"),
        ({}, {"from": "since"}, None),
    ],
)
def test_an_increment_needs_a_window_and_an_overlap(pull, window, key):
    pull = {"mode": "incremental", "cursor": "at", **pull}
    source = source_of(RestApi([]), window=window, pull=pull)
    problem = source._config.table_problem(source._table)
    assert (problem and problem.key) == key


@pytest.fixture
def slow_clock(monkeypatch):
    """A clock by which a minute passes whenever a pull looks at it."""
    minutes = itertools.count()
    monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: next(minutes) * 60.0))


def pulls_of(api, folder):
    source = source_of(api, path=str(folder))
    return TablePulls(
        source._name,
        source._table,
        source._config,
        make=lambda: source_of(api, path=str(folder)),
        sealed=SealedPulls(str(folder), "devices.parcel"),
    )


def test_a_pull_that_goes_on_has_its_whole_budget_after_each_failure(slow_clock, tmp_path):
    api = RestApi(rows(1_000), size=25)
    again = {"Retry-After": "0"}
    api.answer = lambda _p, _q: (429, again, b"") if len(api.asked) % 3 == 0 else None
    with rest_api(api):
        (manifest,) = pull_together([pulls_of(api, tmp_path)]).values()
    assert manifest.rows == 1_000
    landed = (tmp_path / manifest.files[0].path).read_bytes().splitlines()
    assert landed == [row.encode() for row in rows(1_000)]


def test_a_pull_that_does_not_go_on_is_given_up(slow_clock, tmp_path):
    api = RestApi(rows(1_000))
    api.answer = lambda _p, _q: (429, {"Retry-After": "0"}, b"") if len(api.asked) > 3 else None
    with rest_api(api), pytest.raises(SourceUnreachableError, match="answers 429"):
        pull_together([pulls_of(api, tmp_path)])
    assert len(api.asked) == 15  # three answers, eleven pauses of a minute, one try more
    assert not list(tmp_path.rglob("*.json"))


def test_rows_that_move_between_two_readings_are_refused():
    kept = rows(200)
    api = RestApi(kept, paging="offset")
    api.before_answer = lambda: kept.pop(0) if len(api.asked) == 4 else None
    with rest_api(api), pytest.raises(UnstableFault, match="differ"):
        pulled(api, stable=False, verify="twice")
