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
from turnlog.events.ids import checked_id
from turnlog.events.session import BlueprintRef, SessionOpened
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.state import SessionState
from turnlog.services.gateway.caller import AskedBy, Caller
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.history import At
from turnlog.services.gateway.opening import chosen, found_or_opened
from turnlog.services.gateway.payloads.asked import OpenForm
from turnlog.services.gateway.payloads.sessions import (
    ChoiceView,
    Opened,
    OpenTurnView,
    OriginView,
    SessionView,
)

router = APIRouter()


@router.post(
    "/v1/sessions",
    status_code=201,
    responses={200: {"model": Opened, "description": "It was open, and is found by its key"}},
    summary="Open a session",
)
async def open_session(asked: AskedBy, desk: AtDesk, form: OpenForm, response: Response) -> Opened:
    """Open a session of a blueprint, or find one by a key that the blueprint declares.

    With an idempotency key and without an id, a retry finds the session of the first request.
    """
    if form.key is not None:
        return await _found(asked, desk, form, form.key, response)
    made = asked.session_id() or desk.sessions.new_id()
    session = checked_id(made if form.session is None else form.session, "session")

    async def choose(state: SessionState | None) -> OpenSession:
        del state
        return await chosen(desk, asked.tenant, form)

    command = asked.command(form)
    done = await desk.sessions.act(asked.tenant, session, choose, asked.by, command)
    return await _opened(desk, done.state, response)


async def _found(
    asked: Caller, desk: Desk, form: OpenForm, key: dict[str, str], response: Response
) -> Opened:
    if form.session is not None:
        detail = "a session that is found by a key has the id that follows from it"
        raise Refused("bad-id", detail, field="session", fix="leave it out")
    done = await found_or_opened(desk, asked, form, key)
    response.status_code = HTTPStatus.CREATED if done.events else HTTPStatus.OK
    return await _opened(desk, done.state, response)


async def _opened(desk: Desk, state: SessionState, response: Response) -> Opened:
    blueprint = await _first_blueprint(desk, state)
    stamp(response, state.opened.sequence)
    response.headers["Location"] = f"/v1/sessions/{state.session}"
    return Opened(
        session=state.session,
        blueprint=blueprint.name,
        digest=blueprint.digest,
        sequence=state.opened.sequence,
    )


async def _first_blueprint(desk: Desk, state: SessionState) -> BlueprintRef:
    """Return the blueprint at opening, so that a repeated request gets the answer of the first."""
    if state.attributes_in == state.opened.sequence:
        return state.blueprint  # The session was never moved to another version
    first = (await desk.past.event(state.tenant, state.session, state.opened.sequence)).event
    return first.blueprint if isinstance(first, SessionOpened) else state.blueprint


@router.get("/v1/sessions/{session}", summary="Show a session")
async def show_session(
    session: str, tenant: Tenant, desk: AtDesk, response: Response, at: At = None
) -> SessionView:
    """Return the state of a session, now or at a sequence, folded from its own log."""
    state = (
        await desk.sessions.load_open(tenant, session)
        if at is None
        else await desk.past.state(tenant, session, at)
    )
    stamp(response, state.head.sequence)
    return _view(state)


def _view(state: SessionState) -> SessionView:
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
