from __future__ import annotations

from fastapi import APIRouter, Response

from turnlog.events.ids import checked_id
from turnlog.services.gateway.caller import AskedBy
from turnlog.services.gateway.desk import AtDesk
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.asked import ForkForm
from turnlog.services.gateway.payloads.sessions import Forked, OriginView
from turnlog.services.runtime.forking import Forking, Place

router = APIRouter()


@router.post("/v1/sessions/{session}/fork", status_code=201, summary="Fork a session")
async def fork_session(
    session: str, asked: AskedBy, desk: AtDesk, form: ForkForm, response: Response
) -> Forked:
    """Open a session with the history of this one up to a sequence; this one does not change.

    With an idempotency key and without an id, a retry finds the fork of the first request.
    """
    made = asked.session_id() or desk.sessions.new_id()
    into = checked_id(made if form.session is None else form.session, "session")
    place = Place(asked.tenant, session, form.at)
    blueprint = await Forking(desk.past).fork(place, into, asked.by, asked.command(form))
    stamp(response, form.at)
    response.headers["Location"] = f"/v1/sessions/{into}"
    return Forked(
        session=into,
        origin=OriginView(kind="fork", session=session, sequence=form.at),
        blueprint=blueprint.name,
        digest=blueprint.digest,
        sequence=form.at,
    )
