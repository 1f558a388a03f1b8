"""One record of Python's logging as one line: a JSON object, or text with the scheduler's id before it."""

from __future__ import annotations

import json
import logging
import re
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.logs.context import FACTS, at_work_on
from kedro_lakehouse.ops.failures import message_of
from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from types import TracebackType

    from kedro_lakehouse.logs.context import RunContext

_LONGEST: Final = 4000
WHOLE: Final = "whole_message"
"""Attribute of a record whose message is shorter on the console than in the run's log."""
_SECRETS: Final = (
    # `password=…`, `"aws_secret_access_key": "…"`: the name stays, the value is replaced.
    (
        re.compile(
            r"""(?i)([\w.-]*(?:passw(?:or)?d|secret|credential|api_?key|access_?key|auth_?token|session_?token)"""
            r"""[\w.-]*["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&]+)"""
        ),
        r"\1***",
    ),
    (re.compile(r"(://)[^/\s:@]+:[^/\s@]+@"), r"\1***@"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), "***"),
)


def without_secrets(text: str) -> str:
    """A text in which every fetched secret, and what looks like one, is replaced by ``***``.

    Example:
        >>> without_secrets("postgresql://me:hidden@host/db?sslpassword=x")
        'postgresql://***@host/db?sslpassword=***'
    """
    text = redacted(text)
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class JsonFormatter(logging.Formatter):
    """Makes each record one JSON object: time (UTC), level, origin, logger, message, run, node, table, batch.

    Of an error only its ``message_of`` and the lines of code that it passed through are written: the text of
    an exception may quote values of rows.
    """

    def __init__(self, run: RunContext) -> None:
        """Keep the run that the lines belong to."""
        super().__init__()
        self._run = run.fields()

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        facts = {f: getattr(record, f, None) or fact for f, fact in at_work_on().items()}
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:23] + "Z",
            "level": record.levelname,
            "origin": "python",
            "logger": record.name,
            "message": without_secrets(getattr(record, WHOLE, None) or record.getMessage())[:_LONGEST],
            **self._run,
            **{name: facts[name] for name in FACTS},
        }
        if record.exc_info and record.exc_info[1]:
            line["error"] = without_secrets(message_of(record.exc_info[1]))
            line["stack"] = _places(record.exc_info[2])
        return json.dumps(line, ensure_ascii=False, default=str)


def _places(trace: TracebackType | None) -> list[str]:
    return [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(trace)]


class PrefixedFormatter(logging.Formatter):
    """Puts the scheduler's id before each line of another formatter's text."""

    def __init__(self, correlation_id: str, inner: logging.Formatter | None) -> None:
        """Keep the formatter that makes the rest."""
        super().__init__()
        self._prefix, self.inner = f"[{correlation_id}] ", inner

    def format(self, record: logging.LogRecord) -> str:
        """The text, each of its lines with the id."""
        text = (self.inner or logging.Formatter()).format(record)
        return "\n".join(self._prefix + line for line in text.splitlines() or [""])
