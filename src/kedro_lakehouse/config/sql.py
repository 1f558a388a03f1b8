"""Mistakes in SQL that can be seen without Spark; what is in doubt is left to Spark."""

from __future__ import annotations

import re
from typing import Final

from kedro_lakehouse.config.base import refuse

_PARTS: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|['\"`()\[\];]", re.DOTALL)
_CLOSED_BY: Final = {"(": ")", "[": "]"}
_NO_END: Final = re.compile(r"[=<>+\-/%,|&]\s*$")
_NO_START: Final = re.compile(r"^\s*(?:[=<>/%,)]|!=)")


def condition(text: str) -> str:
    """Return the text of an SQL condition, unless it can be none."""
    _refuse_unclosed(text)
    bare = _PARTS.sub(lambda part: part[0] if len(part[0]) == 1 else " x ", text)
    if "\\" not in text and ";" in bare:
        raise refuse("a ';' stands in the condition", "Remove it, a condition is a part of a statement.")
    if "--" not in text and "/*" not in text and (_NO_END.search(text) or _NO_START.search(text)):
        raise refuse("the condition is not complete", "Write both sides, such as amount >= 0.")
    return text


def statement(text: str) -> str:
    """Return the text of an SQL statement, unless a bracket or a quote of it is not closed."""
    _refuse_unclosed(text)
    return text


def _refuse_unclosed(text: str) -> None:
    if "\\" in text:  # what follows a backslash may be part of a text, or not: Spark has a setting for it
        return
    opened: list[str] = []
    for found in _PARTS.finditer(text):
        part = found[0]
        if part in ("'", '"', "`"):
            raise refuse(f"a quote is never closed: {part}", "Close it; within a text, write it twice.")
        if part in _CLOSED_BY:
            opened.append(part)
        elif part in _CLOSED_BY.values() and (not opened or _CLOSED_BY[opened.pop()] != part):
            raise refuse(f"a bracket closes none that is open: {part}", "Remove it, or open it before.")
    if opened:
        raise refuse(f"a bracket is never closed: {opened[-1]}", f"Close it with {_CLOSED_BY[opened[-1]]}.")
