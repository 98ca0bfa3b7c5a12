"""`decide`: the events that a command leads to in the current state of a session.

The result is the events to append. It is empty where nothing is left to do. A command that a rule
forbids raises `Refused` with the field at fault and the fix. Time is an argument: nothing here
reads a clock, draws a random number or waits.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, assert_never

from turnlog.events.errors import Refused
from turnlog.projections.session import commands
from turnlog.projections.session.child_commands import ChildCommand
from turnlog.projections.session.rules import (
    attempt_rules,
    client_rules,
    erasure_rules,
    fork_rules,
    phase_rules,
    upgrade_rules,
)
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.rules.steps import (
    approval_rules,
    child_rules,
    retrieval_rules,
    summary_rules,
    tool_rules,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import EndErasure

UNKNOWN_SESSION: Final = "unknown-session"
"""The code of the refusal for a session that is not there."""


def decide(state: SessionState | None, command: commands.Command, at: datetime) -> NewEvents:
    """Return the events that a command leads to; raise `Refused` where a rule forbids it."""
    if isinstance(command, commands.OpenSession):
        return client_rules.open_session(state, command)
    if isinstance(command, commands.ForkSession):
        return fork_rules.fork_session(state, command)
    if state is None:
        raise refuse_unknown_session()
    fork_rules.require_complete_fork(state)
    if isinstance(command, commands.MemoryCommand):
        return summary_rules.decide_memory(state, command)
    if isinstance(command, commands.ToolCommand):
        return _decide_tools(state, command, at)
    if isinstance(command, ChildCommand):
        return child_rules.decide_child(state, command)
    if isinstance(command, commands.AttemptCommand):
        return _decide_attempts(state, command, at)
    if isinstance(command, _PARENT_COMMANDS):
        child_rules.require_no_parent(state)
    if isinstance(command, commands.PhaseCommand):
        return phase_rules.decide_phase(state, command)
    if isinstance(command, commands.MoveBlueprint):
        return upgrade_rules.move_blueprint(state, command)
    events = client_rules.decide_turn(state, command)
    # Of an erased session no key is left that anything could be sealed under.
    if events and state.erased and not isinstance(command, EndErasure):
        raise erasure_rules.build_already_erased()
    return events


_PARENT_COMMANDS: Final = (
    *(commands.SubmitTurn, commands.RecordChoice, commands.SendSignal, commands.EnterPhase),
    *(commands.SwitchProfile, commands.MoveBlueprint),
)
"""What a child session takes from its parent only: turns, phases, profile and version."""


def _decide_attempts(
    state: SessionState, command: commands.AttemptCommand, at: datetime
) -> NewEvents:
    match command:
        case commands.ClaimTurn():
            return attempt_rules.claim_turn(state, command, at)
        case commands.FailBrokenTurn():
            return attempt_rules.fail_broken_turn(state, command, at)
        case commands.ResolveTurn():
            return attempt_rules.resolve_turn(state, command)
        case commands.FallBack():
            return attempt_rules.complete_with_fallback(state, command)
        case commands.SnapshotPrompts():
            return attempt_rules.snapshot_prompts(state, command)
        case commands.AnswerCall():
            return attempt_rules.answer_call(state, command, at)
        case commands.RequestQueries():
            return retrieval_rules.request_queries(state, command)
        case commands.GiveUpQueries():
            return retrieval_rules.fail_queries(state, command)
        case commands.RecordRetrieval():
            return retrieval_rules.record_retrieval(state, command)
        case commands.FixContext():
            return attempt_rules.record_context(state, command)
        case commands.CompleteTurn():
            return attempt_rules.complete_turn(state, command)
        case commands.EndAttempt():
            return attempt_rules.end_attempt(state, command)
        case _ as never:
            assert_never(never)


def _decide_tools(state: SessionState, command: commands.ToolCommand, at: datetime) -> NewEvents:
    match command:
        case commands.SnapshotTools():
            return tool_rules.snapshot_tools(state, command)
        case commands.RequestSchemas():
            return tool_rules.request_schemas(state)
        case commands.DecideApproval():
            return approval_rules.decide_approval(state, command, at)
        case commands.StartTool():
            return tool_rules.start_tool(state, command)
        case commands.ReturnTool():
            return tool_rules.return_tool(state, command)
        case _ as never:
            assert_never(never)


def refuse_unknown_session(detail: str = "there is no such session") -> Refused:
    """Return the refusal of a session that is not on the log, or does not exist for who asks."""
    return Refused(UNKNOWN_SESSION, detail, field="session")
