"""What every declaration shares: frozen, exact about its keys, and honest about what is not built yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from kedro_lakehouse.errors import did_you_mean, listed

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_KEYS_SHOWN: Final = 140
"""So many characters of allowed keys are listed."""


def refuse(problem: str, remedy: str = "", *, key: str = "") -> PydanticCustomError:
    """Return the error that a validator raises; loading turns it into a ConfigurationError.

    Args:
        problem: What is wrong, a clause without a full stop.
        remedy: What to do, a sentence.
        key: The key below the validated value that is to blame, if not the value itself.
    """
    return PydanticCustomError("declaration", "{problem}", {"problem": problem, "remedy": remedy, "key": key})


class Declaration(BaseModel):
    """A frozen mapping of declared keys; an unknown key is refused with the allowed ones named."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, validate_default=False
    )

    @classmethod
    def allowed_keys(cls) -> tuple[str, ...]:
        """Return the keys as a user writes them, in the order of their declaration."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_what_is_not_there(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Name unknown keys together with what is wrong of the others."""
        strangers = cls._strangers(data) if isinstance(data, Mapping) else []
        if not strangers:
            return handler(data)
        unknown = {line["loc"][0] for line in strangers}
        try:
            handler({key: value for key, value in data.items() if key not in unknown})
        except ValidationError as error:
            # What is missing, or is wrong of the whole, may follow from a key with a misspelled name.
            lines = error.errors(include_url=False)
            strangers += [_again(one) for one in lines if one["loc"] and one["type"] != "missing"]
        raise ValidationError.from_exception_data(cls.__name__, strangers, hide_input=True)

    @classmethod
    def _strangers(cls, data: Mapping[Any, Any]) -> list[InitErrorDetails]:
        allowed = cls.allowed_keys()
        found = []
        for key in data:
            word = str(key)
            if key in allowed:
                continue
            near = did_you_mean(word, allowed)
            error = refuse(f"'{word}' is not a known key.{near}", f"Allowed: {_fitting(allowed)}.")
            found.append(InitErrorDetails(type=error, loc=(word,), input=None))
        return found


def _fitting(keys: tuple[str, ...]) -> str:
    """As many keys as leave a message its six lines on a terminal of 80 columns, and where the rest are."""
    shown: list[str] = []
    for key in keys:
        if len(", ".join([*shown, key])) > _KEYS_SHOWN:
            return f"{', '.join(shown)} and {len(keys) - len(shown)} more (docs/reference/configuration.md)"
        shown.append(key)
    return ", ".join(shown)


def _again(line: ErrorDetails) -> InitErrorDetails:
    """A line of an error, as the line of another one."""
    kind: str | PydanticCustomError = line["type"]
    if kind == "declaration":
        kind = PydanticCustomError("declaration", "{problem}", line["ctx"])
    return InitErrorDetails(type=kind, loc=line["loc"], input=line.get("input"), ctx=line.get("ctx", {}))


def _relative(path: str) -> str:
    if path.startswith(("/", "~")) or "\\" in path or "://" in path or ".." in path.split("/"):
        raise refuse("the path leaves its source's folder", "Give a relative path with '/' and without '..'.")
    return path


def _no_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise refuse(f"'{name}' is listed twice (case does not count)", "List each name once.")
        seen.add(name.lower())
    return names


_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|TiB)", re.IGNORECASE)
_UNITS = {"b": 0, "kib": 1, "mib": 2, "gib": 3, "tib": 4}


Size = Annotated[str, Field(pattern=r"^\s*\d+\s*(?:(?:[KkMmGgTt][Ii])?[Bb])?\s*$")] | int
"""What ``parse_bytes`` takes, for editors."""


def parse_bytes(value: object) -> object:
    """Return a size written as text in bytes, and anything else as it is.

    Example:
        >>> parse_bytes("512 MiB")
        536870912
    """
    if not isinstance(value, str) or value.isdigit():
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        units = listed(("B", "KiB", "MiB", "GiB", "TiB"))
        raise refuse("the size is not a number with a unit", f"Write for example '512 MiB'; units: {units}.")
    return int(match[1]) * 1024 ** _UNITS[match[2].lower()]


Name = Annotated[str, Field(min_length=1)]
RelativePath = Annotated[
    str,
    Field(min_length=1, json_schema_extra={"pattern": r"^(?![/~])(?!.*://)(?!(?:.*/)?\.\.(?:/|$))[^\\]*$"}),
    AfterValidator(_relative),
]
Names = Annotated[tuple[Name, ...], AfterValidator(_no_repeats)]
