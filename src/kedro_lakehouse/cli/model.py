"""Fetch the default embedding model once: ``python -m kedro_lakehouse.cli.model``."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter

from kedro_lakehouse.column_search.embedders.weights import MINILM, fetch_weights, verified_weights
from kedro_lakehouse.errors import LakehouseError, ModelNotFoundError


def main() -> int:
    """Fetch what is missing; what is there and whole stays."""
    from kedro_lakehouse.project import found_project

    try:
        cache = Path(found_project().cache)
        try:
            verified_weights(MINILM, cache)
        except ModelNotFoundError:
            sys.stderr.write(
                f"Fetching the model {MINILM.model_id} (84 MB, once) into the project's folder ...\n"
            )
            begun = perf_counter()
            fetch_weights(MINILM, cache)
            sys.stderr.write(f"The model is there ({perf_counter() - begun:.0f} s).\n")
    except LakehouseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
