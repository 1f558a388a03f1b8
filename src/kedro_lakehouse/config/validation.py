"""From what a file says to a checked declaration, and the mistakes found on the way, in YAML's words."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from kedro_lakehouse.config.base import Declaration
from kedro_lakehouse.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic_core import ErrorDetails

_D = TypeVar("_D", bound=Declaration)
_T = TypeVar("_T")

_COLUMNS: Final = ("a list of column names, such as [id]", "Write it in square brackets.")
_KEYS: Final = ("keys with their values", "Write them, indented, below it.")
_SCALAR: Final = ("a number, a text, a date, or true or false", "Write one of these.")
_DURATION: Final = ("a time span, such as 90 days", "Write a number and a unit.")
# What a key takes whose kind of value says too little.
_BY_KEY: Final[Mapping[str, tuple[str, str]]] = {
    "ignore_null": ("true, false, or a list of column names, such as [id]", "Write one of these."),
    "delete_scope": ("'table', or a list of column names, such as [region]", "Write one of these."),
    "history": ("true, false, or keys such as track", "Write for example `history: true`."),
    "csv": ("keys such as header and delimiter", "Write them, indented, below it."),
    "valid_from": ("extract_time, a column, or {updated_at: column}", "Write one of these."),
    "tags": ("a list of words, such as [daily]", "Write it in square brackets."),
    "expectations": ("a list of expectations, each with a type", "Begin each of them with '- type:'."),
    "max_bytes": ("a size, such as 512 MiB", "Write a number and a unit."),
    "max_age": _DURATION,
    "changes_retention": _DURATION,
    "checks": ("names with SQL conditions", "Write for example {amount_is_positive: 'amount >= 0'}."),
    "types": ("columns with their types", "Write for example {amount: 'decimal(10,2)'}."),
    "column_tags": ("tags with lists of columns", "Write for example {money: [salary]}."),
    "mask": ("columns with their masks", "Write for example {phone: last4}."),
    "rename": ("old names with new ones", "Write for example {old: new}."),
}
_LISTS_OF_COLUMNS: Final = frozenset(
    {"keys", "order_by", "columns", "include", "exclude", "sort_by", "personal", "payment", "public"}
    | {"partition_by"}
    | {"column_list", "other_column_list", "control_columns"}
)
_NUMBER: Final = ("a number", "Write digits, without quotes.")
_WHOLE: Final = ("a whole number", "Write digits only.")
_TRUTH: Final = ("true or false", "Write true or false.")
_TEXT: Final = ("text", "Write text; put quotes around it if it looks like a number or a date.")
_DATE: Final = ("a date, such as 2026-11-21", "Write year, month and day.")
_EXPECTED: Final[Mapping[str, tuple[str, str]]] = {
    "tuple_type": ("a list", "Write it in square brackets, such as [a, b]."),
    "list_type": ("a list", "Write it in square brackets, such as [a, b]."),
    "string_type": _TEXT,
    "bool_parsing": _TRUTH,
    "bool_type": _TRUTH,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": ("a finite number", "Write digits, without quotes."),
    "model_type": _KEYS,
    "model_attributes_type": _KEYS,
    "mapping_type": _KEYS,
    "dict_type": _KEYS,
    "time_delta_type": _DURATION,
    "time_delta_parsing": _DURATION,
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "greater_than_equal": ("a number of at least {ge}", "Write such a number."),
    "greater_than": ("a number above {gt}", "Write such a number."),
    "less_than_equal": ("a number of at most {le}", "Write such a number."),
    "less_than": ("a number below {lt}", "Write such a number."),
    "too_short": ("at least {min_length} item(s)", "List them, or remove the key."),
    "too_long": ("at most {max_length} item(s)", "Remove the others."),
    "string_too_short": ("at least one character", "Write the text, or remove the key."),
    "string_too_long": ("at most {max_length} character(s)", "Shorten it."),
}
_LIMITS: Final = ("_equal", "_than", "too_short", "too_long")
_PATTERNS: Final[Mapping[str, str]] = {
    r"^[A-Za-z][A-Za-z0-9_]*\z": "letters, digits and underscores, a letter first",
    r"^[A-Za-z0-9_.-]+\z": "letters, digits, '_', '.' and '-' only",
    r"\.prom\z": "a file name that ends in .prom",
}
_FOUND: Final = (
    (bool, "true or false"),
    (int | float, "a number"),
    (str, "text"),
    (dt.date, "a date"),
    (Mapping, "keys"),
    (list | tuple, "a list"),
)
_NEAR: Final = re.compile(r"Did you mean '([^']*)'")
_INDEX: Final = re.compile(r"\[(\d+)\]\.?")
_PYDANTICS: Final = re.compile(r"<|\[key\]|[\w-]+\[")
_BRANCHES: Final = frozenset({"bool", "int", "float", "datetime", "date", "str"})


class UnusableError(Exception):
    """Nothing can be made of an entry; what is wrong of it was added to the mistakes."""


class Mistakes:
    """Collects what is wrong, so that all of it is reported at once."""

    def __init__(self) -> None:
        """Start with none."""
        self.found: list[ConfigurationError] = []

    def add(self, file: str, problems: Iterable[tuple[str, str, str]], prefix: str = "") -> None:
        """Add problems of a file: each a key, what is wrong, and what to do."""
        for key, problem, remedy in problems:
            self.found.append(ConfigurationError(file=file, key=prefix + key, problem=problem, remedy=remedy))

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Add what the block raises, and go on after it."""
        try:
            yield
        except UnusableError:
            pass  # its mistakes were added where it was raised
        except ConfigurationError as error:
            self.found += [error, *error.others]

    def refuse(self) -> None:
        """Raise what was found, as one error.

        Raises:
            ConfigurationError: Something was found; the first mistake, with the others beside it.
        """
        if self.found:
            first, *others = self.found
            first.others = tuple(others)
            first.describe()
            raise first


