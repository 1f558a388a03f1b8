"""A source of dlt as its user writes it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import dlt
import pyarrow as pa
from dlt.sources.helpers.rest_client import RESTClient
from dlt.sources.helpers.rest_client.auth import BearerTokenAuth
from dlt.sources.helpers.rest_client.paginators import OffsetPaginator

PASSWORD = "the-right-one-of-all"  # noqa: S105 - made up


@dlt.source
def shop(address: str, password: str = PASSWORD) -> Any:
    """A resource that is read over HTTP, and one of tables of Arrow."""
    client = RESTClient(
        address, auth=BearerTokenAuth(password), paginator=OffsetPaginator(1000, total_path="n")
    )

    @dlt.resource(primary_key="id", columns={"id": {"data_type": "bigint"}, "name": {"data_type": "text"}})
    def item() -> Any:
        yield from client.paginate("/item", data_selector="rows")

    @dlt.resource
    def arrow() -> Any:
        yield pa.table({"id": [1, 2], "price": [Decimal("1.10"), None]})

    return item, arrow
