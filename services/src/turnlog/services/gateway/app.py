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
from turnlog.events.ids import ID_PATTERN
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
from turnlog.services.gateway.desk import GatewayDependencies
from turnlog.services.gateway.limits import BodyLimitMiddleware
from turnlog.services.gateway.problems import PROBLEM_MEDIA_TYPE, ProblemDetails, handle_error
from turnlog.services.gateway.queries import check_query
from turnlog.services.gateway.tracing import TracingMiddleware
from turnlog.services.runtime.aside import run_in_thread

ROUTERS: Final[tuple[APIRouter, ...]] = (
    sessions.session_router,
    listing.session_list_router,
    turns.turn_router,
    streams.turn_stream_router,
    commands.command_router,
    forks.fork_router,
    events.event_router,
    exports.export_router,
    history.history_router,
    windows.window_router,
    calls.call_router,
    growing.growth_router,
    prompts.prompt_router,
    tools.tool_result_router,
    verifying.verify_router,
    assembly.assembly_router,
    reasons.why_router,
    differences.diff_router,
    what_if.what_if_router,
    moving.version_router,
    blueprints.blueprint_router,
    segments.segment_router,
    health.health_router,
    ask.question_router,
    remembering.memory_router,
    summaries.summary_router,
    page.static_router,
)
PROBLEM_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": ProblemDetails, "description": "What is wrong with the request"},
    "5XX": {"model": ProblemDetails, "description": "What is wrong with Turnlog, or out of reach"},
}


def build_app(deps: GatewayDependencies) -> FastAPI:
    """Return the application that serves requests with these dependencies."""
    app = create_routed_app()
    app.state.desk = deps
    for kind in (TurnlogError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, handle_error)
    settings = deps.settings
    app.add_middleware(
        BodyLimitMiddleware,
        most_bytes=settings.body_limit,
        seconds=settings.body_seconds,
        larger={
            segments.IMPORT_PATH: settings.import_limit,
            verifying.VERIFY_LOG_PATH: verifying.MAX_CHECKPOINT_BYTES,
            what_if.WHAT_IF_PATH: settings.import_limit,
        },
    )
    app.add_middleware(TracingMiddleware, tracing=deps.tracing)
    return app


def create_routed_app() -> FastAPI:
    """Return an application that has its routes but no dependencies yet."""
    app = FastAPI(
        title="Turnlog",
        summary="The record of what was said to a language model and why.",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        responses=PROBLEM_RESPONSES,
    )
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(check_query), Depends(check_body)])
    app.add_api_route("/openapi.json", _serve_openapi, include_in_schema=False)
    return app


async def _serve_openapi(request: Request) -> JSONResponse:
    # Building the document takes a second the first time, so it must not block the event loop.
    return JSONResponse(await run_in_thread(lambda: build_openapi(request.app)))


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, completed with what FastAPI does not generate.

    These are the pattern of session ids and the media type of problem details.
    """
    document = app.openapi()
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "session":
                    parameter["schema"]["pattern"] = f"^{ID_PATTERN}$"
            for status in PROBLEM_RESPONSES:
                content = operation["responses"][status]["content"]
                if "application/json" in content:
                    content[PROBLEM_MEDIA_TYPE] = content.pop("application/json")
    return document
