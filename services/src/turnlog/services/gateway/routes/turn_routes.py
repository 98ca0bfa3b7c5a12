"""Routes for turns: submit one, stream its reply, cancel it, ask a question, and read the history.

The client chooses whether it gets the response at once, after a wait, or as a stream. That choice
does not change what is recorded, so the idempotency key does not cover it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.question_payloads import QuestionAnswer, QuestionRequest
from turnlog.contract.session_requests import CancelTurnRequest, SubmitTurnRequest
from turnlog.contract.turn_payloads import (
    CommandResult,
    HistoryView,
    SettledTurnView,
    SubmittedTurn,
    TurnTimelineView,
    UndecidedTurnView,
)
from turnlog.services.gateway.turn_answers import (
    create_recorded_answer,
    create_turn_answer,
    encode_turn_events,
    wait_for_disconnect,
)
from turnlog.services.http.component_schemas import refer_to_component
from turnlog.services.http.headers import (
    JSON_MEDIA_TYPE,
    SSE_MEDIA_TYPE,
    choose_media_type,
    get_last_event_id,
    tag_body,
)
from turnlog.services.http.request_checks import AtSequence, TurnPath
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.http.sse import create_sse_response
from turnlog.services.use_cases.sessions.session_steering import SessionSteering
from turnlog.services.use_cases.turns.question_answering import (
    MAX_WAIT_SECONDS,
    QuestionAnswering,
)
from turnlog.services.use_cases.turns.turn_history import TurnHistory
from turnlog.services.use_cases.turns.turn_stream_events import TurnStreamEvent
from turnlog.services.use_cases.turns.turn_submission import TurnSubmitter
from turnlog.services.use_cases.turns.turn_watching import TurnWatching

router = APIRouter()

TURN_STREAM_CONTENT: Final = refer_to_component("TurnStreamEvent")

ask_router = APIRouter()
"""The route that a gateway lacks whose question blueprint is hidden."""


async def get_submission(request: Request) -> TurnSubmitter:
    """Return the use cases of submitting turns."""
    submission: TurnSubmitter = request.app.state.use_cases.submission
    return submission


async def get_turns(request: Request) -> TurnWatching:
    """Return the use cases of watching turns."""
    turns: TurnWatching = request.app.state.use_cases.turns
    return turns


async def get_questions(request: Request) -> QuestionAnswering:
    """Return the use cases of questions."""
    questions: QuestionAnswering = request.app.state.use_cases.questions
    return questions


async def get_turn_steering(request: Request) -> SessionSteering:
    """Return the use cases of commands on sessions."""
    steering: SessionSteering = request.app.state.use_cases.steering
    return steering


async def get_history(request: Request) -> TurnHistory:
    """Return the use cases of reading turns."""
    history: TurnHistory = request.app.state.use_cases.history
    return history


Turns = Annotated[TurnWatching, Depends(get_turns)]

History = Annotated[TurnHistory, Depends(get_history)]

WaitQuery = Annotated[
    float | None,
    Query(
        gt=0,
        le=MAX_WAIT_SECONDS,
        description="Seconds to wait for the reply; the status is 202 when there is none by then, "
        "or when the turn or a child of it begins to wait for an approval",
    ),
]


ReasoningQuery = Annotated[
    bool, Query(description="Whether to include what the model reasons, which is no reply")
]


@router.post(
    api_paths.TURNS,
    status_code=202,
    response_model=UndecidedTurnView | SubmittedTurn,
    responses={200: {"model": SettledTurnView, "content": {SSE_MEDIA_TYPE: TURN_STREAM_CONTENT}}},
    summary="Submit a turn",
)
async def submit_turn(
    session: str,
    caller: CallerIdentity,
    submission: Annotated[TurnSubmitter, Depends(get_submission)],
    turns: Turns,
    form: SubmitTurnRequest,
    request: Request,
    wait: WaitQuery = None,
    *,
    reasoning: ReasoningQuery = False,
) -> Response:
    """Submit a turn to a session; a 2xx response means that it is on the event log."""
    is_streamed = choose_media_type(request, JSON_MEDIA_TYPE, SSE_MEDIA_TYPE) == SSE_MEDIA_TYPE
    cursor = get_last_event_id(request) if is_streamed else None
    parts = await submission.read_parts(caller.tenant, form, len(await request.body()))
    as_caller = caller.create_caller(parts.form)
    submitted = await submission.submit_turn(as_caller, session, parts, cursor=cursor)
    if is_streamed:
        key = (caller.tenant, session)
        events = await turns.open_submitted_stream(*key, submitted, cursor, has_reasoning=reasoning)
        return _create_stream_answer(request, events)
    if form.role == "system":
        return create_recorded_answer(submitted)
    if wait is None:
        return create_turn_answer(submitted, None)
    gone = partial(wait_for_disconnect, request.receive)
    outcome = await turns.wait_for_outcome(caller.tenant, submitted, timeout=wait, until=gone)
    return create_turn_answer(submitted, outcome)


def _create_stream_answer(
    request: Request, events: AsyncGenerator[TurnStreamEvent] | None
) -> Response:
    """Return the stream of a turn, or 204 when the client has had its end."""
    if events is None:
        return Response(status_code=204)
    return create_sse_response(request, encode_turn_events(events))


@router.post(api_paths.CANCEL, summary="Cancel a turn")
async def cancel_turn(
    session: str,
    caller: CallerIdentity,
    steering: Annotated[SessionSteering, Depends(get_turn_steering)],
    response: Response,
    form: CancelTurnRequest | None = None,
) -> CommandResult:
    """Cancel the open turn, or one that is queued; the answer names it."""
    request = form or CancelTurnRequest()
    done = await steering.cancel_turn(caller.create_caller(request), session, request.turn)
    return tag_body(response, done)


AfterCursorQuery = Annotated[
    str | None,
    Query(description="The id of an event of this stream; Last-Event-ID takes precedence"),
]


@router.get(
    api_paths.TURN_STREAM,
    response_class=Response,
    responses={
        200: {"content": {SSE_MEDIA_TYPE: TURN_STREAM_CONTENT}},
        204: {"description": "The last event was already sent"},
    },
    summary="Stream the reply of a turn",
)
async def stream_turn(
    session: str,
    turn: TurnPath,
    request: Request,
    turns: Turns,
    tenant: RequestTenant,
    after: AfterCursorQuery = None,
    *,
    reasoning: ReasoningQuery = False,
) -> Response:
    """Stream `token` events, then one of `done`, `redact`, `failed` and `cancelled`.

    After `attempt-reset`, the texts of all earlier tokens are void. A client that reconnects with
    the id of its last event misses no text and gets none twice. Turns with several calls send
    `progress` events until their reply begins. A tool that needs approval is an `approval` event
    when it begins to wait, again when a client reconnects meanwhile, and when it is decided. What
    a child of the turn does is a `child` event, which is also sent again to a client that
    reconnects. `reasoning` events are sent where the query asks for them; a blueprint with output
    rules has none.
    """
    choose_media_type(request, SSE_MEDIA_TYPE)
    cursor = get_last_event_id(request)
    events = await turns.open_stream(
        tenant, session, turn, after if cursor is None else cursor, has_reasoning=reasoning
    )
    return _create_stream_answer(request, events)


@router.get(api_paths.TIMELINE, summary="Show where the time of a turn went")
async def show_turn_timeline(
    session: str, turn: TurnPath, tenant: RequestTenant, history: History, response: Response
) -> TurnTimelineView:
    """Return the calls, attempts, tools and waits of a turn as spans on one scale."""
    return tag_body(response, await history.load_timeline(tenant, session, turn))


@ask_router.post(api_paths.ASK, summary="Ask a question")
async def answer_question(
    caller: CallerIdentity,
    questions: Annotated[QuestionAnswering, Depends(get_questions)],
    form: QuestionRequest,
    request: Request,
) -> QuestionAnswer:
    """Submit a question to a conversation and wait for the answer.

    The client id and the conversation id are the key of the session, which is found or opened. The
    question is on the event log before it is processed. The same idempotency key and question lead
    to the same turn.
    """
    gone = partial(wait_for_disconnect, request.receive)
    size = len(await request.body())
    return await questions.answer_question(caller.create_caller(form), form, size, until=gone)


@router.get(api_paths.HISTORY, summary="List the turns of a session")
async def show_history(
    session: str,
    tenant: RequestTenant,
    history: History,
    response: Response,
    at: AtSequence = None,
    phase: Annotated[str | None, Query(description="Only turns of this phase")] = None,
    *,
    reasoning: ReasoningQuery = False,
) -> HistoryView:
    """Return all turns with their texts, replies and outcomes, and the phases of the session.

    A reply that was withheld since is not in the history of an earlier sequence either.
    """
    found = await history.load_history(tenant, session, at=at, phase=phase, has_reasoning=reasoning)
    return tag_body(response, found)
