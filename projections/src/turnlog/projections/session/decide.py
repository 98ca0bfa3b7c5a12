"""`decide`: the events that a command leads to in the current state of a session.

The result is the events to append. It is empty where nothing is left to do. A command that a rule
forbids raises `Refused` with the field at fault and the fix. Time is an argument: nothing here
reads a clock, draws a random number or waits.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from turnlog.events.errors import Refused
from turnlog.projections.session import (
    answering,
    apart,
    calling,
    displaying,
    forking,
    memory,
    moving,
    phasing,
    resolving,
    switching,
    tooling,
    working,
)
from turnlog.projections.session.attempts import NewEvents
from turnlog.projections.session.commands import (
    CancelTurn,
    ClaimTurn,
    CloseSession,
    Command,
    CompleteTurn,
    EndAttempt,
    EnterPhase,
    ExcludeTurn,
    FallBack,
    FixContext,
    ForkSession,
    MoveBlueprint,
    OpenSession,
    RecordChoice,
    RedactReply,
    ResolveTurn,
    RestoreTurn,
    SendSignal,
    SnapshotPrompts,
    SubmitTurn,
    SwitchProfile,
)
from turnlog.projections.session.memory_commands import (
    BeginSummary,
    GiveUpSummary,
    PurgeMemory,
    RecordSummary,
    UndoSummary,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import (
    AnswerCall,
    DisplayTurn,
    RequestSchemas,
    ReturnTool,
    SnapshotTools,
    StartTool,
)


def decide(state: SessionState | None, command: Command, at: datetime) -> NewEvents:
    """Return the events that a command leads to; raise `Refused` where a rule forbids it."""
    if isinstance(command, OpenSession):
        return calling.open_session(state, command)
    if isinstance(command, ForkSession):
        return forking.fork_session(state, command)
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    forking.require_complete_fork(state)
    match command:
        case SubmitTurn():
            return calling.submit_turn(state, command)
        case RecordChoice():
            return phasing.record_choice(state, command)
        case SendSignal():
            return phasing.send_signal(state, command)
        case EnterPhase():
            return apart.enter_named_phase(state, command)
        case SwitchProfile():
            return switching.switch_profile(state, command)
        case CancelTurn():
            return calling.cancel_turn(state, command)
        case CloseSession():
            return calling.close_session(state, command)
        case MoveBlueprint():
            return moving.move_blueprint(state, command)
        case ExcludeTurn() | RestoreTurn():
            return calling.set_turn_exclusion(state, command)
        case DisplayTurn():
            return displaying.set_turn_display(state, command)
        case RedactReply():
            return calling.redact_reply(state, command)
        case ClaimTurn():
            return working.claim_turn(state, command, at)
        case ResolveTurn():
            return resolving.resolve_turn(state, command)
        case FallBack():
            return resolving.complete_with_fallback(state, command)
        case SnapshotPrompts():
            return working.snapshot_prompts(state, command)
        case SnapshotTools():
            return tooling.snapshot_tools(state, command)
        case RequestSchemas():
            return tooling.request_schemas(state)
        case StartTool():
            return tooling.start_tool(state, command)
        case ReturnTool():
            return tooling.return_tool(state, command)
        case BeginSummary() | RecordSummary() | GiveUpSummary() | UndoSummary() | PurgeMemory():
            return memory.decide_memory(state, command)
        case AnswerCall():
            return answering.answer_call(state, command)
        case FixContext():
            return working.record_context(state, command)
        case CompleteTurn():
            return working.complete_turn(state, command)
        case EndAttempt():
            return working.end_attempt(state, command)
        case _ as never:
            assert_never(never)
