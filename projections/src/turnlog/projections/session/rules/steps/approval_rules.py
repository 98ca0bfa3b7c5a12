"""Rules for approvals: a tool that needs one runs only after a person approved this call of it.

The approvals of an answer are requested in the batch that records it, and no attempt begins with
them: while a person thinks, no worker has the turn. It goes on when all of them are decided, so
that the tools of an answer run in its order. An approval that nobody decided in time is refused by
the claim that comes after its deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, assert_never

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalDecision,
    ApprovalRequested,
    ToolCalled,
    ToolReturned,
)
from turnlog.events.registry import KnownEvent
from turnlog.projections.blueprint.bounded_json import parse_tool_arguments
from turnlog.projections.session.commands import DecideApproval
from turnlog.projections.session.fold.settled_turns import build_unknown_turn
from turnlog.projections.session.open_turn import ApprovalWait, OpenTurn
from turnlog.projections.session.rules.admission_rules import require_open_session
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.tool_uses import (
    DecidedApproval,
    ToolApproval,
    ToolUse,
    UndecidedApproval,
)

OVERDUE_REASON: Final = "nobody approved it in time"
"""The reason of a refusal by the deadline; the model reads it, so it never changes."""


def request_approvals(
    state: SessionState,
    opened: OpenTurn,
    answer: Iterable[KnownEvent],
    deadline: datetime,
) -> Iterator[ApprovalRequested]:
    """Yield a request for each tool call of an answer that needs approval and can run."""
    events = tuple(answer)
    refused = {each.id for each in events if isinstance(each, ToolReturned)}
    before = sum(use.approval is not None for use in opened.tools)
    calls = (each for each in events if isinstance(each, ToolCalled) and each.id not in refused)
    guarded = (each for each in calls if needs_approval(state, each.tool) and _can_run(each))
    for number, called in enumerate(guarded, before + 1):
        yield ApprovalRequested(
            turn=called.turn,
            approval=number,
            call=called.call,
            id=called.id,
            tool=called.tool,
            deadline=format_rfc3339(deadline),
        )


def needs_approval(state: SessionState, tool: str) -> bool:
    """Return whether the session is pinned to a tool that runs after an approval only."""
    pinned = state.tools.get(state.profile)
    pin = pinned.tools.get(tool) if pinned else None
    return pin is not None and pin.approval


def _can_run(called: ToolCalled) -> bool:
    """Return whether a tool would run if it was approved; others need no approval."""
    return parse_tool_arguments(called.arguments) is not None


def is_run_allowed(state: SessionState, use: ToolUse, ran: Digest | None) -> bool:
    """Return whether a tool call needs no approval, or has it for arguments with this digest."""
    match use.approval:
        case None:
            return not needs_approval(state, use.tool)
        case UndecidedApproval():
            return False
        case DecidedApproval(decision=decision, approved=approved):
            return decision == "approve" and approved in {None, ran}
        case _ as never:
            assert_never(never)


def decide_approval(state: SessionState, command: DecideApproval, at: datetime) -> NewEvents:
    """Record a decision; nothing where it was decided so before."""
    require_open_session(state)
    use, approval = _find_approval(state, command)
    check_shown_digest(command, use.asked.digest)
    match approval:
        case DecidedApproval(decision=decision, approved=approved):
            check_decision(command, decision, approved, asked=use.asked.digest)
            return ()
        case UndecidedApproval(deadline=deadline) if is_approval_overdue(approval, at):
            detail = f"approval {approval.number} had to be decided by {deadline}"
            fix = "nothing is left to do: the tool counts as refused"
            raise Refused("approval-overdue", detail, field="approval", fix=fix)
        case UndecidedApproval():
            return (_build_decision(command.turn, use, approval, command),)
        case _ as never:
            assert_never(never)


def check_shown_digest(command: DecideApproval, asked: Digest) -> None:
    """Raise `Refused` where a person was shown other arguments than the model's."""
    if command.shown in {None, asked}:
        return
    detail = f"the arguments shown are {command.shown}, and those of the tool call are {asked}"
    fix = "show the person the arguments of the tool call, and decide again"
    raise Refused("approval-arguments-differ", detail, field="shown", fix=fix)


