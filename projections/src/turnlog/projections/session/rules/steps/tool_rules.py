"""Rules for tools: when one may start, and how every requested one returns exactly once.

The attempt that holds the claim records that a tool is about to run, so a superseded worker cannot
start one. A tool that it started before may still return, as long as the turn is open and no other
outcome is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, assert_never

from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.child_events import ChildOutcome, ChildSettled
from turnlog.events.model.tool_events import (
    SchemasRequested,
    ToolCalled,
    ToolPin,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.registry import KnownEvent
from turnlog.projections.session.commands import ReturnTool, SnapshotTools, StartTool
from turnlog.projections.session.open_turn import (
    OpenTurn,
    PendingChild,
    is_before_first_call,
    list_pending_tools,
)
from turnlog.projections.session.rules.admission_rules import require_open_session
from turnlog.projections.session.rules.attempt_events import (
    NewEvents,
    end_lost_attempt,
    find_claimed_turn,
)
from turnlog.projections.session.rules.steps.approval_rules import is_run_allowed
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.tool_disclosure import find_disclosure_reason
from turnlog.projections.session.tool_uses import (
    ChildTurnRef,
    RequestedTool,
    ReturnedTool,
    StartedTool,
    ToolUse,
)
from turnlog.projections.tools.result_condensation import format_tool_result
from turnlog.projections.tools.tool_list_changes import ListOutcome, compare_tool_lists

LOST_DETAIL: Final = "it was begun, and nobody knows whether it was done"
"""The detail of a tool outcome that is unknown; recorded, so it never changes."""

MALFORMED_DETAIL: Final = "its arguments are no JSON object, or repeat a key"
"""The detail of a refusal because of arguments that cannot be read in one way only."""

UNAPPROVED_DETAIL: Final = "its arguments are not those that a person approved"
"""The detail of a refusal because of a record that does not fit together."""


def snapshot_tools(state: SessionState, command: SnapshotTools) -> NewEvents:
    """Pin the tools of a profile once; record another list, and pin it too if that is allowed."""
    opened, offered = find_claimed_turn(state, command.attempt), command.offered
    if opened is None:
        return ()
    before = state.tools.get(offered.profile)
    if before is None:
        return (offered,)
    is_recorded = state.unpinned_lists.get(offered.profile) == offered.digest
    outcome: ListOutcome = "pinned" if command.pins_changes else "not_pinned"
    changed = compare_tool_lists(before, offered, outcome)
    # A turn in progress keeps its list: a model that planned with a tool still finds it.
    if changed is None or not is_before_first_call(opened):
        return ()
    if outcome == "pinned":
        return (changed, offered)
    return () if is_recorded else (changed,)


def request_schemas(state: SessionState) -> NewEvents:
    """Disclose the tools in full again, unless the next call does so anyway."""
    require_open_session(state)
    if state.profile not in state.tools:
        what = f"no prompt of profile {state.profile} has described tools yet"
        raise Refused("no-tools", what, fix="submit a turn: its prompts describe them in full")
    return () if find_disclosure_reason(state) else (SchemasRequested(profile=state.profile),)


def start_tool(state: SessionState, command: StartTool) -> NewEvents:
    """Record the start of a pending tool; nothing where the claim is lost or the tool returned.

    Nor is there anything for a tool that needs an approval and does not have it for exactly these
    arguments.
    """
    opened = find_claimed_turn(state, command.attempt)
    if opened is None or not _is_pending(opened, command.use):
        return ()
    if not is_run_allowed(state, command.use, command.ran):
        return ()
    return (
        ToolStarted(
            turn=opened.turn,
            call=command.use.call,
            id=command.use.id,
            tool=command.use.tool,
            attempt=command.attempt.attempt,
            ran=command.ran,
        ),
    )


def return_tool(state: SessionState, command: ReturnTool) -> NewEvents:
    """Record the outcome of a tool; the first reported outcome counts."""
    opened = state.open
    if opened is None or opened.turn != command.attempt.turn:
        return ()
    return (command.returned,) if _is_pending(opened, command.use) else ()


def _is_pending(opened: OpenTurn, use: ToolUse) -> bool:
    return any((each.call, each.id) == (use.call, use.id) for each in list_pending_tools(opened))


def refuse_tool_call(called: ToolCalled, reason: str) -> ToolReturned:
    """Return the refusal of a tool call that never ran."""
    return _build_unanswered(called, "refused", reason)


def may_run_tool(use: ToolUse, pin: ToolPin) -> bool:
    """Return whether a requested tool may run, or run again after its worker died.

    A tool that was started and did not return may have taken effect, so only one that its server
    declares idempotent runs again.
    """
    return pin.idempotent or not isinstance(use.progress, StartedTool)


def report_lost_tool(called: ToolCalled) -> ToolReturned:
    """Return the outcome of a tool that was started and must not run again."""
    return _build_unanswered(called, "lost", LOST_DETAIL)


def _build_unanswered(
    called: ToolCalled, outcome: Literal["refused", "lost"], detail: str
) -> ToolReturned:
    text = format_tool_result(called.tool, called.arguments, f"{outcome}: {detail}")
    return ToolReturned(
        turn=called.turn,
        call=called.call,
        id=called.id,
        tool=called.tool,
        outcome=outcome,
        detail=detail,
        text=PlainText(text=text),
    )


def end_open_work(opened: OpenTurn, partial: str = "") -> NewEvents:
    """End the attempt and the pending tools of a turn that is settled from outside."""
    return (*end_lost_attempt(opened, partial), *settle_pending_tools(opened))


def settle_pending_tools(opened: OpenTurn) -> Iterator[KnownEvent]:
    """Return an outcome for every pending tool and child of a turn that is being settled."""
    for use in opened.tools:
        match use.progress:
            case RequestedTool():
                yield _settle_tool(opened, use, "refused")
            case StartedTool():
                yield _settle_tool(opened, use, "lost")
            case ChildTurnRef() as child:
                yield _settle_tool(opened, use, "lost")
                yield build_settlement(opened.turn, PendingChild(use, child), "withdrawn")
            case ReturnedTool():
                pass
            case _ as never:
                assert_never(never)


def _settle_tool(
    opened: OpenTurn, use: ToolUse, outcome: Literal["refused", "lost"]
) -> ToolReturned:
    when = "while it ran" if outcome == "lost" else "before it was run"
    return ToolReturned(
        turn=opened.turn,
        call=use.call,
        id=use.id,
        tool=use.tool,
        outcome=outcome,
        detail=f"the turn was settled {when}",
    )


def build_settlement(
    turn: int, pending: PendingChild, outcome: ChildOutcome, detail: str = ""
) -> ChildSettled:
    """Return the event that settles a child of a turn."""
    use, child = pending.use, pending.child
    return ChildSettled(
        turn=turn,
        call=use.call,
        id=use.id,
        profile=use.tool,
        session=child.session,
        child_turn=child.turn,
        outcome=outcome,
        detail=detail,
    )
