"""`decide`: the events that a command leads to in the current state of a session.

The result is the events to append. It is empty where nothing is left to do. A command that a rule
forbids raises `Refused` with the field at fault and the fix. Time is an argument: nothing here
reads a clock, draws a random number or waits.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from turnlog.events.errors import Refused
from turnlog.projections.session.commands import (
    AnswerCall,
    BeginSummary,
    CancelTurn,
    ClaimTurn,
    CloseSession,
    Command,
    CompleteTurn,
    DisplayTurn,
    EndAttempt,
    EnterPhase,
    ExcludeTurn,
    FallBack,
    FixContext,
    ForkSession,
    GiveUpSummary,
    MoveBlueprint,
    OpenSession,
    PurgeMemory,
    RecordChoice,
    RecordSummary,
    RedactReply,
    RequestSchemas,
    ResolveTurn,
    RestoreTurn,
    ReturnTool,
    SendSignal,
    SnapshotPrompts,
    SnapshotTools,
    StartTool,
    SubmitTurn,
    SwitchProfile,
    UndoSummary,
)
from turnlog.projections.session.rules import (
    client_rules,
    fork_rules,
    phase_rules,
    summary_rules,
    tool_rules,
    upgrade_rules,
    worker_rules,
)
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.state import SessionState


def decide(state: SessionState | None, command: Command, at: datetime) -> NewEvents:
    """Return the events that a command leads to; raise `Refused` where a rule forbids it."""
    if isinstance(command, OpenSession):
        return client_rules.open_session(state, command)
    if isinstance(command, ForkSession):
        return fork_rules.fork_session(state, command)
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    fork_rules.require_complete_fork(state)
    match command:
        case SubmitTurn():
            return client_rules.submit_turn(state, command)
        case RecordChoice():
            return phase_rules.record_choice(state, command)
        case SendSignal():
            return phase_rules.send_signal(state, command)
        case EnterPhase():
            return phase_rules.enter_named_phase(state, command)
        case SwitchProfile():
            return phase_rules.switch_profile(state, command)
        case CancelTurn():
            return client_rules.cancel_turn(state, command)
        case CloseSession():
            return client_rules.close_session(state, command)
        case MoveBlueprint():
            return upgrade_rules.move_blueprint(state, command)
        case ExcludeTurn() | RestoreTurn():
            return client_rules.set_turn_exclusion(state, command)
        case DisplayTurn():
            return client_rules.set_turn_display(state, command)
        case RedactReply():
            return client_rules.redact_reply(state, command)
        case ClaimTurn():
            return worker_rules.claim_turn(state, command, at)
        case ResolveTurn():
            return worker_rules.resolve_turn(state, command)
        case FallBack():
            return worker_rules.complete_with_fallback(state, command)
        case SnapshotPrompts():
            return worker_rules.snapshot_prompts(state, command)
        case SnapshotTools():
            return tool_rules.snapshot_tools(state, command)
        case RequestSchemas():
            return tool_rules.request_schemas(state)
        case StartTool():
            return tool_rules.start_tool(state, command)
        case ReturnTool():
            return tool_rules.return_tool(state, command)
        case BeginSummary() | RecordSummary() | GiveUpSummary() | UndoSummary() | PurgeMemory():
            return summary_rules.decide_memory(state, command)
        case AnswerCall():
            return worker_rules.answer_call(state, command)
        case FixContext():
            return worker_rules.record_context(state, command)
        case CompleteTurn():
            return worker_rules.complete_turn(state, command)
        case EndAttempt():
            return worker_rules.end_attempt(state, command)
        case _ as never:
            assert_never(never)
