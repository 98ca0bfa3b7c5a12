"""Whether a turn with a quota waits for a person or for children, and whether it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from turnlog.events.model.child_events import ChildSettled
from turnlog.events.model.tool_events import ApprovalDecided, ToolReturned
from turnlog.events.registry import KnownEvent
from turnlog.projections.blueprint.schema.policy_specs import CutTurnPolicy
from turnlog.projections.session.open_turn import (
    ApprovalWait,
    ChildWait,
    CutReply,
    EndedAttempt,
    OpenTurn,
    RunningAttempt,
    UnclaimedTurn,
    find_situation,
)
from turnlog.projections.session.rules.attempt_events import NewEvents, release_next_turn
from turnlog.projections.session.rules.steps.outcome_rules import fail_open_turn
from turnlog.projections.session.rules.steps.tool_rules import settle_pending_tools
from turnlog.projections.session.state import SessionState

QUOTA_FAILURE: Final = "quota-exceeded"
"""The code of a turn that may not go on, the same as that of a turn that is refused."""


def is_waiting(opened: OpenTurn | None) -> bool:
    """Return whether a turn waits for a person or for its children, so that nothing of it runs."""
    return opened is not None and isinstance(find_situation(opened), ApprovalWait | ChildWait)


def is_asked_of_person(opened: OpenTurn) -> bool:
    """Return whether a turn waits for a person."""
    return isinstance(find_situation(opened), ApprovalWait)


def ends_wait(opened: OpenTurn | None, events: Sequence[KnownEvent]) -> bool:
    """Return whether a turn that waits goes on after these events."""
    if opened is None:
        return False
    match find_situation(opened):
        case ApprovalWait(tools=tools):
            waits = {(each.use.call, each.use.id) for each in tools}
            ended = [each for each in events if isinstance(each, ApprovalDecided)]
            return waits <= {(each.call, each.id) for each in ended}
        case ChildWait(children=children):
            waits = {(each.use.call, each.use.id) for each in children}
            settled = [each for each in events if isinstance(each, ChildSettled)]
            return waits <= {(each.call, each.id) for each in settled}
        case UnclaimedTurn() | RunningAttempt() | EndedAttempt():
            return False
        case _ as never:
            assert_never(never)


def fail_over_quota(
    state: SessionState, events: NewEvents, detail: str, policy: CutTurnPolicy
) -> NewEvents:
    """Return the decisions among events that let a turn go on, and its failure instead.

    `policy` is what later prompts include of a turn that failed.
    """
    opened = state.open
    if opened is None:
        return events
    decided = tuple(each for each in events if isinstance(each, ApprovalDecided | ToolReturned))
    ended = (*decided, *settle_pending_tools(opened))
    failed = fail_open_turn(
        opened=opened,
        settled=ended,
        code=QUOTA_FAILURE,
        detail=detail,
        cut=CutReply(policy),
        retryable=False,
    )
    return (*failed, *release_next_turn(state))
