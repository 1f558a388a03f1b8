"""RFC_READ_TABLE as SAP has it, in memory: its widths, its lines of conditions, and rows in no order."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyrfc import ABAPApplicationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH = 512
LINE = 72
_TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*')|(<=|>=|<>|=|<|>|\(|\))|([A-Za-z0-9_/]+))")


class RefusedError(ABAPApplicationError):
    """An exception of the function; its text repeats what SAP's would: values of the call."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Exception {key} raised, user READER, password geheim-0815", 5, key)


@dataclass
class SapField:
    """A field of a table in SAP: ``length`` characters in an answer."""

    name: str
    type: str = "C"
    length: int = 10


@dataclass
class FakeSap:
    """One table, and what was asked of it."""

    fields: Sequence[SapField]
    rows: list[dict[str, str]] = field(default_factory=list)
    """Texts as an answer holds them."""
    name: str = "VBAP"
    seed: int = 0
    before_call: Callable[[], None] = lambda: None
    answer: str = "Date: 20260131   Time: 120000"
    zone: str = "3600  "
    calls: list[tuple[list[str], list[str]]] = field(default_factory=list)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - not for secrets

    def close(self) -> None:
        self.is_closed = True

    def call(self, func_name: str, **params: Any) -> dict[str, Any]:
        """Call a function."""
        if func_name == "STFC_CONNECTION":
            return {
                "RESPTEXT": f"SAP R/3 Rel. 750   Sysid: ABC      {self.answer}   Logon_Data: 100/READER/E"
            }
        if func_name == "RFC_SYSTEM_INFO":
            return {"RFCSI_EXPORT": {"RFCSYSID": "ABC", "RFCTZONE": self.zone, "RFCDAYST": " "}}
        assert func_name == "RFC_READ_TABLE"
        return self._read_table(**params)

    def _read_table(
        self,
        *,
        QUERY_TABLE: str,  # noqa: N803
        OPTIONS: Sequence[dict[str, str]] = (),  # noqa: N803
        FIELDS: Sequence[dict[str, str]] = (),  # noqa: N803
        DELIMITER: str = "",  # noqa: N803
        NO_DATA: str = "",  # noqa: N803
        ROWSKIPS: int = 0,  # noqa: N803
        ROWCOUNT: int = 0,  # noqa: N803
    ) -> dict[str, Any]:
        names = [one["FIELDNAME"] for one in FIELDS] or [one.name for one in self.fields]
        self.calls.append((names, [one["TEXT"] for one in OPTIONS]))
        if self.name != QUERY_TABLE:
            raise RefusedError("TABLE_NOT_AVAILABLE")
        known = {one.name: one for one in self.fields}
        if not set(names) <= set(known):
            raise RefusedError("FIELD_NOT_VALID")
        chosen = [known[name] for name in names]
        if sum(one.length for one in chosen) + len(DELIMITER) * (len(chosen) - 1) > WIDTH:
            raise RefusedError("DATA_BUFFER_EXCEEDED")
        if any(len(one["TEXT"]) > LINE for one in OPTIONS):
            raise RefusedError("OPTION_NOT_VALID")
        meets = _condition("".join(one["TEXT"].ljust(LINE) for one in OPTIONS))
        described, offset = [], 0
        for one in chosen:
            described.append(
                {
                    "FIELDNAME": one.name,
                    "OFFSET": f"{offset:06d}",
                    "LENGTH": f"{one.length:06d}",
                    "TYPE": one.type,
                    "FIELDTEXT": one.name.title(),
                }
            )
            offset += one.length + len(DELIMITER)
        if NO_DATA:
            return {"FIELDS": described, "DATA": []}
        self.before_call()
        found = [row for row in self.rows if meets(row)]
        self.chance.shuffle(found)
        found = found[ROWSKIPS : ROWSKIPS + ROWCOUNT if ROWCOUNT else None]
        lines = [
            DELIMITER.join(row[one.name].ljust(one.length)[: one.length] for one in chosen) for row in found
        ]
        return {"FIELDS": described, "DATA": [{"WA": line.rstrip(" ")} for line in lines]}


def _condition(text: str) -> Callable[[dict[str, str]], bool]:
    """A condition of Open SQL: comparisons, BETWEEN, AND, OR, NOT, parentheses."""
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise RefusedError("OPTION_NOT_VALID")
        tokens.append(match[0].strip())
        at = match.end()
    if not tokens:
        return lambda _row: True
    meets, rest = _either(tokens)
    if rest:
        raise RefusedError("OPTION_NOT_VALID")
    return meets


def _any(*conditions: Any) -> Any:
    return lambda row: any(meets(row) for meets in conditions)


def _all(*conditions: Any) -> Any:
    return lambda row: all(meets(row) for meets in conditions)


def _either(tokens: list[str]) -> tuple[Any, list[str]]:
    meets, tokens = _both(tokens)
    while tokens[:1] == ["OR"]:
        other, tokens = _both(tokens[1:])
        meets = _any(meets, other)
    return meets, tokens


def _both(tokens: list[str]) -> tuple[Any, list[str]]:
    meets, tokens = _one(tokens)
    while tokens[:1] == ["AND"]:
        other, tokens = _one(tokens[1:])
        meets = _all(meets, other)
    return meets, tokens


def _one(tokens: list[str]) -> tuple[Any, list[str]]:
    if tokens[:1] == ["("]:
        meets, rest = _either(tokens[1:])
        if rest[:1] != [")"]:
            raise RefusedError("OPTION_NOT_VALID")
        return meets, rest[1:]
    if len(tokens) < 3:
        raise RefusedError("OPTION_NOT_VALID")
    name, sign = tokens[:2]
    if sign == "BETWEEN":
        if tokens[3:4] != ["AND"]:
            raise RefusedError("OPTION_NOT_VALID")
        low, high = _value(tokens[2]), _value(tokens[4])
        return (lambda row: low <= row[name].rstrip() <= high), tokens[5:]
    value = _value(tokens[2])
    signs: dict[str, Callable[[str], bool]] = {
        "=": lambda found: found == value,
        "<>": lambda found: found != value,
        ">=": lambda found: found >= value,
        "<=": lambda found: found <= value,
        ">": lambda found: found > value,
        "<": lambda found: found < value,
    }
    if sign not in signs:
        raise RefusedError("OPTION_NOT_VALID")
    return (lambda row: signs[sign](row[name].rstrip())), tokens[3:]


def _value(token: str) -> str:
    if not token.startswith("'"):
        raise RefusedError("OPTION_NOT_VALID")
    return token[1:-1].replace("''", "'").rstrip()
