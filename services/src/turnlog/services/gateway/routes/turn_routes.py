"""Routes for turns: submit one, stream its reply, ask a question, and read the history.

A 2xx response to a submit means that the turn is on the event log; a worker answers it. The client
chooses whether it gets the response at once, after a wait, or as a stream. That choice does not
change what is recorded, so the idempotency key does not cover it.
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import JsonValue
from starlette.responses import JSONResponse

from turnlog.events.codec import CommandRef
from turnlog.events.content import PlainText, get_plain_text, parse_structured_text
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import TurnResolved
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.storable_json import check_json
from turnlog.projections.blueprint.validation.input_values import check_values
from turnlog.projections.prompt.budget.admission_limits import check_turn_text
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.quotas.turn_bound import compute_turn_bound
from turnlog.projections.read_models.phase_visits import filter_visits, list_phase_visits
from turnlog.projections.read_models.session_history import (
    HistoryTurn,
    apply_redactions,
    build_history,
)
from turnlog.projections.read_models.turn_activity import (
    NO_ACTIVITY,
    TurnActivity,
    collect_activity,
    withhold_texts,
)
from turnlog.projections.read_models.turn_timeline import collect_turn_spans, count_elapsed
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.state import IdempotencyRecord, SessionState
from turnlog.services.api.requests import OpenSessionRequest, QuestionRequest, SubmitTurnRequest
from turnlog.services.api.turn_payloads import (
    DisplayView,
    HistoryView,
    QuestionAnswer,
    QuestionStatus,
    RequestedApproval,
    SettledTurnView,
    SubmittedTurn,
    TurnTimelineView,
    TurnView,
    UndecidedTurnView,
)
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.http.component_schemas import refer_to_component
from turnlog.services.gateway.http.headers import (
    JSON_MEDIA_TYPE,
    SSE_MEDIA_TYPE,
    choose_media_type,
    format_etag,
    get_last_event_id,
    set_etag,
)
from turnlog.services.gateway.http.request_checks import AtSequence, TurnPath
from turnlog.services.gateway.http.request_identity import CallerIdentity, RequestIdentity
from turnlog.services.gateway.routes.session_routes import find_or_open_session
from turnlog.services.gateway.streaming.approval_watch import load_turn_events
from turnlog.services.gateway.streaming.turn_cursor import create_cursor_refusal
from turnlog.services.gateway.streaming.turn_stream import (
    open_new_turn_stream,
    open_turn_stream,
)
from turnlog.services.gateway.streaming.turn_wait import (
    SettledTurn,
    UndecidedTurn,
    wait_for_outcome,
)
from turnlog.services.sessions.command_handler import CommandOutcome

router = APIRouter()

TURN_STREAM_CONTENT: Final = refer_to_component("TurnStreamEvent")

ask_router = APIRouter()
"""The route that a gateway lacks whose question blueprint is hidden."""

MAX_WAIT_SECONDS = 300.0
"""The maximum number of seconds that a client may wait for a reply."""

WaitQuery = Annotated[
    float | None,
    Query(
        gt=0,
        le=MAX_WAIT_SECONDS,
        description="Seconds to wait for the reply; the status is 202 when there is none by then, "
        "or when the turn or a child of it begins to wait for an approval",
    ),
]


@router.post(
    "/v1/sessions/{session}/turns",
    status_code=202,
    response_model=UndecidedTurnView | SubmittedTurn,
    responses={200: {"model": SettledTurnView, "content": {SSE_MEDIA_TYPE: TURN_STREAM_CONTENT}}},
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
    media_type = choose_media_type(request, JSON_MEDIA_TYPE, SSE_MEDIA_TYPE)
    after = get_last_event_id(request) if media_type == SSE_MEDIA_TYPE else None
    done = await submit_to_session(
        deps, caller, session, form, caller.create_command_key(form), after
    )
    submitted = create_submitted_turn(done)
    if media_type == SSE_MEDIA_TYPE and done.events:
        return open_new_turn_stream(deps, done, submitted.turn)
    if media_type == SSE_MEDIA_TYPE:
        return await open_turn_stream(deps, caller.tenant, session, submitted.turn, after)
    if form.role == "system":
        return _create_recorded_response(submitted)
    if wait is None:
        return _create_accepted_response(submitted)
    match await wait_for_outcome(deps, caller.tenant, submitted, wait, request.receive):
        case SettledTurn() as settlement:
            return _create_settled_response(submitted, settlement)
        case UndecidedTurn() as undecided:
            return _create_undecided_response(submitted, undecided)
        case None:
            return _create_accepted_response(submitted)


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
        is_system = form.role == "system"
        inputs = (
            _check_system_turn(form)
            if is_system
            else _check_turn_inputs(deps, material, state, form)
        )
        return SubmitTurn(
            form.text,
            material.blueprint.policies,
            material.phases,
            inputs,
            form.references,
            form.meta,
            material.has_memory,
            form.role or "user",
            user,
            None if is_system else compute_turn_bound(material.blueprint, state.profile, inputs),
            await deps.overrides.list_turn_overrides(
                caller.tenant, None if is_system else user, material.blueprint
            ),
        )

    user = caller.choose_user(form.user)
    check_json(form.references, "references")
    check_json(form.meta, "meta")
    return await deps.command_handler.handle(caller.tenant, session, choose, caller.author, command)


def _check_turn_inputs(
    deps: GatewayDependencies,
    material: SessionMaterial,
    state: SessionState,
    form: SubmitTurnRequest,
) -> dict[str, JsonValue]:
    """Return the inputs of a user's turn, which has room in the prompts of its calls."""
    inputs = check_values(material.blueprint.inputs, form.inputs, "inputs")
    model = material.resolve_model(state, deps.settings.model)
    check_turn_text(material, state, form.text, inputs, model)
    return inputs


