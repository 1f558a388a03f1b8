"""Secrets that this process has fetched: in what it prints, each is replaced by ``***``.

What is known is compared, not what a pattern guesses: as it stands, as it stands in JSON, in a Python text,
in an address, in HTML, and in Base64, also where other text was encoded with it.

Not taken for a secret: fewer than four characters; numbers below six digits, true, false and nothing; a word
that messages are made of; and what stands under a key that names a place, such as ``host``. A text of fewer
than eight characters is replaced where it stands alone, not inside of another word.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

MASK: Final = "***"
_SHORTEST: Final = 4
_STANDS_ALONE_BELOW: Final = 8
_FEWEST_DIGITS: Final = 6
_PLACES: Final = frozenset(
    {"host", "hostname", "port", "region", "region_name", "endpoint", "endpoint_url", "database", "schema"}
)
_COMMON: Final = frozenset({
    "admin", "administrator", "anonymous", "batch", "changes", "columns", "config", "credentials", "data",
    "database", "debug", "default", "delta", "development", "error", "example", "failed", "false", "file",
    "files", "glue", "guest", "hudi", "iceberg", "info", "json", "kedro", "lakehouse", "landing", "local",
    "localhost", "login", "main", "mysql", "name", "none", "null", "ops", "oracle", "parquet", "password",
    "postgres", "postgresql", "private", "prod", "production", "public", "read", "root", "schema",
    "secret", "secrets", "service", "source", "sources", "spark", "staging", "table", "tables", "test",
    "token", "true", "user", "username", "warning", "write",
})  # fmt: skip
_Held = TypeVar("_Held")


class _Known:
    """The forms of all secrets, and the expression that finds them."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._changing = threading.Lock()
        self.found: re.Pattern[str] | None = None

    def add(self, secrets: Iterator[str]) -> None:
        """Know some more."""
        with self._changing:
            forms = self._forms.union(*map(_forms, secrets))
            if forms != self._forms:
                self._forms = forms
                longest_first = sorted(forms, key=lambda form: (-len(form), form))
                self.found = re.compile("|".join(map(_expression, longest_first)))
            if forms:
                _install()

    def forget(self) -> None:
        """Know none."""
        self._forms, self.found = set(), None


_known: Final = _Known()


def keep_secret(held: _Held) -> _Held:
    """The same credentials, after which no text of ``redacted`` holds a secret of theirs."""
    _known.add(_texts(held))
    return held


def redacted(text: str) -> str:
    """A text in which every secret that was fetched is replaced by ``***``.

    Example:
        >>> held = keep_secret({"user": "admin", "password": "kR7/9xQ2"})
        >>> redacted("admin:kR7/9xQ2, https://admin:kR7%2F9xQ2@host")
        'admin:***, https://admin:***@host'
    """
    return text if _known.found is None else _known.found.sub(MASK, text)


def _texts(held: object, key: str = "") -> Iterator[str]:
    """The texts of credentials that are secrets."""
    if isinstance(held, Mapping):
        for name, value in held.items():
            yield from _texts(value, str(name))
    elif isinstance(held, Sequence) and not isinstance(held, str | bytes):
        for value in held:
            yield from _texts(value, key)
    elif key.lower() not in _PLACES and (isinstance(held, str) or _is_long_number(held)):
        text = str(held).strip()
        lines = [text, *(line.strip() for line in text.splitlines() if not line.startswith("-----"))]
        yield from (one for one in lines if len(one) >= _SHORTEST and one.lower() not in _COMMON)


def _is_long_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and len(str(value)) >= _FEWEST_DIGITS


def _forms(secret: str) -> set[str]:
    """Every way in which a secret may stand in a text."""
    quoted = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    written = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    return {secret, html.escape(secret), *quoted, *written, *_encoded(secret.encode())}


def _encoded(secret: bytes) -> Iterator[str]:
    """The secret in Base64: alone, and its own characters where up to two others were encoded before it."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(secret).decode()
        yield from (whole, whole.rstrip("="))
        if len(secret) < _STANDS_ALONE_BELOW:
            continue
        for before in range(3):
            text = encode(b"\0" * before + secret).decode().rstrip("=")
            bits = 8 * (before + len(secret))
            yield text[-(-8 * before // 6) : bits // 6]  # without characters that others have a part in


def _expression(form: str) -> str:
    escaped = re.sub("%[0-9A-F]{2}", r"(?i:\g<0>)", re.escape(form))  # an address may write %2f or %2F
    return rf"(?<!\w){escaped}(?!\w)" if len(form) < _STANDS_ALONE_BELOW else escaped


def mask_error(error: BaseException | None) -> None:
    """Replace secrets in the texts of an error and of what it came from, whoever raised them."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # a chain may come back to itself
        seen.add(id(error))
        clean = tuple(redacted(fact) if isinstance(fact, str) else fact for fact in error.args)
        if clean != error.args:
            error.args = clean
        error = error.__cause__ or error.__context__


_installed = threading.Event()


def _install() -> None:
    """Have every line of Python's logging, and what ends the process, pass through here from now on.

    At the making of a record, not in a handler: so it holds for any library, handler and formatter.
    """
    if _installed.is_set():
        return
    _installed.set()
    made_before, shown_before = logging.getLogRecordFactory(), sys.excepthook

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = made_before(*args, **kwargs)
        _mask_record(record)
        return record

    def shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        mask_error(error)
        shown_before(kind, error, trace)

    logging.setLogRecordFactory(made)
    sys.excepthook = shown


def _mask_record(record: logging.LogRecord) -> None:
    try:
        message = record.getMessage()
    except (TypeError, ValueError, KeyError):  # words that do not fit their format: logging tells of it
        return
    if (clean := redacted(message)) != message:
        record.msg, record.args = clean, None
    if record.exc_info and record.exc_info[1] is not None:
        mask_error(record.exc_info[1])
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        if (clean := redacted(text)) != text:  # an error that makes its text of something else
            record.exc_text = clean
    if record.stack_info:
        record.stack_info = redacted(record.stack_info)
