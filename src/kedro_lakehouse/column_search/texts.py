"""The short texts that stand for a column before a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from kedro_lakehouse.column_search.words import expanded

if TYPE_CHECKING:
    from kedro_lakehouse.column_search.profile import ColumnProfile

Aspect = Literal["name", "signature", "values", "context"]
ASPECTS: Final[tuple[Aspect, ...]] = get_args(Aspect)
_MAX_VALUE: Final = 40


def column_texts(profile: ColumnProfile, table: str) -> dict[Aspect, str]:
    """The text of each aspect of a column: its name, its name with type and values, its values, its place.

    Of personal data the values are left out; a column without values has no text of them.
    """
    name, values = expanded(profile.name), ", ".join(value[:_MAX_VALUE] for value in profile.sample)
    told = [name, "" if profile.kind == "empty" else profile.kind, values]
    return {
        "name": name,
        "signature": ". ".join(part for part in told if part),
        "values": values,
        "context": ". ".join(part for part in (f"{name} of {expanded(table)}", *told[1:]) if part),
    }