def _check_system_turn(form: SubmitTurnRequest) -> dict[str, JsonValue]:
    """Return no inputs; refuse what only a turn with calls can have."""
    for field, value in (("inputs", form.inputs), ("references", form.references)):
        if value:
            what = f"a turn of the system has no {field}"
            raise Refused("invalid", what, field=field, fix="leave it out")
    return {}


def create_submitted_turn(done: CommandOutcome) -> SubmittedTurn:
    """Return the turn and its addresses; of the first request when it was repeated."""
    session, (turn, sequence) = done.state.session, _find_submission(done)
    session_path = f"/v1/sessions/{session}"
    return SubmittedTurn(
        session=session,
        turn=turn,
        sequence=sequence,
        stream=f"{session_path}/turns/{turn}/stream",
        events=f"{session_path}/events?after={sequence - 1}",
    )


def _find_submission(done: CommandOutcome) -> tuple[int, int]:
    """Return the turn's number and the sequence of its event.

    Of the first request when repeated.
    """
    match done.memo:
        case IdempotencyRecord(turn=int() as turn, sequence=sequence):
            return turn, sequence
        case _:
            return done.state.submitted, done.state.head.sequence


def _create_accepted_response(submitted: SubmittedTurn) -> Response:
    headers = {"ETag": format_etag(submitted.sequence), "Location": submitted.stream}
    return JSONResponse(submitted.model_dump(mode="json"), 202, headers)


def _create_undecided_response(submitted: SubmittedTurn, undecided: UndecidedTurn) -> Response:
    view = UndecidedTurnView(
        **submitted.model_dump(),
        status="waiting-for-approval",
        approvals=tuple(
            RequestedApproval(
                session=each.session,
                turn=each.turn,
                approval=approval.approval,
                call=each.use.call,
                id=each.use.id,
                tool=each.use.tool,
                arguments=each.use.arguments,
                deadline=approval.deadline,
                decide=f"/v1/sessions/{each.session}/turns/{each.turn}/approvals/{approval.approval}",
            )
            for each in undecided.tools
            if (approval := each.use.approval)
        ),
    )
    headers = {"ETag": format_etag(undecided.sequence), "Location": submitted.stream}
    return JSONResponse(view.model_dump(mode="json"), 202, headers)


