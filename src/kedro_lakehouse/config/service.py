"""Declarations of service.yml: the metadata service, and queries in processes of their own."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from kedro_lakehouse.config.base import Declaration, Name, Size, parse_bytes, refuse
from kedro_lakehouse.config.history import Duration  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.loading import entries
from kedro_lakehouse.config.validation import Mistakes, validated
from kedro_lakehouse.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection

SERVICE_FILE: Final = "service.yml"
_RATE: Final = re.compile(r"(\d+)\s*/\s*s")


def _rate(value: object) -> object:
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if isinstance(value, str) and found is None:
        raise refuse("the rate is not a number of requests a second", "Write for example 50/s.")
    return int(found[1]) if found else value


class QueryConfig(Declaration):
    """How queries are run that the library or the service starts."""

    engine: Literal["local", "athena"] = "local"
    """What answers: `local` is DuckDB in a process of its own for each query, `athena` Amazon Athena."""
    output: Name = "data/results"
    """Folder of the results, one folder in it for each role; nothing is written outside of it. For Athena an
    address in S3.
    """
    workgroup: Name = "primary"
    """Workgroup of Athena that runs the queries."""
    scanned: Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=Size), Field(ge=10**7)] = (
        100 * 2**30
    )
    """The most that one query may read in that workgroup, such as 10 GiB; Athena then ends it. `deploy`
    writes it into the workgroup that it renders. Athena takes no less than 10 MB.
    """
    memory: Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=Size), Field(ge=2**28)] = (
        2 * 2**30
    )
    """The most that a query's process may hold, such as 2 GiB; it is ended when it holds more."""
    time: Annotated[Duration, Field(gt=dt.timedelta(0))] = dt.timedelta(minutes=5)
    """The longest that a query may take, such as 5 min; then it is ended."""
    at_once: int = Field(4, ge=1)
    """So many queries run at one time; another one is refused until one has ended."""
    keep: Annotated[Duration, Field(gt=dt.timedelta(0))] | None = None
    """How long results stay after their query has ended, such as 30 days; by default nothing removes them."""

    @model_validator(mode="after")
    def _results_where_the_engine_writes(self) -> Self:
        in_s3 = self.output.startswith("s3://")
        if self.engine == "athena" and not in_s3:
            raise refuse("Athena writes to S3 alone", "Write for example s3://bucket/results.", key="output")
        if self.engine == "local" and "://" in self.output:
            raise refuse("the engine local writes to a folder", "Give a folder's path.", key="output")
        if in_s3 and self.keep is not None:
            raise refuse("results in S3 are not removed", "Give the bucket a lifecycle rule.", key="keep")
        return self


class ServiceConfig(Declaration):
    """The metadata service, its tokens and its queries."""

    port: int = Field(8321, ge=1, le=65535)
    """Port that `kedro lakehouse serve` listens on."""
    credentials: Name = "service_tokens"
    """Entry of credentials.yml with the hashes of the tokens of each role."""
    rate: Annotated[
        int,
        BeforeValidator(
            _rate, json_schema_input_type=Annotated[str, Field(pattern=r"^\s*\d+\s*/\s*s\s*$")] | int
        ),
        Field(ge=1),
    ] = 50
    """The most requests of one role, such as 50/s; more are answered by 429."""
    query: QueryConfig = QueryConfig()
    """How queries are run."""
    keep: Mapping[Name, Annotated[int, Field(ge=1)]] = {}
    """For some tables, how many published snapshots stay readable after older ones expire, by a tag each."""


class ServiceFile(Declaration):
    """All of service.yml."""

    service: ServiceConfig = ServiceConfig()
    """The metadata service, and queries."""


def load_service(raw: Mapping[str, Any], tables: Collection[str]) -> ServiceConfig:
    """Return the checked content of a merged service.yml; an empty one has the defaults.

    Raises:
        ConfigurationError: Something is wrong in the file; every such key is named.
    """
    found = validated(ServiceFile, entries({"": raw}, SERVICE_FILE)[""], SERVICE_FILE, "").service
    mistakes = Mistakes()
    unknown = [name for name in found.keep if name not in tables]
    mistakes.add(
        SERVICE_FILE,
        [
            (
                f"service.keep.{name}",
                f"the table is not declared.{did_you_mean(name, tables)}",
                "Use a table of tables.yml.",
            )
            for name in unknown
        ],
    )
    mistakes.refuse()
    return found
