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
from turnlog.projections.session.attempts import Events
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


def decide(state: SessionState | None, command: Command, at: datetime) -> Events:
    """Return the events that a command leads to; raise `Refused` where a rule forbids it."""
    if isinstance(command, OpenSession):
        return calling.open_session(state, command)
    if isinstance(command, ForkSession):
        return forking.fork_session(state, command)
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    forking.whole(state)
    match command:
        case SubmitTurn():
            return calling.submit(state, command)
        case RecordChoice():
            return phasing.choose(state, command)
        case SendSignal():
            return phasing.signal(state, command)
        case EnterPhase():
            return apart.enter(state, command)
        case SwitchProfile():
            return switching.switch(state, command)
        case CancelTurn():
            return calling.cancel(state, command)
        case CloseSession():
            return calling.close_session(state, command)
        case MoveBlueprint():
            return moving.move(state, command)
        case ExcludeTurn() | RestoreTurn():
            return calling.mark(state, command)
        case DisplayTurn():
            return displaying.display(state, command)
        case RedactReply():
            return calling.redact(state, command)
        case ClaimTurn():
            return working.claim(state, command, at)
        case ResolveTurn():
            return resolving.resolve(state, command)
        case FallBack():
            return resolving.fall_back(state, command)
        case SnapshotPrompts():
            return working.snapshot(state, command)
        case SnapshotTools():
            return tooling.snapshot_tools(state, command)
        case RequestSchemas():
            return tooling.request_schemas(state)
        case StartTool():
            return tooling.start(state, command)
        case ReturnTool():
            return tooling.come_back(state, command)
        case BeginSummary() | RecordSummary() | GiveUpSummary() | UndoSummary() | PurgeMemory():
            return memory.remember(state, command)
        case AnswerCall():
            return answering.answer(state, command)
        case FixContext():
            return working.fix(state, command)
        case CompleteTurn():
            return working.complete(state, command)
        case EndAttempt():
            return working.end(state, command)
        case _ as never:
            assert_never(never)