def check_decision(
    command: DecideApproval,
    decision: ApprovalDecision,
    approved: Digest | None,
    *,
    asked: Digest,
    by_whom: str = "before",
) -> None:
    """Raise `Refused` `approval-decided` for another decision than the one on record.

    An approval of other arguments is another decision.
    """
    is_same = decision == command.decision
    if is_same and approved in {None, _find_approved_digest(command, asked)}:
        return
    word = "approved" if decision == "approve" else "refused"
    others = " with other arguments" if is_same else ""
    detail = f"approval {command.approval} of turn {command.turn} was {word}{others} {by_whom}"
    raise Refused("approval-decided", detail, field="decision", fix="nothing is left to do")


def _find_approval(state: SessionState, command: DecideApproval) -> tuple[ToolUse, ToolApproval]:
    if not 1 <= command.turn <= state.submitted:
        raise build_unknown_turn(command.turn)
    opened = state.open
    if opened is None or opened.turn != command.turn:
        detail = f"turn {command.turn} is not open, so nothing of it waits for an approval"
        raise Refused("turn-not-open", detail, field="turn", fix="nothing is left to do")
    by_number = {use.approval.number: (use, use.approval) for use in opened.tools if use.approval}
    found = by_number.get(command.approval)
    if found is None:
        known = ", ".join(map(str, by_number))
        fix = f"decide one of: {known}" if known else "no tool of this turn needs one"
        detail = f"turn {command.turn} has no approval {command.approval}"
        raise Refused("unknown-approval", detail, field="approval", fix=fix)
    return found


def _find_approved_digest(command: DecideApproval, asked: Digest) -> Digest | None:
    """Return the digest of the arguments that a decision lets run; None if it is a refusal."""
    if command.decision == "refuse":
        return None
    return asked if command.edited is None else compute_digest(command.edited)


def _build_decision(
    turn: int, use: ToolUse, approval: UndecidedApproval, command: DecideApproval | None = None
) -> ApprovalDecided:
    """Return the decision of a command, or without one the refusal by the deadline."""
    return ApprovalDecided(
        turn=turn,
        approval=approval.number,
        call=use.call,
        id=use.id,
        tool=use.tool,
        decision=command.decision if command else "refuse",
        reason=command.reason if command else OVERDUE_REASON,
        cause="person" if command else "deadline",
        shown=command.shown if command else None,
        edited=command.edited if command else None,
        approved=_find_approved_digest(command, use.asked.digest) if command else None,
    )


def is_approval_overdue(approval: UndecidedApproval, at: datetime) -> bool:
    """Return whether the deadline of an approval has passed."""
    return at >= datetime.fromisoformat(approval.deadline)


def compute_approval_wait(wait: ApprovalWait, at: datetime) -> timedelta:
    """Return how long a turn may still wait for its approvals; zero after the last deadline."""
    last = max(datetime.fromisoformat(each.approval.deadline) for each in wait.tools)
    return max(last - at, timedelta())


def refuse_overdue_approvals(turn: int, wait: ApprovalWait) -> NewEvents:
    """Refuse all tools of a turn whose approvals are not decided."""
    return tuple(_build_decision(turn, each.use, each.approval) for each in wait.tools)


def describe_refusal(decided: ApprovalDecided) -> str:
    """Return the message to the model about a refused tool; it is recorded and never changes."""
    if decided.cause == "deadline":
        return OVERDUE_REASON
    return f"a person refused it: {decided.reason}" if decided.reason else "a person refused it"


EDITED_NOTE: Final = "a person edited the arguments; it ran with those above"
"""What the model reads in the result of a tool whose arguments were edited; it never changes."""


def apply_edit(called: ToolCalled, decided: ApprovalDecided | None) -> ToolCalled:
    """Return a tool call with the arguments that a person approved."""
    edited = decided.edited if decided else None
    return called if edited is None else called.model_copy(update={"arguments": edited})
