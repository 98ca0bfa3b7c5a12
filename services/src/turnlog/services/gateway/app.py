"""The gateway's FastAPI application: its routes, middleware and error handlers.

Importing this module builds nothing. FastAPI's own documentation pages are off because they load
scripts from other hosts; the OpenAPI document is served.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from turnlog.events.errors import TurnlogError
from turnlog.events.ids import ID
from turnlog.services.gateway import (
    ask,
    assembly,
    blueprints,
    calls,
    commands,
    differences,
    events,
    exports,
    forks,
    growing,
    health,
    history,
    listing,
    moving,
    page,
    prompts,
    reasons,
    remembering,
    segments,
    sessions,
    streams,
    summaries,
    tools,
    turns,
    verifying,
    what_if,
    windows,
)
from turnlog.services.gateway.bodies import check_body
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.limits import Limits
from turnlog.services.gateway.problems import MEDIA, Problem, answer_request
from turnlog.services.gateway.queries import check_query
from turnlog.services.gateway.tracing import Traced
from turnlog.services.runtime.aside import aside

ROUTERS: Final[tuple[APIRouter, ...]] = (
    sessions.router,
    listing.router,
    turns.router,
    streams.router,
    commands.router,
    forks.router,
    events.router,
    exports.router,
    history.router,
    windows.router,
    calls.router,
    growing.router,
    prompts.router,
    tools.router,
    verifying.router,
    assembly.router,
    reasons.router,
    differences.router,
    what_if.router,
    moving.router,
    blueprints.router,
    segments.router,
    health.router,
    ask.router,
    remembering.router,
    summaries.router,
    page.router,
)
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": Problem, "description": "What is wrong with the request"},
    "5XX": {"model": Problem, "description": "What is wrong with Turnlog, or out of reach"},
}


def build(desk: Desk) -> FastAPI:
    """Return the application that serves requests with these dependencies."""
    app = routed()
    app.state.desk = desk
    for kind in (TurnlogError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer_request)
    settings = desk.settings
    app.add_middleware(
        Limits,
        most_bytes=settings.body_limit,
        seconds=settings.body_seconds,
        larger={
            segments.IMPORT: settings.import_limit,
            verifying.WHOLE: verifying.LARGEST,
            what_if.PATH: settings.import_limit,
        },
    )
    app.add_middleware(Traced, tracing=desk.tracing)
    return app


def routed() -> FastAPI:
    """Return an application that has its routes but no dependencies yet."""
    app = FastAPI(
        title="Turnlog",
        summary="The record of what was said to a language model and why.",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        responses=PROBLEMS,
    )
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(check_query), Depends(check_body)])
    app.add_api_route("/openapi.json", _described, include_in_schema=False)
    return app


async def _described(request: Request) -> JSONResponse:
    # Building the document takes a second the first time, so it must not block the event loop.
    return JSONResponse(await aside(lambda: description(request.app)))


def description(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, completed with what FastAPI does not generate.

    These are the pattern of session ids and the media type of problem details.
    """
    document = app.openapi()
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "session":
                    parameter["schema"]["pattern"] = f"^{ID}$"
            for status in PROBLEMS:
                content = operation["responses"][status]["content"]
                if "application/json" in content:
                    content[MEDIA] = content.pop("application/json")
    return document