def _create_recorded_response(submitted: SubmittedTurn) -> Response:
    """Answer with a turn of the system, which is settled as soon as it is recorded."""
    settled = SettledTurnView(
        **submitted.model_dump(),
        settled=submitted.sequence,
        status="completed",
        reply=None,
        finish=None,
        redacted=False,
        reason=None,
    )
    return _create_settled_answer(settled)


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
        detail=turn.detail,
        fallback=turn.fallback.code if turn.fallback else None,
        output=parse_structured_text(turn.reply) if turn.structured else None,
    )
    return _create_settled_answer(settled)


def _create_settled_answer(settled: SettledTurnView) -> Response:
    return JSONResponse(
        settled.model_dump(mode="json"), 200, {"ETag": format_etag(settled.settled)}
    )


AfterCursorQuery = Annotated[
    str | None,
    Query(description="The id of an event of this stream; Last-Event-ID takes precedence"),
]


@router.get(
    "/v1/sessions/{session}/turns/{turn}/stream",
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
    deps: Dependencies,
    tenant: RequestTenant,
    after: AfterCursorQuery = None,
) -> Response:
    """Stream `token` events, then one of `done`, `redact`, `failed` and `cancelled`.

    After `attempt-reset`, the texts of all earlier tokens are void. A client that reconnects with
    the id of its last event misses no text and gets none twice. Turns with several calls send
    `progress` events until their reply begins. A tool that needs approval is an `approval` event
    when it begins to wait, again when a client reconnects meanwhile, and when it is decided.
    """
    choose_media_type(request, SSE_MEDIA_TYPE)
    last_event_id = get_last_event_id(request)
    return await open_turn_stream(
        deps, tenant, session, turn, after if last_event_id is None else last_event_id
    )


@router.get(
    "/v1/sessions/{session}/turns/{turn}/timeline", summary="Show where the time of a turn went"
)
async def show_turn_timeline(
    session: str, turn: TurnPath, tenant: RequestTenant, deps: Dependencies, response: Response
) -> TurnTimelineView:
    """Return the calls, attempts, tools and waits of a turn as spans on one scale."""
    state = await deps.command_handler.require_state(tenant, session)
    events = await load_turn_events(deps, state, turn)
    found = collect_turn_spans(events, turn)
    if found is None:
        raise Refused("unknown-turn", f"there is no turn {turn}", field="turn")
    set_etag(response, events[-1].sequence)
    return TurnTimelineView(
        session=session,
        sequence=events[-1].sequence,
        turn=turn,
        begun_at=found.begun_at,
        length_ms=found.length_ms,
        elapsed_ms=count_elapsed(found, deps.command_handler.clock()),
        spans=found.spans,
    )


QUESTION_OK = QuestionStatus(reason="ok", message="ok")

QUESTION_UNROUTABLE = QuestionStatus(
    reason="unroutable", message="nothing is known that the question is about"
)


@ask_router.post("/v1/ask", summary="Ask a question")
async def answer_question(
    caller: CallerIdentity, deps: Dependencies, form: QuestionRequest, request: Request
) -> QuestionAnswer:
    """Submit a question to a conversation and wait for the answer.

    The client id and the conversation id are the key of the session, which is found or opened. The
    question is on the event log before it is processed. The same idempotency key and question lead
    to the same turn.
    """
    blueprint = _get_question_blueprint(deps)
    key = {"client_id": form.client_id, "conversation_id": form.conversation_id}
    opening = OpenSessionRequest(blueprint=blueprint.blueprint)
    session = (await find_or_open_session(deps, caller, opening, key)).state.session
    turn = SubmitTurnRequest(text=form.question, meta={"nickname": form.nickname})
    submitted = create_submitted_turn(
        await submit_to_session(deps, caller, session, turn, caller.create_command_key(form))
    )
    policies = blueprint.resolve_policies(blueprint.default_profile)
    wait = min(MAX_WAIT_SECONDS, policies.deadline_seconds + deps.read_model_timeout)
    settlement = await wait_for_outcome(deps, caller.tenant, submitted, wait, request.receive)
    if not isinstance(settlement, SettledTurn):
        fix = "repeat the question with the same Idempotency-Key"
        raise Refused("not-in-time", "the question is recorded, and not answered yet", fix=fix)
    return _create_answer(settlement.turn)


