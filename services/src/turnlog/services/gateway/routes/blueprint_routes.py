"""Routes for blueprints: the list, the schemas, pinned versions, and a move to a new version."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.services.api.service_payloads import (
    BlueprintList,
    BlueprintMovePreview,
    BlueprintMoveResult,
    BlueprintSchemas,
    MoveBlueprintRequest,
    PinnedTextList,
)
from turnlog.services.blueprints.blueprint_use_cases import BlueprintUseCases
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.use_cases.sessions.blueprint_moves import BlueprintMoves

router = APIRouter()


async def get_blueprints(request: Request) -> BlueprintUseCases:
    """Return the use cases of blueprints."""
    blueprints: BlueprintUseCases = request.app.state.use_cases.blueprints
    return blueprints


async def get_moves(request: Request) -> BlueprintMoves:
    """Return the use case of moving a session."""
    moves: BlueprintMoves = request.app.state.use_cases.moves
    return moves


Moves = Annotated[BlueprintMoves, Depends(get_moves)]

Blueprints = Annotated[BlueprintUseCases, Depends(get_blueprints)]


@router.get(api_paths.BLUEPRINTS, summary="List blueprints")
async def list_blueprints(tenant: RequestTenant, blueprints: Blueprints) -> BlueprintList:
    """List the blueprints; those that cannot be loaded are listed separately."""
    return await blueprints.list_blueprints(tenant)


@router.get(api_paths.BLUEPRINT, summary="Show a blueprint")
async def show_blueprint(
    blueprint: str, tenant: RequestTenant, blueprints: Blueprints
) -> BlueprintSchemas:
    """Return a blueprint with the JSON Schemas of its attributes and inputs, and its ladders."""
    return await blueprints.load_blueprint(tenant, blueprint)


@router.get(api_paths.PINS, summary="List the texts that open sessions are pinned to")
async def list_pinned_texts(
    tenant: RequestTenant,
    blueprints: Blueprints,
    blueprint: Annotated[str | None, Query(description="Only sessions of this blueprint")] = None,
) -> PinnedTextList:
    """Count open sessions by the texts they are pinned to, and compare these with the files."""
    return await blueprints.list_pinned_texts(tenant, blueprint)


@router.get(
    api_paths.SESSION_BLUEPRINT, summary="Preview a session's move to another blueprint version"
)
async def preview_blueprint_move(
    session: str, tenant: RequestTenant, moves: Moves, response: Response
) -> BlueprintMovePreview:
    """Return what a move to the present version of the files would do; nothing is recorded.

    A move that would be refused now is refused here, with the same code.
    """
    return tag_body(response, await moves.preview_move(tenant, session))


@router.post(api_paths.SESSION_BLUEPRINT, summary="Move a session to another blueprint version")
async def move_blueprint(
    session: str,
    caller: CallerIdentity,
    moves: Moves,
    response: Response,
    form: MoveBlueprintRequest | None = None,
) -> BlueprintMoveResult:
    """Move a session to the present version of its blueprint's files, from its next call on.

    The files are read from disk and not from the request. They are checked against the session and
    pinned before the event is appended; the next call pins prompt files, as after opening.
    """
    request = form or MoveBlueprintRequest()
    done = await moves.move_session(caller.create_caller(request), session, request.digest)
    return tag_body(response, done)
