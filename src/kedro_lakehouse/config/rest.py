"""Declarations of REST sources in sources.yml: the log-in, the pages of an answer, and windows of time."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from kedro_lakehouse.config.addresses import Address  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.base import Declaration, Name, refuse
from kedro_lakehouse.config.history import Duration  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.sources import TableProblem

if TYPE_CHECKING:
    from kedro_lakehouse.config.tables import TableConfig

AuthType = Literal["bearer", "basic", "api_key", "oauth2"]
PagingType = Literal["none", "page", "offset", "cursor", "link"]

_AUTH_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "bearer": frozenset(),
    "basic": frozenset(),
    "api_key": frozenset({"name", "in"}),
    "oauth2": frozenset({"token_url", "scope", "in"}),
}
_PAGING_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "none": frozenset(),
    "page": frozenset({"parameter", "first", "more"}),
    "offset": frozenset({"parameter", "first", "more"}),
    "cursor": frozenset({"parameter", "next"}),
    "link": frozenset({"next"}),
}
_COUNTED: Final = frozenset({"page", "offset"})
_RATE: Final = re.compile(r"(\d+)\s*/\s*(s|min|h)")
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600}


def _keys_of_type(model: Declaration, kind: str, keys: Mapping[str, frozenset[str]]) -> None:
    """Refuse keys that another type has."""
    fields = type(model).model_fields
    written = {fields[name].alias or name for name in model.model_fields_set} - {"type"}
    if others := sorted(written - keys[kind]):
        allowed = ", ".join(sorted(keys[kind])) or "none beside `type`"
        raise refuse(f"'{others[0]}' is not a key of type {kind}", f"Allowed: {allowed}.", key=others[0])


def parse_rate(value: object) -> object:
    """Return the seconds between two requests of a rate written as text, and anything else as it is.

    Example:
        >>> parse_rate("5/s"), parse_rate("30/min")
        (0.2, 2.0)
    """
    if not isinstance(value, str):
        return value
    match = _RATE.fullmatch(value.strip())
    if match is None or int(match[1]) == 0:
        raise refuse("the rate is not a number of requests in a time", "Write for example 5/s or 100/min.")
    return _SECONDS[match[2]] / int(match[1])


def _bare(url: str) -> str:
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise refuse("the address has a query", "Put fixed parameters into `parameters`, keys into `auth`.")
    return url.rstrip("/")


class RestAuth(Declaration):
    """How requests log in; the secrets are in the source's entry of credentials.yml."""

    type: AuthType
    """`bearer`: `token`; `basic`: `username` and `password`; `api_key`: `key`; `oauth2`: `client_id` and
    `client_secret`, by which a token is fetched, and again before it expires.
    """
    name: Name = "X-API-Key"
    """Name of the header or parameter with the key, of `api_key`."""
    in_: Literal["header", "query", "body"] = Field("header", alias="in")
    """Where the key (`header` or `query`) or the client's secret (`header` or `body`) is sent."""
    token_url: Address | None = None
    """Where `oauth2` fetches tokens."""
    scope: Name | None = None
    """What `oauth2` asks for."""

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        _keys_of_type(self, self.type, _AUTH_KEYS)
        if self.type == "oauth2" and self.token_url is None:
            raise refuse("oauth2 needs the address of tokens", "Add `token_url`.", key="token_url")
        if self.in_ == ("query" if self.type == "oauth2" else "body"):
            other = "body" if self.type == "oauth2" else "query"
            raise refuse(f"{self.type} sends nothing in the {self.in_}", f"Use header or {other}.", key="in")
        return self


class RestPaging(Declaration):
    """How an answer that is too long for one is divided."""

    type: PagingType
    """`page`: by a number of the page; `offset`: by the number of records before it; `cursor`: by a text from
    the page before; `link`: by an address from the page before; `none`: one answer holds everything.
    """
    parameter: Name | None = None
    """Parameter with the page, the offset or the cursor; default: `page`, `offset`."""
    first: int | None = Field(None, ge=0)
    """The first page or offset; default: page 1, offset 0."""
    more: Name | None = None
    """Path of the answer's flag that says whether there are more pages; default: the first page without
    records ends it.
    """
    next: Name | None = None
    """Path of the next cursor or address in the answer, such as `meta.next`; default for `link`: the header
    `Link` with `rel="next"`.
    """

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        _keys_of_type(self, self.type, _PAGING_KEYS)
        if self.type == "cursor":
            for key in ("next", "parameter"):
                if getattr(self, key) is None:
                    raise refuse(f"paging by cursor needs '{key}'", "See the API's manual.", key=key)
        return self

    @property
    def is_counted(self) -> bool:
        """Whether pages move while rows come and go."""
        return self.type in _COUNTED


