"""Routes for commands on a session and its turns, such as cancel, close, redact and exclude.

The session's rules decide each command, under its idempotency key. The response has the sequence of
the last event, so that the next read can ask for at least that.
"""

from __future__ import annotations

from fastapi import APIRouter, Response

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.phase_specs import PhaseGraph
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    Command,
    DecideApproval,
    DisplayTurn,
    EnterPhase,
    ExcludeTurn,
    GiveFeedback,
    RecordChoice,
    RedactReply,
    RequestSchemas,
    RestoreTurn,
    SendSignal,
    SwitchProfile,
)
from turnlog.projections.session.state import SessionState
from turnlog.services.api.payload_models import RequestModel
from turnlog.services.api.requests import (
    CancelTurnRequest,
    CloseSessionRequest,
    DecideApprovalRequest,
    DisplayTurnRequest,
    FeedbackRequest,
    PhaseSignalRequest,
    RecordChoiceRequest,
    RedactReplyRequest,
    SwitchProfileRequest,
)
from turnlog.services.api.turn_payloads import CommandResult
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_checks import ApprovalPath, TurnPath
from turnlog.services.gateway.http.request_identity import CallerIdentity, RequestIdentity
from turnlog.services.sessions.command_handler import ChooseCommand

router = APIRouter()

OPERATOR_RULE = "operator"
"""The rule name recorded when a person redacts a reply."""


@router.post("/v1/sessions/{session}/cancel", summary="Cancel a turn")
async def cancel_turn(
    session: str,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: CancelTurnRequest | None = None,
) -> CommandResult:
    """Cancel the open turn, or one that is queued."""
    request = form or CancelTurnRequest()
    return await handle_command(
        deps, caller, session, CancelTurn(request.turn), request, response, request.turn
    )


@router.post("/v1/sessions/{session}/close", summary="Close a session")
async def close_session(
    session: str,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: CloseSessionRequest | None = None,
) -> CommandResult:
    """Close a session: it accepts no more turns, and stays readable."""
    request = form or CloseSessionRequest()
    return await handle_command(
        deps, caller, session, CloseSession(request.reason), request, response
    )


@router.post("/v1/sessions/{session}/redactions", summary="Redact a reply")
async def redact_reply(
    session: str,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: RedactReplyRequest,
) -> CommandResult:
    """Replace the reply of a turn wherever it is shown."""

    async def choose(state: SessionState | None) -> RedactReply:
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        material = await deps.blueprints.load_material(state)
        words = form.replacement or material.get_replacement(state)
        return RedactReply(form.turn, form.reason, OPERATOR_RULE, words)

    return await handle_command(deps, caller, session, choose, form, response, form.turn)


@router.post("/v1/sessions/{session}/choices", summary="Record a choice")
async def record_choice(
    session: str,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: RecordChoiceRequest,
) -> CommandResult:
    """Record a choice that the session's current phase offers."""

    async def choose(state: SessionState | None) -> RecordChoice:
        return RecordChoice(form.choice, await _load_phases(deps, state))

    return await handle_command(deps, caller, session, choose, form, response)


@router.post("/v1/sessions/{session}/phase", summary="Signal or enter a phase")
async def send_signal(
    session: str,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: PhaseSignalRequest,
) -> CommandResult:
    """End the current phase by a signal it offers, or move to another phase by its name."""

    async def choose(state: SessionState | None) -> SendSignal | EnterPhase:
        phases = await _load_phases(deps, state)
        if form.to is not None and form.signal is None:
            return EnterPhase(form.to, phases, form.carry and check_text(form.carry, "carry"))
        if form.signal is not None and form.to is None and form.carry is None:
            return SendSignal(form.signal, phases)
        fix = "send `signal`, or `to` and perhaps `carry`"
        raise Refused(
            "bad-phase",
            "the request names neither a signal nor a phase, or both",
            field="signal",
            fix=fix,
        )

    return await handle_command(deps, caller, session, choose, form, response)


