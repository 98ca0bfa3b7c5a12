"""Routes for turns: submit one, stream its reply, ask a question, and read the history.

A 2xx response to a submit means that the turn is on the event log; a worker answers it. The client
chooses whether it gets the response at once, after a wait, or as a stream. That choice does not
change what is recorded, so the idempotency key does not cover it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from turnlog.events.codec import Command
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.storable import checked_json
from turnlog.projections.blueprint.values import checked_values
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.state import Memo, SessionState
from turnlog.services.gateway.caller import AskedBy, Caller
from turnlog.services.gateway.desk import AtDesk, Desk
from turnlog.services.gateway.headers import JSON, SSE, accepted, etag, last_event_id
from turnlog.services.gateway.payloads.asked import TurnForm
from turnlog.services.gateway.payloads.turns import Settled, Submitted, plain
from turnlog.services.gateway.turn_cursor import bad_cursor
from turnlog.services.gateway.turn_stream import begun_stream, turn_stream
from turnlog.services.gateway.waiting import Outcome, outcome
from turnlog.services.runtime.sessions import Done

router = APIRouter()

LONGEST_WAIT = 300.0
"""The maximum number of seconds that a client may wait for a reply."""
Wait = Annotated[
    float | None,
    Query(gt=0, le=LONGEST_WAIT, description="Seconds to wait for the reply; 202 without one"),
]


@router.post(
    "/v1/sessions/{session}/turns",
    status_code=202,
    response_model=Submitted,
    responses={200: {"model": Settled, "content": {SSE: {}}}},
    summary="Submit a turn",
)
async def submit_turn(
    session: str,
    asked: AskedBy,
    desk: AtDesk,
    form: TurnForm,
    request: Request,
    wait: Wait = None,
) -> Response:
    """Submit a turn to a session; a 2xx response means that it is on the event log."""
    wanted = accepted(request, JSON, SSE)
    after = last_event_id(request) if wanted == SSE else None
    done = await put(desk, asked, session, form, asked.command(form), after)
    submitted = submitted_by(done)
    if wanted == SSE and done.events:
        return begun_stream(desk, done, submitted.turn)
    if wanted == SSE:
        return await turn_stream(desk, asked.tenant, session, submitted.turn, after)
    if wait is None:
        return _accepted(submitted)
    came = await outcome(desk, asked.tenant, submitted, wait, request.receive)
    return _told(submitted, came) if came else _accepted(submitted)


async def put(
    desk: Desk,
    asked: Caller,
    session: str,
    form: TurnForm,
    command: Command | None,
    after: str | None = None,
) -> Done:
    """Append a turn to a session, under the idempotency key of the request.

    `after` is the stream cursor of the client; a new turn has none.
    """

    async def choose(state: SessionState | None) -> SubmitTurn:
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        if after is not None:
            raise bad_cursor("this turn is new, and nothing of it was sent before")
        material = await desk.blueprints.load(state)
        inputs = checked_values(material.blueprint.inputs, form.inputs, "inputs")
        return SubmitTurn(
            form.text,
            material.blueprint.policies,
            material.phases,
            inputs,
            form.references,
            form.meta,
            material.remembers,
        )

    checked_json(form.references, "references")
    checked_json(form.meta, "meta")
    return await desk.sessions.act(asked.tenant, session, choose, asked.by, command)


def submitted_by(done: Done) -> Submitted:
    """Return the turn and its addresses; of the first request when it was repeated."""
    session, (turn, sequence) = done.state.session, _place(done)
    here = f"/v1/sessions/{session}"
    return Submitted(
        session=session,
        turn=turn,
        sequence=sequence,
        stream=f"{here}/turns/{turn}/stream",
        events=f"{here}/events?after={sequence - 1}",
    )


def _place(done: Done) -> tuple[int, int]:
    """Return the turn's number and the sequence of its event; of the first request when repeated.
    """
    match done.memo:
        case Memo(turn=int() as turn, sequence=sequence):
            return turn, sequence
        case _:
            return done.state.submitted, done.state.head.sequence


def _accepted(submitted: Submitted) -> Response:
    headers = {"ETag": etag(submitted.sequence), "Location": submitted.stream}
    return JSONResponse(submitted.model_dump(mode="json"), 202, headers)


def _told(submitted: Submitted, came: Outcome) -> Response:
    turn = came.turn
    settled = Settled(
        **submitted.model_dump(),
        settled=came.sequence,
        status=turn.status,
        reply=plain(turn.reply),
        finish=turn.finish,
        redacted=turn.redacted,
        reason=turn.reason,
        fallback=turn.fallback.code if turn.fallback else None,
    )
    return JSONResponse(settled.model_dump(mode="json"), 200, {"ETag": etag(came.sequence)})
