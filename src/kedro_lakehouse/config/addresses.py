"""Addresses of services that are spoken to by HTTP."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from kedro_lakehouse.config.base import Name, refuse


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise refuse("the address is not one of http or https", "Write for example https://host/path.")
    if parts.username or parts.password:
        raise refuse(
            "the address holds a user or a password", "Put it into credentials.yml, see `credentials`."
        )
    return url


Address = Annotated[Name, AfterValidator(_address)]
"""An address of http or https, without a user and a password."""
