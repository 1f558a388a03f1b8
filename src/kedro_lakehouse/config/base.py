"""What every declaration shares: frozen, exact about its keys, and honest about what is not built yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from kedro_lakehouse.errors import did_you_mean, listed


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

    planned_keys: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def allowed_keys(cls) -> tuple[str, ...]:
        """Return the keys as a user writes them, in the order of their declaration."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_there(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        allowed = cls.allowed_keys()
        for key in data:
            word = str(key)
            if key in cls.planned_keys and key not in allowed:
                raise refuse(
                    f"'{word}' is planned but not available in this version", "Remove the key.", key=word
                )
            if key not in allowed:
                near = did_you_mean(word, allowed)
                # All of them, where `listed` would stop at five: the allowed keys are the remedy.
                raise refuse(
                    f"'{word}' is not a known key.{near}", f"Allowed: {', '.join(allowed)}.", key=word
                )
        return data


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
RelativePath = Annotated[str, Field(min_length=1), AfterValidator(_relative)]
Names = Annotated[tuple[Name, ...], AfterValidator(_no_repeats)]