def validated(model: type[_D], raw: Mapping[Any, Any], file: str, entry: str) -> _D:
    """Return one entry of a file as its model.

    Raises:
        ConfigurationError: Keys are wrong; each is named, by its path from the file's top.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        found: dict[str, ConfigurationError] = {}
        for detail in error.errors(include_url=False):
            key, (problem, remedy) = _path(entry, detail), _explained(detail)
            # A value of several kinds is refused once for each of them: one is enough.
            found.setdefault(key, ConfigurationError(file=file, key=key, problem=problem, remedy=remedy))
        first, *others = found.values()
        first.others = tuple(others)
        first.describe()
        raise first from error


def as_it_is(
    make: Callable[[Mapping[Any, Any]], _T], raw: Mapping[Any, Any], entry: str, mistakes: Mistakes
) -> _T:
    """Make something of an entry of a file.

    Raises:
        ConfigurationError: Keys are wrong.
    """
    del entry, mistakes
    return make(raw)


def what_is_right(
    make: Callable[[Mapping[Any, Any]], _T], raw: Mapping[Any, Any], entry: str, mistakes: Mistakes
) -> _T:
    """Make something of an entry of a file without its keys that are wrong, of which each is a mistake.

    So what depends on the other keys can be looked at as well.

    Raises:
        UnusableError: Without the wrong keys nothing can be made of it.
    """
    told = set[str]()
    while True:
        try:
            return make(raw)
        except ConfigurationError as error:
            wrong = [one for one in (error, *error.others) if not _follows(one.key, told)]
            mistakes.found += wrong
            told |= {key for one in wrong for key in (one.key, *_meant(one))}
            smaller = raw
            for key in sorted((one.key.removeprefix(entry).removeprefix(".") for one in wrong), reverse=True):
                smaller = _without(
                    smaller, key
                )  # of a list the last item first: the others keep their places
            if smaller == raw:
                raise UnusableError from error
            raw = smaller


def _meant(mistake: ConfigurationError) -> Iterator[str]:
    """The key that was meant: that it is missing follows from the misspelled one."""
    if near := _NEAR.search(mistake.problem):
        yield f"{mistake.key.rpartition('.')[0]}.{near[1]}"


def _follows(key: str, told: Iterable[str]) -> bool:
    """Whether a key is one of those, or above or below one."""
    return any(
        f"{key}.".startswith((f"{one}.", f"{one}[")) or f"{one}.".startswith((f"{key}.", f"{key}["))
        for one in told
    )


def _without(raw: Any, key: str) -> Any:
    """A mapping or a list without what a key leads to; a name may hold dots: the longest that fits counts."""
    if isinstance(raw, list) and (index := _INDEX.match(key)) and int(index[1]) < len(raw):
        at, rest = int(index[1]), key[index.end() :]
        return [*raw[:at], *([_without(raw[at], rest)] if rest else []), *raw[at + 1 :]]
    known = raw if isinstance(raw, Mapping) else ()
    names = [n for n in known if key == n or key.startswith((f"{n}.", f"{n}["))]
    if not names:
        return raw
    name = max(names, key=len)
    rest = key[len(name) :].removeprefix(".")
    return {n: (_without(v, rest) if n == name else v) for n, v in raw.items() if rest or n != name}


def _path(entry: str, detail: ErrorDetails) -> str:
    parts = [entry] if entry else []
    for part in _loc(detail):
        if isinstance(part, int):
            parts[-1] += f"[{part}]"
        else:
            parts.append(part)
    if key := detail.get("ctx", {}).get("key"):
        parts.append(key)
    return ".".join(parts)


def _loc(detail: ErrorDetails) -> list[int | str]:
    """The keys that lead to a value: without pydantic's words for a mapping's key and a union's branch."""
    loc = [part for part in detail["loc"] if isinstance(part, int) or not _PYDANTICS.match(part)]
    return loc[:-1] if len(loc) > 1 and loc[-1] in _BRANCHES and loc[-2] != "columns" else loc


