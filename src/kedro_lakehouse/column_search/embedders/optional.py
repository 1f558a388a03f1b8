"""Packages that only some embedders and indexes need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kedro_lakehouse.errors import UnsupportedError


def require(module: str, *, package: str, purpose: str) -> Any:
    """Import a package that is not part of the default installation.

    Raises:
        UnsupportedError: It is not installed; the remedy says how to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UnsupportedError(
            what=f"{purpose} needs the package {package}, which is not installed.",
            remedy=f"Install it: pip install {package}.",
        ) from error
