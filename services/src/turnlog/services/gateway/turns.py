"""Routes for turns: submit one, stream its reply, ask a question, and read the history.

A 2xx response to a submit means that the turn is on the event log; a worker answers it. The client
chooses whether it gets the response at once, after a wait, or as a stream. That choice does not
change what is recorded, so the idempotency key does not cover it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from turnlog.events.codec import CommandRef
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.storable import check_json
from turnlog.projections.blueprint.values import check_values
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.state import IdempotencyRecord, SessionState
from turnlog.services.gateway.caller import CallerIdentity, RequestIdentity
from turnlog.services.gateway.desk import Dependencies, GatewayDependencies
from turnlog.services.gateway.headers import JSON_MEDIA_TYPE, SSE_MEDIA_TYPE, choose_media_type, format_etag, get_last_event_id
from turnlog.services.gateway.payloads.asked import SubmitTurnRequest
from turnlog.services.gateway.payloads.turns import SettledTurnView, SubmittedTurn, get_plain_text
from turnlog.services.gateway.turn_cursor import create_cursor_refusal
from turnlog.services.gateway.turn_stream import open_new_turn_stream, open_turn_stream
from turnlog.services.gateway.waiting import SettledTurn, wait_for_settlement
from turnlog.services.runtime.sessions import CommandOutcome

turn_router = APIRouter()

MAX_WAIT_SECONDS = 300.0
"""The maximum number of seconds that a client may wait for a reply."""
WaitQuery = Annotated[
    float | None,
    Query(gt=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for the reply; 202 without one"),
]


@turn_router.post(
    "/v1/sessions/{session}/turns",
    status_code=202,
    response_model=SubmittedTurn,
    responses={200: {"model": SettledTurnView, "content": {SSE_MEDIA_TYPE: {}}}},
    summary="Submit a turn",
)
async def submit_turn(
    session: str,
    caller: CallerIdentity,
    deps: Dependencies,
    form: SubmitTurnRequest,
    request: Request,
    wait: WaitQuery = None,
) -> Response:
    """Submit a turn to a session; a 2xx response means that it is on the event log."""
    wanted = choose_media_type(request, JSON_MEDIA_TYPE, SSE_MEDIA_TYPE)
    after = get_last_event_id(request) if wanted == SSE_MEDIA_TYPE else None
    done = await submit_to_session(deps, caller, session, form, caller.create_command_key(form), after)
    submitted = create_submitted_turn(done)
    if wanted == SSE_MEDIA_TYPE and done.events:
        return open_new_turn_stream(deps, done, submitted.turn)
    if wanted == SSE_MEDIA_TYPE:
        return await open_turn_stream(deps, caller.tenant, session, submitted.turn, after)
    if wait is None:
        return _create_accepted_response(submitted)
    came = await wait_for_settlement(deps, caller.tenant, submitted, wait, request.receive)
    return _create_settled_response(submitted, came) if came else _create_accepted_response(submitted)


async def submit_to_session(
    deps: GatewayDependencies,
    caller: RequestIdentity,
    session: str,
    form: SubmitTurnRequest,
    command: CommandRef | None,
    after: str | None = None,
) -> CommandOutcome:
    """Append a turn to a session, under the idempotency key of the request.

    `after` is the stream cursor of the client; a new turn has none.
    """

    async def choose(state: SessionState | None) -> SubmitTurn:
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        if after is not None:
            raise create_cursor_refusal("this turn is new, and nothing of it was sent before")
        material = await deps.blueprints.load_material(state)
        inputs = check_values(material.blueprint.inputs, form.inputs, "inputs")
        return SubmitTurn(
            form.text,
            material.blueprint.policies,
            material.phases,
            inputs,
            form.references,
            form.meta,
            material.has_memory,
        )

    check_json(form.references, "references")
    check_json(form.meta, "meta")
    return await deps.sessions.handle(caller.tenant, session, choose, caller.author, command)


def create_submitted_turn(done: CommandOutcome) -> SubmittedTurn:
    """Return the turn and its addresses; of the first request when it was repeated."""
    session, (turn, sequence) = done.state.session, _find_submission(done)
    here = f"/v1/sessions/{session}"
    return SubmittedTurn(
        session=session,
        turn=turn,
        sequence=sequence,
        stream=f"{here}/turns/{turn}/stream",
        events=f"{here}/events?after={sequence - 1}",
    )


def _find_submission(done: CommandOutcome) -> tuple[int, int]:
    """Return the turn's number and the sequence of its event; of the first request when repeated.
    """
    match done.memo:
        case IdempotencyRecord(turn=int() as turn, sequence=sequence):
            return turn, sequence
        case _:
            return done.state.submitted, done.state.head.sequence


def _create_accepted_response(submitted: SubmittedTurn) -> Response:
    headers = {"ETag": format_etag(submitted.sequence), "Location": submitted.stream}
    return JSONResponse(submitted.model_dump(mode="json"), 202, headers)


def _create_settled_response(submitted: SubmittedTurn, settlement: SettledTurn) -> Response:
    turn = settlement.turn
    settled = SettledTurnView(
        **submitted.model_dump(),
        settled=settlement.sequence,
        status=turn.status,
        reply=get_plain_text(turn.reply),
        finish=turn.finish,
        redacted=turn.redacted,
        reason=turn.reason,
        fallback=turn.fallback.code if turn.fallback else None,
    )
    return JSONResponse(settled.model_dump(mode="json"), 200, {"ETag": format_etag(settlement.sequence)})