def _explained(detail: ErrorDetails) -> tuple[str, str]:
    kind, context, value = detail["type"], detail.get("ctx", {}), detail.get("input")
    if kind == "declaration":
        end = "" if context["problem"].endswith("?") else "."
        return context["problem"] + end, context["remedy"] or "Correct the value."
    if kind == "missing":
        return "the key is missing.", "Add the key."
    expected, remedy = _expected(detail)
    if kind == "literal_error" and not expected:
        allowed = context["expected"]
        near = did_you_mean(value, re.findall(r"'([^']*)'", allowed)) if isinstance(value, str) else ""
        shown = f"'{value}'" if isinstance(value, str) else found_kind(value)
        return f"{shown} is not allowed.{near}", f"Use {allowed}."
    if kind == "value_error":  # a plug-in's own validator
        return f"{detail['msg'].removeprefix('Value error, ').rstrip('.')}.", "Correct the value."
    if kind.endswith(_LIMITS) or "pattern" in context:
        return f"expected {expected}.", remedy
    # Only the kind of the value: a path or a property may hold what no log should.
    return f"expected {expected or 'another kind of value'}; found {found_kind(value)}.", remedy


def _expected(detail: ErrorDetails) -> tuple[str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    names = [part for part in _loc(detail) if isinstance(part, str)]
    last = names[-1] if names and isinstance(_loc(detail)[-1], str) else ""
    if pattern := context.get("pattern"):
        return _PATTERNS.get(pattern, "text of another form"), "Write it in that form."
    a_kind = kind.endswith(("_type", "_error")) or kind in ("bool_parsing", "int_parsing")
    if last in _BY_KEY and a_kind and detail["loc"][-1] != "[key]":
        return _BY_KEY[last]
    if last in _LISTS_OF_COLUMNS and kind in ("tuple_type", "list_type"):
        return _COLUMNS
    if detail["loc"][-1:] and detail["loc"][-1] in _BRANCHES and len(_loc(detail)) < len(detail["loc"]):
        return _SCALAR
    expected, remedy = _EXPECTED.get(kind, ("", "Correct the value."))
    return expected.format_map({name: _plain(limit) for name, limit in context.items()}), remedy


def _plain(limit: object) -> object:
    return f"{limit:g}" if isinstance(limit, float) else limit


def found_kind(value: object) -> str:
    """A value's kind, in YAML's words.

    Example:
        >>> found_kind("id"), found_kind([1])
        ('text', 'a list')
    """
    return next((words for kind, words in _FOUND if isinstance(value, kind)), "nothing")
