"""Routes for sessions: open one by id or key, show one, list them, and fork one.

A session is opened once under its id. Under a key it is found or opened: two gateways that open the
same key at the same time open one session. Everything that a session is made from is read, checked
and pinned before its first event is appended. The list comes from the read models; everything else
comes from the session's own log.
"""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Response

from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id
from turnlog.events.session import BlueprintRef, SessionOpened
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.state import SessionState
from turnlog.services.gateway.caller import CallerIdentity, RequestIdentity
from turnlog.services.gateway.desk import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.history import AtSequence
from turnlog.services.gateway.opening import create_open_command, find_or_open_session
from turnlog.services.gateway.payloads.asked import OpenSessionRequest
from turnlog.services.gateway.payloads.sessions import (
    ChoiceView,
    OpenedSession,
    OpenTurnView,
    OriginView,
    SessionView,
)

session_router = APIRouter()


@session_router.post(
    "/v1/sessions",
    status_code=201,
    responses={200: {"model": OpenedSession, "description": "It was open, and is found by its key"}},
    summary="Open a session",
)
async def open_session(caller: CallerIdentity, deps: Dependencies, form: OpenSessionRequest, response: Response) -> OpenedSession:
    """Open a session of a blueprint, or find one by a key that the blueprint declares.

    With an idempotency key and without an id, a retry finds the session of the first request.
    """
    if form.key is not None:
        return await _open_by_key(caller, deps, form, form.key, response)
    made = caller.derive_session_id() or deps.sessions.create_id()
    session = validate_id(made if form.session is None else form.session, "session")

    async def choose(state: SessionState | None) -> OpenSession:
        del state
        return await create_open_command(deps, caller.tenant, form)

    command = caller.create_command_key(form)
    done = await deps.sessions.handle(caller.tenant, session, choose, caller.author, command)
    return await _create_opened_response(deps, done.state, response)


async def _open_by_key(
    caller: RequestIdentity, deps: GatewayDependencies, form: OpenSessionRequest, key: dict[str, str], response: Response
) -> OpenedSession:
    if form.session is not None:
        detail = "a session that is found by a key has the id that follows from it"
        raise Refused("bad-id", detail, field="session", fix="leave it out")
    done = await find_or_open_session(deps, caller, form, key)
    response.status_code = HTTPStatus.CREATED if done.events else HTTPStatus.OK
    return await _create_opened_response(deps, done.state, response)


async def _create_opened_response(deps: GatewayDependencies, state: SessionState, response: Response) -> OpenedSession:
    blueprint = await _load_opening_blueprint(deps, state)
    set_etag(response, state.opened.sequence)
    response.headers["Location"] = f"/v1/sessions/{state.session}"
    return OpenedSession(
        session=state.session,
        blueprint=blueprint.name,
        digest=blueprint.digest,
        sequence=state.opened.sequence,
    )


async def _load_opening_blueprint(deps: GatewayDependencies, state: SessionState) -> BlueprintRef:
    """Return the blueprint at opening, so that a repeated request gets the answer of the first."""
    if state.attributes_in == state.opened.sequence:
        return state.blueprint  # The session was never moved to another version
    first = (await deps.time_travel.load_event(state.tenant, state.session, state.opened.sequence)).event
    return first.blueprint if isinstance(first, SessionOpened) else state.blueprint


@session_router.get("/v1/sessions/{session}", summary="Show a session")
async def show_session(
    session: str, tenant: RequestTenant, deps: Dependencies, response: Response, at: AtSequence = None
) -> SessionView:
    """Return the state of a session, now or at a sequence, folded from its own log."""
    state = (
        await deps.sessions.require_state(tenant, session)
        if at is None
        else await deps.time_travel.load_state(tenant, session, at)
    )
    set_etag(response, state.head.sequence)
    return _create_session_view(state)


def _create_session_view(state: SessionState) -> SessionView:
    opened = state.open
    return SessionView(
        session=state.session,
        sequence=state.head.sequence,
        blueprint=state.blueprint.name,
        version=state.blueprint.version,
        digest=state.blueprint.digest,
        profile=state.profile,
        model=state.model,
        attributes=state.attributes,
        closed=state.closed,
        turns=state.submitted,
        completed=state.completed,
        open=OpenTurnView.model_validate(opened) if opened else None,
        waiting=tuple(waiting.turn for waiting in state.waiting),
        phase=state.phase,
        exchanges=state.exchanges,
        warnings=state.warnings,
        origin=OriginView.model_validate(state.origin) if state.origin else None,
        choices=tuple(ChoiceView.model_validate(made) for made in state.choices),
    )