class RestWindow(Declaration):
    """Parameters that limit an answer to records which changed within a window of time."""

    from_: Name = Field(alias="from")
    """Parameter with the window's begin, which it includes."""
    to: Name | None = None
    """Parameter with its end; default: the API has none, and later records come too."""
    format: Literal["iso", "unix", "unix_ms"] = "iso"
    """How times are written: 2026-01-31T00:00:00Z, or seconds or milliseconds since 1970."""


class RestSourceConfig(PulledSourceConfig):
    """An API that answers in JSON; a table's `entity` is the path of its records below `base_url`."""

    lands: ClassVar[Literal["parquet", "json"]] = "json"

    base_url: Annotated[Address, AfterValidator(_bare)]
    """Address of the API, up to what its resources share."""
    auth: RestAuth | None = None
    """How requests log in; default: not at all."""
    paging: RestPaging = RestPaging(type="none")
    """How answers are divided into pages."""
    records: str = ""
    """Path of the list of records in an answer, such as `data.items`; default: the answer is the list."""
    parameters: Mapping[Name, str | int] = {}
    """Fixed parameters of each request, such as {limit: 100}."""
    headers: Mapping[Name, str] = {}
    """Fixed headers of each request, such as a version of the API; no secrets."""
    window: RestWindow | None = None
    """Parameters of a window of time, for `mode: incremental`."""
    rate: Annotated[float, BeforeValidator(parse_rate, json_schema_input_type=str | float)] | None = None
    """Most requests in a time, such as 5/s or 100/min; default: as fast as answers come."""
    timeout: Duration = dt.timedelta(seconds=60)
    """How long an answer may take."""
    verify: Literal["once", "twice"] = "once"
    """`twice`: everything is read again, and a pull counts only if both readings are equal."""
    stable: bool = False
    """Whether rows stay in their order while they are read, and new ones come last only."""

    @model_validator(mode="after")
    def _pages_stand_still(self) -> Self:
        if self.paging.is_counted and self.verify == "once" and not self.stable:
            problem = f"by '{self.paging.type}', rows that come and go while they are read move others"
            remedy = "Declare `verify: twice`; or `stable: true` if nothing moves; or page by cursor."
            raise refuse(problem, remedy, key="paging")
        return self

    @model_validator(mode="after")
    def _log_in_fits(self) -> Self:
        if (self.auth is None) != (self.credentials is None):
            key, other = ("credentials", "auth") if self.auth else ("auth", "credentials")
            raise refuse(f"'{other}' needs '{key}'", f"Add `{key}`, or remove `{other}`.", key=key)
        if any(name.lower() == "authorization" for name in self.headers):
            raise refuse("a header logs in", "Use `auth`, with secrets in credentials.yml.", key="headers")
        return self

    def resource(self, table: TableConfig) -> str:
        """The address of a table's records."""
        return f"{self.base_url}/{table.entity}"

    def place_of(self, table: TableConfig) -> str:
        """The address of a table's records."""
        return self.resource(table)

    def table_problem(self, table: TableConfig) -> TableProblem | None:
        """An increment needs parameters of a window."""
        problem = super().table_problem(table)
        if problem is None and self.mode_of(table) == "incremental" and self.window is None:
            return TableProblem(
                key="pull.mode",
                problem="an increment needs parameters that limit an answer to a window of time.",
                remedy="Declare `window: {from: ..., to: ...}` at the source, or use `mode: full`.",
            )
        if problem is None and self.pull_of(table).late == "open_transactions":
            return TableProblem(
                key="pull.late",
                problem="an API does not tell which transactions are open.",
                remedy="Write for example {overlap: 10 min}, or leave it out.",
            )
        return problem
