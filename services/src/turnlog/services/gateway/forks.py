from __future__ import annotations

from fastapi import APIRouter, Response

from turnlog.events.ids import validate_id
from turnlog.services.gateway.caller import CallerIdentity
from turnlog.services.gateway.desk import Dependencies
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.payloads.asked import ForkSessionRequest
from turnlog.services.gateway.payloads.sessions import ForkedSession, OriginView
from turnlog.services.runtime.forking import ForkService, ForkPoint

fork_router = APIRouter()


@fork_router.post("/v1/sessions/{session}/fork", status_code=201, summary="Fork a session")
async def fork_session(
    session: str, caller: CallerIdentity, deps: Dependencies, form: ForkSessionRequest, response: Response
) -> ForkedSession:
    """Open a session with the history of this one up to a sequence; this one does not change.

    With an idempotency key and without an id, a retry finds the fork of the first request.
    """
    made = caller.derive_session_id() or deps.sessions.create_id()
    into = validate_id(made if form.session is None else form.session, "session")
    place = ForkPoint(caller.tenant, session, form.at)
    blueprint = await ForkService(deps.time_travel).create_fork(place, into, caller.author, caller.create_command_key(form))
    set_etag(response, form.at)
    response.headers["Location"] = f"/v1/sessions/{into}"
    return ForkedSession(
        session=into,
        origin=OriginView(kind="fork", session=session, sequence=form.at),
        blueprint=blueprint.name,
        digest=blueprint.digest,
        sequence=form.at,
    )