def _get_question_blueprint(deps: GatewayDependencies) -> Blueprint:
    blueprint = deps.blueprint_folders.load_blueprint(deps.settings.ask)
    if blueprint.front_door != "ask":
        detail = f"blueprint {blueprint.blueprint} does not answer questions"
        fix = "tell the operator: the blueprint needs `front_door: ask`"
        raise Refused("no-front-door", detail, fix=fix)
    return blueprint


def _create_answer(turn: HistoryTurn) -> QuestionAnswer:
    if turn.status != "completed":
        detail = f"the question is recorded, and was {turn.status}: {turn.reason}"
        raise Refused("not-answered", detail, fix="ask again with a new Idempotency-Key")
    resolution = turn.resolved
    is_unroutable = resolution is not None and resolution.entity is None
    return QuestionAnswer(
        status=QUESTION_UNROUTABLE if is_unroutable else QUESTION_OK,
        results=_decode_results(resolution),
        meta=resolution.meta if resolution else {},
        answer=get_plain_text(turn.reply) or "",
    )


def _decode_results(resolution: TurnResolved | None) -> list[JsonValue] | dict[str, JsonValue]:
    readable = resolution.results if resolution else None
    found: JsonValue = json.loads(readable.text) if isinstance(readable, PlainText) else []
    return found if isinstance(found, list | dict) else []


@router.get("/v1/sessions/{session}/history", summary="List the turns of a session")
async def show_history(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    at: AtSequence = None,
    phase: Annotated[str | None, Query(description="Only turns of this phase")] = None,
) -> HistoryView:
    """Return all turns with their texts, replies and outcomes, and the phases of the session.

    A reply that was withheld since is not in the history of an earlier sequence either.
    """
    events = await deps.time_travel.load_events(tenant, session, at)
    set_etag(response, events[-1].sequence)
    history, visits = build_history(events), list_phase_visits(events)
    if at is not None:
        last = await deps.command_handler.load_last_event(tenant, session, at)
        redactions = await deps.log.read_events_by_leaf(
            tenant, session, ReplyRedacted.leaf, last.head
        )
        history = apply_redactions(history, redactions)
    if phase is not None:
        visits = filter_visits(visits, phase)
        history = tuple(
            turn for turn in history if any(turn.turn in visit.turns for visit in visits)
        )
    phases = {turn: visit.phase for visit in visits for turn in visit.turns}
    activity = collect_activity(events)
    return HistoryView(
        session=session,
        sequence=events[-1].sequence,
        turns=tuple(
            _create_turn_view(turn, activity.get(turn.turn, NO_ACTIVITY), phases.get(turn.turn))
            for turn in history
        ),
        stays=visits,
    )


def _create_turn_view(turn: HistoryTurn, activity: TurnActivity, phase: str | None) -> TurnView:
    activity = withhold_texts(activity) if turn.redacted else activity
    return TurnView(
        turn=turn.turn,
        status=turn.status,
        text=get_plain_text(turn.text),
        role=turn.role,
        reply=get_plain_text(turn.reply),
        finish=turn.finish,
        call=turn.call,
        excluded=turn.excluded,
        redacted=turn.redacted,
        purged=turn.purged,
        reason=turn.reason,
        detail=turn.detail,
        sequence=turn.sequence,
        submitted_at=turn.submitted_at,
        settled_at=turn.settled_at,
        remembered=turn.remembered,
        fallback=turn.fallback.code if turn.fallback else None,
        output=parse_structured_text(turn.reply) if turn.structured else None,
        phase=phase,
        display=_create_display_view(turn),
        steps=activity.steps,
        tools=activity.uses,
    )


def _create_display_view(turn: HistoryTurn) -> DisplayView | None:
    display = turn.display
    return (
        DisplayView(text=get_plain_text(display.text), reply=get_plain_text(display.reply))
        if display
        else None
    )
