"""Routes for commands on a session and its turns, such as cancel, close, redact and exclude.

The session's rules decide each command, under its idempotency key. The response has the sequence of
the last event, so that the next read can ask for at least that.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.phases import PhaseGraph
from turnlog.projections.blueprint.storable import MAX_INT, checked_text
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    Command,
    EnterPhase,
    ExcludeTurn,
    RecordChoice,
    RedactReply,
    RestoreTurn,
    SendSignal,
    SwitchProfile,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import DisplayTurn, RequestSchemas
from turnlog.services.gateway.caller import AskedBy, Caller
from turnlog.services.gateway.desk import AtDesk, Desk
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.asked import (
    CancelForm,
    ChoiceForm,
    CloseForm,
    DisplayForm,
    ProfileForm,
    RedactForm,
    SignalForm,
)
from turnlog.services.gateway.payloads.closed import Form
from turnlog.services.gateway.payloads.turns import Acted
from turnlog.services.runtime.sessions import Choose

router = APIRouter()

TurnInPath = Annotated[int, Path(ge=1, le=MAX_INT)]
OPERATOR = "operator"
"""The rule name recorded when a person redacts a reply."""


@router.post("/v1/sessions/{session}/cancel", summary="Give up a turn")
async def cancel_turn(
    session: str, asked: AskedBy, desk: AtDesk, response: Response, form: CancelForm | None = None
) -> Acted:
    """Cancel the open turn, or one that is queued."""
    given = form or CancelForm()
    return await act(desk, asked, session, CancelTurn(given.turn), given, response, given.turn)


@router.post("/v1/sessions/{session}/close", summary="Close a session")
async def close_session(
    session: str, asked: AskedBy, desk: AtDesk, response: Response, form: CloseForm | None = None
) -> Acted:
    """Close a session: it accepts no more turns, and stays readable."""
    given = form or CloseForm()
    return await act(desk, asked, session, CloseSession(given.reason), given, response)


@router.post("/v1/sessions/{session}/redactions", summary="Withhold a reply")
async def redact_reply(
    session: str, asked: AskedBy, desk: AtDesk, response: Response, form: RedactForm
) -> Acted:
    """Replace the reply of a turn wherever it is shown."""

    async def choose(state: SessionState | None) -> RedactReply:
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        material = await desk.blueprints.load(state)
        words = form.replacement or material.blueprint.policies.replacement
        return RedactReply(form.turn, form.reason, OPERATOR, words)

    return await act(desk, asked, session, choose, form, response, form.turn)


@router.post("/v1/sessions/{session}/choices", summary="Choose")
async def record_choice(
    session: str, asked: AskedBy, desk: AtDesk, response: Response, form: ChoiceForm
) -> Acted:
    """Record a choice that the session's current phase offers."""

    async def choose(state: SessionState | None) -> RecordChoice:
        return RecordChoice(form.choice, await _phases(desk, state))

    return await act(desk, asked, session, choose, form, response)


@router.post("/v1/sessions/{session}/phase", summary="Send a signal")
async def send_signal(
    session: str, asked: AskedBy, desk: AtDesk, response: Response, form: SignalForm
) -> Acted:
    """End the current phase by a signal it offers, or move to another phase by its name."""

    async def choose(state: SessionState | None) -> SendSignal | EnterPhase:
        phases = await _phases(desk, state)
        if form.to is not None and form.signal is None:
            return EnterPhase(form.to, phases, form.carry and checked_text(form.carry, "carry"))
        if form.signal is not None and form.to is None and form.carry is None:
            return SendSignal(form.signal, phases)
        fix = "send `signal`, or `to` and perhaps `carry`"
        raise Refused("bad-phase", "it is not said how to go on", field="signal", fix=fix)

    return await act(desk, asked, session, choose, form, response)


@router.post("/v1/sessions/{session}/profile", summary="Switch the profile or the model")
async def switch_profile(
    session: str, asked: AskedBy, desk: AtDesk, response: Response, form: ProfileForm
) -> Acted:
    """Switch the session to another profile or model, from its next turn on."""

    async def choose(state: SessionState | None) -> SwitchProfile:
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        if form.profile is None and form.model is None:
            fix = "say `profile`, `model` or both"
            raise Refused("invalid", "it is not said what to switch to", field="profile", fix=fix)
        material = await desk.blueprints.load(state)
        profiles = material.blueprint.profiles
        return SwitchProfile(form.profile or state.profile, profiles, form.model)

    return await act(desk, asked, session, choose, form, response)


async def _phases(desk: Desk, state: SessionState | None) -> PhaseGraph:
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    material = await desk.blueprints.load(state)
    if material.phases is None:
        raise Refused("no-phases", f"blueprint {state.blueprint.name} has no phases")
    return material.phases


@router.post("/v1/sessions/{session}/schemas", summary="Tell of tools in full again")
async def request_schemas(session: str, asked: AskedBy, desk: AtDesk, response: Response) -> Acted:
    """Describe all tools in full in prompts again, from the next call on, for one turn."""
    return await act(desk, asked, session, RequestSchemas(), None, response)


@router.put("/v1/sessions/{session}/turns/{turn}/exclusion", summary="Leave a turn out")
async def exclude_turn(
    session: str, turn: TurnInPath, asked: AskedBy, desk: AtDesk, response: Response
) -> Acted:
    """Exclude a turn from all later windows; the audit log keeps it."""
    return await act(desk, asked, session, ExcludeTurn(turn), None, response, turn)


@router.put("/v1/sessions/{session}/turns/{turn}/display", summary="Keep how a turn is drawn")
async def display_turn(
    session: str,
    turn: TurnInPath,
    asked: AskedBy,
    desk: AtDesk,
    response: Response,
    form: DisplayForm,
) -> Acted:
    """Record a display form of a turn; no prompt contains it, and the gateway does not render it.
    """
    text = form.text and checked_text(form.text, "text")
    reply = form.reply and checked_text(form.reply, "reply")
    command = DisplayTurn(turn, text, reply)
    return await act(desk, asked, session, command, form, response, turn)


@router.delete("/v1/sessions/{session}/turns/{turn}/exclusion", summary="Take a turn in again")
async def restore_turn(
    session: str, turn: TurnInPath, asked: AskedBy, desk: AtDesk, response: Response
) -> Acted:
    """Include an excluded turn in windows again."""
    return await act(desk, asked, session, RestoreTurn(turn), None, response, turn)


async def act(
    desk: Desk,
    asked: Caller,
    session: str,
    choose: Command | Choose,
    form: Form | None,
    response: Response,
    turn: int | None = None,
) -> Acted:
    """Handle a command under the idempotency key of its request."""
    done = await desk.sessions.act(asked.tenant, session, choose, asked.by, asked.command(form))
    sequence = done.memo.sequence if done.memo else done.state.head.sequence
    stamp(response, sequence)
    return Acted(session=session, turn=turn, sequence=sequence)
