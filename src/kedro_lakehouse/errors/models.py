"""Column search: what it needs and does not find."""

from __future__ import annotations

from kedro_lakehouse.errors.base import TerminalError


class ModelNotFoundError(TerminalError):
    """The files of an embedding model are not there, or are not the published ones."""

    code = "MODEL_NOT_FOUND"
    model: str
    problem: str
    fetch: str
    summary = "The model {model} cannot be used: {problem}."
    advice = "Fetch it once, with a network: `{fetch}`."
