"""The service's paths, as a FastAPI application behind the gate."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import Body, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.ops.failures import message_of
from kedro_lakehouse.query.errors import QueryNotFoundError
from kedro_lakehouse.query.library import engine_of
from kedro_lakehouse.query.results import Format
from kedro_lakehouse.query.snapshots import Datasets
from kedro_lakehouse.service.gate import Gate
from kedro_lakehouse.service.problems import PROBLEM, Problem, not_found, problem_of
from kedro_lakehouse.service.tokens import Tokens
from kedro_lakehouse.service.views import LakeViews

if TYPE_CHECKING:
    from collections.abc import Callable

    from kedro_lakehouse.project import Project
    from kedro_lakehouse.query.library import Engine
    from kedro_lakehouse.query.states import QueryState

logger = logging.getLogger(__name__)

_MOST: Final = 1000
Limit = Annotated[int, Query(ge=1, le=_MOST)]
After = Annotated[str | None, Query(max_length=200)]
_MEDIA: Final = {
    "csv": "text/csv", "json": "application/x-ndjson", "parquet": "application/vnd.apache.parquet",
}  # fmt: skip


class NewQuery(BaseModel):
    """What is asked for by ``POST /v1/queries``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    query: str = Field(min_length=1, max_length=100_000)
    format: Format = "parquet"
    output: str | None = Field(None, max_length=300)
    snapshots: dict[str, str] = Field(default_factory=dict, max_length=50)


def made_app(project: Project) -> Gate:
    """The application of a project, as its tokens' roles see it.

    Raises:
        ConfigurationError: Something is wrong in service.yml, grants.yml or the tokens.
    """
    tokens = Tokens.of(project)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    _answers_problems(app)
    datasets = Datasets(project)
    queries = engine_of(project, datasets)
    views = LakeViews(project, datasets, tokens.roles)
    _adds_datasets(app, views)
    _adds_queries(app, queries, views)

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    return Gate(app, tokens, project.service.rate)


def _adds_datasets(app: FastAPI, views: LakeViews) -> None:
    base = "/v1/datasets"

    @app.get(base)
    def datasets(request: Request, limit: Limit = 100, after: After = None) -> dict[str, Any]:
        return views.list_datasets(_role(request), limit, after)

    @app.get(base + "/{name}")
    def dataset(request: Request, name: str) -> dict[str, Any]:
        return views.dataset(_role(request), name)

    @app.get(base + "/{name}/snapshots")
    def snapshots(
        request: Request,
        name: str,
        limit: Limit = 100,
        after: After = None,
        state: Literal["published", "rejected"] | None = None,
    ) -> dict[str, Any]:
        return views.list_snapshots(_role(request), name, limit, after, state)

    @app.get(base + "/{name}/snapshots/{number}")
    def snapshot(request: Request, name: str, number: str) -> dict[str, Any]:
        return views.snapshot(_role(request), name, number)

    @app.get(base + "/{name}/snapshots/{number}/files")
    def files(request: Request, name: str, number: str) -> dict[str, Any]:
        return views.files(_role(request), name, number)


def _adds_queries(app: FastAPI, queries: Engine, views: LakeViews) -> None:
    base = "/v1/queries"

    def own(request: Request, number: str, find: Callable[[str], QueryState]) -> QueryState:
        """A query of the role that asks; those of others are not there."""
        if queries.role_of(number) != _role(request):
            raise QueryNotFoundError(query=number[:40])
        return find(number)

    @app.post(base, status_code=202)
    def start(request: Request, asked: Annotated[NewQuery, Body()]) -> dict[str, Any]:
        number = queries.start(
            asked.query, asked.format, asked.output, _role(request), snapshots=asked.snapshots
        )
        return views.query(queries.get(number))

    @app.get(base + "/{number}")
    def state(request: Request, number: str) -> dict[str, Any]:
        return views.query(own(request, number, queries.get))

    @app.delete(base + "/{number}")
    def cancel(request: Request, number: str) -> dict[str, Any]:
        return views.query(own(request, number, queries.cancel))

    @app.get(base + "/{number}/result")
    def result(request: Request, number: str) -> FileResponse:
        found = own(request, number, queries.get)
        if found.state != "done" or "://" in found.location:
            raise not_found("result of this query")
        return FileResponse(found.location, media_type=_MEDIA[found.format])


def _role(request: Request) -> str:
    return str(request.scope["role"])


def _answers_problems(app: FastAPI) -> None:
    """Turn every error into a problem; one that nobody foresaw only goes to the log, by its kind."""

    @app.exception_handler(Problem)
    def problem(_: Request, error: Problem) -> Response:
        return _response(error)

    @app.exception_handler(LakehouseError)
    def ours(_: Request, error: LakehouseError) -> Response:
        found = problem_of(error)
        if found.status == 503:  # noqa: PLR2004 - not available
            logger.error("%s", message_of(error))
        return _response(found)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])[:100]
        return _response(Problem(400, "BAD_REQUEST", f"{place}: {first['msg']}."))

    @app.exception_handler(HTTPException)
    def http(_: Request, error: HTTPException) -> Response:
        if error.status_code == 404:  # noqa: PLR2004 - not found
            return _response(not_found("such path"))
        return _response(Problem(error.status_code, "BAD_REQUEST", str(error.detail)))

    @app.exception_handler(Exception)
    def unforeseen(_: Request, error: Exception) -> Response:
        logger.error("A request failed: %s", message_of(error))
        return _response(Problem(500, "UNFORESEEN", "The service failed; its log says how."))


def _response(problem: Problem) -> Response:
    return JSONResponse(
        problem.facts(), status_code=problem.status, headers=problem.headers, media_type=PROBLEM
    )
