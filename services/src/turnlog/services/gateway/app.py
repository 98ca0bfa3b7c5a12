"""The gateway's FastAPI application: its routes, middleware and error handlers.

Importing this module builds nothing. FastAPI's own documentation pages are off because they load
scripts from other hosts; the OpenAPI document is served.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute

from turnlog.contract import api_paths
from turnlog.events.errors import TurnlogError
from turnlog.events.ids import ID_PATTERN
from turnlog.projections.audit.verify.signed_checkpoints import MAX_CHECKPOINT_BYTES
from turnlog.services.alerts import alert_routes
from turnlog.services.api.published_events.asyncapi_document import build_asyncapi
from turnlog.services.approvals import approval_routes
from turnlog.services.erasures import erasure_routes
from turnlog.services.gateway import static_ui
from turnlog.services.gateway.dependencies import GatewayDependencies
from turnlog.services.gateway.permission_checks import check_permission, check_session_reach
from turnlog.services.gateway.routes import (
    audit_routes,
    blueprint_routes,
    call_routes,
    event_routes,
    forecast_routes,
    health_routes,
    memory_routes,
    overview_routes,
    prompt_routes,
    session_command_routes,
    session_routes,
    turn_routes,
    use_routes,
    what_if_routes,
)
from turnlog.services.http.authentication import AuthenticationMiddleware
from turnlog.services.http.component_schemas import add_event_components
from turnlog.services.http.middleware import (
    BodyLimitMiddleware,
    TracingMiddleware,
    find_route,
)
from turnlog.services.http.openapi_descriptions import add_descriptions
from turnlog.services.http.problem_details import (
    PROBLEM_MEDIA_TYPE,
    ProblemDetails,
    handle_error,
)
from turnlog.services.http.request_checks import check_body, check_path, check_query
from turnlog.services.http.request_origin import RequestOriginMiddleware, list_own_hosts
from turnlog.services.http.request_pacing import RequestPacing
from turnlog.services.keys import issuer_routes, key_routes, sign_in_routes
from turnlog.services.knowledge import knowledge_routes
from turnlog.services.media import media_routes
from turnlog.services.overrides import override_routes
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.telemetry.request_log import RequestLog
from turnlog.services.quotas import quota_routes
from turnlog.services.reads import read_routes
from turnlog.services.retention import retention_routes
from turnlog.services.segments import segment_routes
from turnlog.services.tenants import tenant_routes
from turnlog.services.usage import usage_routes
from turnlog.services.webhooks import webhook_routes

ROUTERS: Final[tuple[APIRouter, ...]] = (
    session_routes.router,
    turn_routes.router,
    turn_routes.ask_router,
    session_command_routes.router,
    approval_routes.router,
    erasure_routes.router,
    event_routes.router,
    call_routes.router,
    prompt_routes.router,
    audit_routes.router,
    what_if_routes.router,
    forecast_routes.router,
    memory_routes.router,
    media_routes.router,
    blueprint_routes.router,
    segment_routes.router,
    knowledge_routes.router,
    override_routes.router,
    quota_routes.router,
    key_routes.router,
    sign_in_routes.router,
    issuer_routes.router,
    tenant_routes.router,
    webhook_routes.router,
    alert_routes.router,
    retention_routes.router,
    read_routes.router,
    usage_routes.router,
    overview_routes.router,
    use_routes.router,
    health_routes.router,
    static_ui.router,
)
REQUEST_CHECKS: Final = [
    Depends(check)
    for check in (check_permission, check_session_reach, check_path, check_query, check_body)
]
"""What every request passes before its handler runs."""

PROBLEM_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": ProblemDetails, "description": "An error in the request"},
    "5XX": {
        "model": ProblemDetails,
        "description": "A failure of Turnlog, or of a system it depends on",
    },
}


def build_app(deps: GatewayDependencies) -> FastAPI:
    """Return the application that serves requests with these dependencies."""
    # Without questions if their blueprint is hidden
    app = create_routed_app(asking=deps.use_cases.questions.is_offered)
    app.state.settings, app.state.use_cases = deps.settings, deps.use_cases
    app.state.shutdown_event = deps.shutdown_event
    app.state.open_requests = deps.open_requests
    for kind in (TurnlogError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, handle_error)
    settings = deps.settings
    app.add_middleware(RequestOriginMiddleware, own_hosts=list_own_hosts(settings))
    app.add_middleware(
        BodyLimitMiddleware,
        most_bytes=settings.body_limit,
        seconds=settings.body_seconds,
        larger={
            api_paths.IMPORT_SEGMENTS: settings.import_limit,
            api_paths.IMPORT_KNOWLEDGE: settings.import_limit,
            api_paths.VERIFY_LOG: MAX_CHECKPOINT_BYTES,
            api_paths.CHECKPOINT: MAX_CHECKPOINT_BYTES,
            api_paths.WHAT_IF: settings.import_limit,
            api_paths.TURNS: settings.import_limit,
            api_paths.ASK: settings.import_limit,
            api_paths.WINDOW: settings.import_limit,
            api_paths.ASSEMBLE: settings.import_limit,
        },
    )
    app.add_middleware(
        AuthenticationMiddleware,
        open_requests=deps.open_requests,
        body_seconds=settings.body_seconds,
        part_bytes=settings.body_limit,
    )
    app.add_middleware(RequestPacing)
    app.add_middleware(RequestLog, tenant=settings.tenant, find_route=find_route)
    # Outermost, so that the line of a request names its trace.
    app.add_middleware(TracingMiddleware, tracing=deps.tracing)
    return app


def create_routed_app(*, asking: bool = True) -> FastAPI:
    """Return an application that has its routes but no dependencies yet."""
    app = _create_empty_app()
    app.router.routes.extend(_build_routes(asking=asking))
    return app


def _create_empty_app() -> FastAPI:
    return FastAPI(
        title="Turnlog",
        summary="The record of what language models were sent, and why.",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        responses=PROBLEM_RESPONSES,
    )


@cache
def _build_routes(*, asking: bool) -> Sequence[BaseRoute]:
    """Return the routes, with or without those of questions; they hold no dependencies.

    They are built once, because it takes nine tenths of the processor time of a gateway's start
    (0.2 s), and the tests start a thousand gateways.
    """
    app = _create_empty_app()
    for router in ROUTERS:
        if asking or router is not turn_routes.ask_router:
            app.include_router(router, dependencies=REQUEST_CHECKS)
    app.add_api_route("/openapi.json", _serve_openapi, include_in_schema=False)
    app.add_api_route("/asyncapi.json", _serve_asyncapi, include_in_schema=False)
    # FastAPI builds a router's routes when the first request reaches it, which would have to wait.
    for _ in iter_route_contexts(app.routes):
        pass
    return app.routes


async def _serve_openapi(request: Request) -> JSONResponse:
    # Building the document takes a second the first time, and writing it 10 ms each time.
    return await run_in_thread(lambda: JSONResponse(build_openapi(request.app)))


async def _serve_asyncapi() -> JSONResponse:
    return await run_in_thread(lambda: JSONResponse(build_asyncapi()))


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, completed with what FastAPI does not generate.

    These are the descriptions of fields, the pattern of session ids, the media type of problem
    details, and the schemas of stored events and streams.
    """
    document = app.openapi()
    if "StoredEvent" in document["components"]["schemas"]:
        return document  # It was completed before: FastAPI returns the same one each time.
    add_descriptions(document, app.routes)
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "session":
                    parameter["schema"]["pattern"] = f"^{ID_PATTERN}$"
            for status in PROBLEM_RESPONSES:
                content = operation["responses"][status]["content"]
                if "application/json" in content:
                    content[PROBLEM_MEDIA_TYPE] = content.pop("application/json")
    add_event_components(document)
    return document