@router.post("/v1/sessions/{session}/profile", summary="Switch the profile or the model")
async def switch_profile(
    session: str,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: SwitchProfileRequest,
) -> CommandResult:
    """Switch the session to another profile or model, from its next turn on."""

    async def choose(state: SessionState | None) -> SwitchProfile:
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        if form.profile is None and form.model is None:
            fix = "send `profile`, `model` or both"
            raise Refused(
                "invalid",
                "the request names neither a profile nor a model",
                field="profile",
                fix=fix,
            )
        material = await deps.blueprints.load_material(state)
        blueprint = material.blueprint
        return SwitchProfile(
            form.profile or state.profile,
            blueprint.profiles,
            form.model,
            blueprint.allowed_models,
        )

    return await handle_command(deps, caller, session, choose, form, response)


async def _load_phases(deps: GatewayDependencies, state: SessionState | None) -> PhaseGraph:
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    material = await deps.blueprints.load_material(state)
    if material.phases is None:
        raise Refused("no-phases", f"blueprint {state.blueprint.name} has no phases")
    return material.phases


@router.post("/v1/sessions/{session}/schemas", summary="Describe tools in full again")
async def request_schemas(
    session: str, caller: CallerIdentity, deps: Dependencies, response: Response
) -> CommandResult:
    """Describe all tools in full in prompts again, from the next call on, for one turn."""
    return await handle_command(deps, caller, session, RequestSchemas(), None, response)


@router.put("/v1/sessions/{session}/turns/{turn}/exclusion", summary="Exclude a turn")
async def exclude_turn(
    session: str, turn: TurnPath, caller: CallerIdentity, deps: Dependencies, response: Response
) -> CommandResult:
    """Exclude a turn from all later windows; the audit log keeps it."""
    return await handle_command(deps, caller, session, ExcludeTurn(turn), None, response, turn)


@router.put(
    "/v1/sessions/{session}/turns/{turn}/display", summary="Record the display form of a turn"
)
async def display_turn(
    session: str,
    turn: TurnPath,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: DisplayTurnRequest,
) -> CommandResult:
    """Record a display form of a turn.

    No prompt contains it, and the gateway does not render it.
    """
    text = form.text and check_text(form.text, "text")
    reply = form.reply and check_text(form.reply, "reply")
    command = DisplayTurn(turn, text, reply)
    return await handle_command(deps, caller, session, command, form, response, turn)


@router.post("/v1/sessions/{session}/turns/{turn}/feedback", summary="Judge a reply")
async def record_feedback(
    session: str,
    turn: TurnPath,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: FeedbackRequest,
) -> CommandResult:
    """Judge the reply of a turn.

    The last vote of a turn counts for everything that the turn had retrieved, from the next
    retrieval of any session on.
    """
    comment = form.comment and check_text(form.comment, "comment")
    command = GiveFeedback(turn, form.vote, comment)
    return await handle_command(deps, caller, session, command, form, response, turn)


@router.post(
    "/v1/sessions/{session}/turns/{turn}/approvals/{approval}", summary="Approve or refuse a tool"
)
async def decide_approval(
    session: str,
    turn: TurnPath,
    approval: ApprovalPath,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    form: DecideApprovalRequest,
) -> CommandResult:
    """Decide whether a tool may run that waits for it; the turn goes on after the last decision.

    The approvals of a turn stand with its tools in `/history`, those that wait in `open` of the
    session. The same decision again changes nothing, another one is refused.
    """
    reason = check_text(form.reason, "reason")
    command = DecideApproval(turn, approval, form.decision, reason)
    return await handle_command(deps, caller, session, command, form, response, turn)


@router.delete("/v1/sessions/{session}/turns/{turn}/exclusion", summary="Restore a turn")
async def restore_turn(
    session: str, turn: TurnPath, caller: CallerIdentity, deps: Dependencies, response: Response
) -> CommandResult:
    """Include an excluded turn in windows again."""
    return await handle_command(deps, caller, session, RestoreTurn(turn), None, response, turn)


async def handle_command(
    deps: GatewayDependencies,
    caller: RequestIdentity,
    session: str,
    choose: Command | ChooseCommand,
    form: RequestModel | None,
    response: Response,
    turn: int | None = None,
) -> CommandResult:
    """Handle a command under the idempotency key of its request."""
    done = await deps.command_handler.handle(
        caller.tenant, session, choose, caller.author, caller.create_command_key(form)
    )
    sequence = done.memo.sequence if done.memo else done.state.head.sequence
    set_etag(response, sequence)
    return CommandResult(session=session, turn=turn, sequence=sequence)
