"""A secret that was fetched is in nothing that is printed."""

from __future__ import annotations

import base64
import io
import json
import logging
import subprocess
import sys
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from kedro_lakehouse import aws
from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.cli.show import print_json, print_table
from kedro_lakehouse.errors import ConfigurationError, UnsupportedError
from kedro_lakehouse.logs.context import RunContext
from kedro_lakehouse.logs.lines import JsonFormatter
from kedro_lakehouse.monitoring.alerts import failure_states
from kedro_lakehouse.ops.failures import TablesFailedError, message_of
from kedro_lakehouse.project import Project
from kedro_lakehouse.redaction import keep_secret, redacted

pytestmark = pytest.mark.unit

SECRET = 'k"R7/9x\\Q2 +ü%&'
FORMS = {
    "as it is": SECRET,
    "in JSON": json.dumps({"p": SECRET}),
    "in JSON with letters of its own": json.dumps({"p": SECRET}, ensure_ascii=False),
    "in a Python text": repr({"p": SECRET}),
    "in an address": "https://me:" + quote(SECRET, safe="") + "@host/path",
    "in an address, small letters": quote(SECRET, safe="").replace("%2F", "%2f").replace("%C3", "%c3"),
    "in Base64": base64.b64encode(SECRET.encode()).decode(),
    "in Base64 for addresses": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "in Base64 behind one": base64.b64encode(("u:" + SECRET).encode()).decode(),
    "in Base64 behind more": base64.b64encode(("user:" + SECRET + ":and more").encode()).decode(),
    "in Base64 behind others": base64.b64encode(("users:" + SECRET + ", and").encode()).decode(),
}


PARTS = (SECRET[:6], SECRET[-6:], base64.b64encode(SECRET.encode()).decode()[4:12])


def halves(text: str) -> set[str]:
    """Parts of the secret that a text still tells."""
    return {part for part in PARTS if part in text}


@pytest.fixture
def secret() -> str:
    return str(keep_secret({"nested": [{"password": SECRET}]})["nested"][0]["password"])


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_replaced(form, secret):
    clean = redacted(f"before {FORMS[form]} after")
    assert "***" in clean
    assert not halves(clean)
    assert clean.startswith("before ")
    assert clean.endswith(" after")


@pytest.mark.parametrize("value", ["abc", "true", "admin", "LakeHouse", 5432, True, None, "", 1.5])
def test_what_is_short_or_a_common_word_blanks_nothing(value):
    keep_secret({"a": value})
    text = f"kedro lakehouse abc true admin {value} 5432"
    assert redacted(text) == text


def test_places_are_no_secrets():
    keep_secret({"host": "mail.example.com", "Region": "eu-west-1", "password": "mail.example.org"})
    assert redacted("mail.example.com eu-west-1 mail.example.org") == "mail.example.com eu-west-1 ***"


def test_a_small_secret_is_replaced_where_it_stands_alone():
    keep_secret({"pin": "tree", "number": 123456})
    assert redacted("street, tree; x=tree: 123456 of 1234567") == "street, ***; x=***: *** of 1234567"


def test_a_line_of_a_key_in_many_lines_is_a_secret_too():
    keep_secret({"key": "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"})
    assert redacted("at line kqhkiG9w0BAQEF") == "at line ***"


def test_the_longer_of_two_secrets_goes_first():
    keep_secret({"a": "prefix-1234", "b": "prefix-1234-and-more"})
    assert redacted("prefix-1234-and-more") == "***"


def test_errors_hold_no_secret_even_where_they_are_cut(secret):
    error = UnsupportedError(what=f"{'x' * 690}{secret} and more", remedy=f"Not {secret}.")
    assert not halves(str(error))
    assert "***" in str(error)
    plain = RuntimeError("y" * 395 + secret)
    assert not halves(message_of(plain))
    assert message_of(plain).endswith("y***")


def test_an_error_that_is_older_than_the_secret_is_told_without_it():
    error = UnsupportedError(what=f"Not {SECRET}.", remedy="Do otherwise.")
    keep_secret({"password": SECRET})
    assert not halves(message_of(error))
    failed = TablesFailedError(tables={"a.b": RuntimeError(f"no {SECRET}")}, retry="kedro run")
    assert not any(halves(state.message) for state in failure_states(failed, set()))


@pytest.mark.parametrize("name", ["kedro_lakehouse.x", "somebody.elses"])
def test_lines_of_any_logger_and_formatter_hold_none(name, secret):
    written = io.StringIO()
    plain, ours = logging.StreamHandler(written), logging.StreamHandler(written)
    ours.setFormatter(JsonFormatter(RunContext(run_id="r", correlation_id="r", pipeline="p")))
    logger = logging.getLogger(name)
    for handler in (plain, ours):
        logger.addHandler(handler)
    try:
        logger.warning("with %s and %s", secret, [secret])
        logger.warning(secret)
        _fail(logger, secret)
    finally:
        for handler in (plain, ours):
            logger.removeHandler(handler)
    text = written.getvalue()
    assert "with *** and" in text
    assert "Traceback" in text
    assert "OddError" in text
    assert not halves(text)
    assert all(json.loads(line) for line in text.splitlines() if line.startswith("{"))


class OddError(Exception):
    """Makes its text of something else than its arguments."""

    def __init__(self, held: str) -> None:
        super().__init__()
        self.held = held

    def __str__(self) -> str:
        return self.held


def _fail(logger: logging.Logger, held: str) -> None:
    try:
        try:
            {}[held]
        except KeyError as error:
            raise OddError(f"login as {held} failed") from error
    except OddError:
        logger.exception("It failed")


def test_json_and_tables_of_commands_hold_none(secret, capsys):
    print_json({secret: [secret, {"x": f"at {secret}"}], "rows": 3})
    print_table(["what"], [[f"at {secret}"], [{"x": secret}]])
    printed = capsys.readouterr().out
    assert not halves(printed)
    assert json.loads(printed.partition("\n}")[0] + "}")["rows"] == 3


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_errors_of_commands_hold_none(words, secret, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    error = ConfigurationError(file="f", key="k", problem=f"no {secret}.", remedy=f"Not {secret}.")
    error.args = (f"older: {secret}",)

    def raising() -> None:
        raise error

    monkeypatch.setattr("kedro_lakehouse.cli.runs.open_project", raising)
    done = CliRunner().invoke(lakehouse, ["runs", *words])
    assert done.exit_code == 1
    assert "***" in done.output
    assert not halves(done.output)


def test_what_credentials_gave_is_kept_from_print(tmp_path, monkeypatch):
    project = Project(
        env="local",
        declarations=None,
        spark_conf={},
        lakehouse=str(tmp_path),
        _credentials=lambda: {"db": {"password": SECRET}},
    )
    assert project.credentials("db") == {"password": SECRET}
    assert redacted(SECRET) == "***"


def test_what_secrets_manager_gave_is_kept_from_print(monkeypatch):
    monkeypatch.setattr(aws, "read_secret", lambda _: json.dumps({"password": SECRET}))
    assert aws.read_credentials("x") == {"password": SECRET}
    assert redacted(SECRET) == "***"


_DIES = """
from kedro_lakehouse.redaction import keep_secret
keep_secret({"password": %r})
def login(word):
    raise RuntimeError("refused: " + word)
login(%r[::-1])
"""


def test_a_process_that_dies_tells_none():
    done = subprocess.run(
        [sys.executable, "-c", _DIES % (SECRET, SECRET[::-1])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "RuntimeError: refused: ***" in done.stderr
    assert not halves(done.stderr)
