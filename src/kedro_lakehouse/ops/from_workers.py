"""Errors that Spark's Python workers raise: the driver gets only their text, which carries their facts."""

from __future__ import annotations

import base64
import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK: Final = "kedro-lakehouse-error:"
_CARRIED: Final = re.compile(_MARK + r"([A-Za-z0-9+/=]+)")


class CarriedError(Exception):
    """An error of ours on its way from a worker to the driver."""


@contextmanager
def carried() -> Iterator[None]:
    """Let an error of ours be known again by ``brought_back``; its facts must be texts or numbers.

    Raises:
        CarriedError: The error, with its facts in its text.
    """
    try:
        yield
    except LakehouseError as error:
        facts = json.dumps({"code": error.code, "facts": vars(error)}, default=str)
        raise CarriedError(_MARK + base64.b64encode(facts.encode()).decode()) from error


def brought_back(text: str) -> LakehouseError | None:
    """The error of ours that an error of Spark carries in its text; None if there is none."""
    found = _CARRIED.search(text)
    if found is None:
        return None
    carried_facts = json.loads(base64.b64decode(found[1]))
    kinds = {kind.code: kind for kind in _leaves(LakehouseError)}
    kind = kinds.get(carried_facts["code"])
    return None if kind is None else kind(**carried_facts["facts"])


def _leaves(kind: type[LakehouseError]) -> Iterator[type[LakehouseError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _leaves(below)
