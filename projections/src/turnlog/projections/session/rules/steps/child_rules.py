"""Rules for children: turns of other sessions that a coordinator's turn asks for.

The parent numbers the turns that it asks of a child session, and each number becomes one turn
there, so a request that is carried out again changes nothing. The turn of a request that was
withdrawn before it was submitted is recorded as cancelled, so that it cannot be submitted later.
Nobody but the parent submits turns to a child.

No attempt begins while children are pending. Each settles once: with what its turn ended with, or
because the parent's own turn is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, assert_never

from turnlog.events.content import PlainText, compute_digest, encode_canonical
from turnlog.events.errors import Refused
from turnlog.events.model.child_events import ChildEnded, ChildOutcome, ChildRequested
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCancelled, TurnQueued, TurnSubmitted
from turnlog.events.registry import KnownEvent
from turnlog.projections.blueprint.bounded_json import (
    parse_recorded_arguments,
    parse_tool_arguments,
)
from turnlog.projections.blueprint.schema.call_specs import QUERY_ARGUMENT
from turnlog.projections.blueprint.schema.policy_specs import ChildPolicy
from turnlog.projections.session.child_commands import (
    ChildCommand,
    SettleChild,
    SubmitChildTurn,
    WithdrawChildTurn,
)
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.session.open_turn import (
    CutReply,
    OpenTurn,
    PendingChild,
    list_pending_children,
    list_undecided_tools,
)
from turnlog.projections.session.rules.attempt_events import NewEvents, release_next_turn
from turnlog.projections.session.rules.phase_rules import PHASE_LEFT
from turnlog.projections.session.rules.steps.outcome_rules import cancel_open_turn, fail_open_turn
from turnlog.projections.session.rules.steps.tool_rules import (
    MALFORMED_DETAIL,
    build_settlement,
    refuse_tool_call,
    settle_pending_tools,
)
from turnlog.projections.session.state import SessionState, SettledTurnRef
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.tool_uses import ChildTurnRef

NO_QUERY_DETAIL: Final = f"its arguments have no text `{QUERY_ARGUMENT}`"
"""The refusal of a child without a query; the model reads it, so it never changes."""

PARENT_SIGNAL: Final = "parent"
"""Signal of a phase that a child enters because its parent is in it."""

CANCELLING_OUTCOMES: Final = frozenset[ChildOutcome]({"timed-out", "withdrawn"})
"""Outcomes after which the child's turn is to be cancelled."""


def derive_child_session(state: SessionState, profile: str) -> str:
    """Return the id of the child session of a profile.

    It is the same for each turn of the session, until the session moves to another blueprint
    version: a child is pinned to what its parent is pinned to.
    """
    identity = encode_canonical([state.session, profile, state.blueprint.digest])
    return f"child-{compute_digest(identity).removeprefix('sha256:')[:40]}"


def find_query(arguments: str) -> str | None:
    """Return the query in the arguments of a child's call, or None."""
    parsed = parse_recorded_arguments(arguments)
    query = parsed.get(QUERY_ARGUMENT) if parsed else None
    return query if isinstance(query, str) and query.strip() else None


def request_children(
    state: SessionState, answer: Iterable[KnownEvent], children: frozenset[str]
) -> Iterator[ChildRequested | ToolReturned]:
    """Yield a request for each child that an answer calls, and a refusal where it asks nothing."""
    events = tuple(answer)
    refused = {each.id for each in events if isinstance(each, ToolReturned)}
    asked = dict(state.children)
    for called in events:
        if not isinstance(called, ToolCalled) or called.id in refused:
            continue
        if called.tool not in children:
            continue
        if find_query(called.arguments) is None:
            yield refuse_tool_call(called, NO_QUERY_DETAIL)
            continue
        if parse_tool_arguments(called.arguments) is None:
            yield refuse_tool_call(called, MALFORMED_DETAIL)
            continue
        session = derive_child_session(state, called.tool)
        asked[session] = asked.get(session, 0) + 1
        yield ChildRequested(
            turn=called.turn,
            call=called.call,
            id=called.id,
            profile=called.tool,
            session=session,
            child_turn=asked[session],
        )


def require_no_parent(state: SessionState) -> None:
    """Refuse a command that only the parent of a child session may cause."""
    if state.is_child and state.origin:
        detail = f"session {state.origin.session} opened this one and submits its turns"
        raise Refused(
            "child-session", detail, field="session", fix="use that session, or fork this one"
        )


def report_child_ends(state: SessionState, turns: Iterable[int]) -> NewEvents:
    """Return the events of turns that a person ended; empty unless this is a child session."""
    if not state.is_child or state.origin is None:
        return ()
    return tuple(ChildEnded(turn=turn, parent=state.origin.session) for turn in turns)


def decide_child(state: SessionState, command: ChildCommand) -> NewEvents:
    """Return the events of a command between a parent and a child session."""
    match command:
        case SubmitChildTurn():
            return submit_child_turn(state, command)
        case WithdrawChildTurn():
            return withdraw_child_turn(state, command)
        case SettleChild():
            return settle_child(state, command)
        case _ as never:
            assert_never(never)


def submit_child_turn(state: SessionState, command: SubmitChildTurn) -> NewEvents:
    """Submit a requested turn, in the parent's phase; nothing if it was submitted before.

    Requests before it that were never submitted are over, since a parent submits them in order.
    """
    if state.closed or state.submitted >= command.turn:
        return ()
    left = tuple(_record_withdrawn_turns(state, command.turn - 1))
    moved = tuple(_follow_parent(state, command))
    fields = {
        "turn": command.turn,
        "text": PlainText(text=command.text),
        "meta": command.meta,
        "user": command.user,
        "overrides": command.overrides,
        "parent_inputs": command.parent_inputs,
        "parts": command.parts,
    }
    kind = TurnSubmitted if state.open is None or moved else TurnQueued
    return (*left, *moved, kind.model_validate(fields))


def _follow_parent(state: SessionState, command: SubmitChildTurn) -> Iterator[KnownEvent]:
    """Enter the parent's phase, so that the child sees of its own turns what the parent may see.

    A turn that is still open belongs to a turn of the parent that is over, as the phase is.
    """
    graph, phase = command.phases, command.phase
    if graph is None or phase is None or phase == state.phase:
        return
    if state.open is not None:
        yield from cancel_open_turn(state.open, PHASE_LEFT)
    yield from (TurnCancelled(turn=each.turn, reason=PHASE_LEFT) for each in state.waiting)
    shared = graph.get_visible_phases(phase)
    yield PhaseEntered(
        phase=phase,
        before=state.phase,
        signal=PARENT_SIGNAL,
        shared=tuple(sorted(shared or ())),
        hidden=() if shared is None else tuple(p for p in state.visited if p not in shared),
    )


def withdraw_child_turn(state: SessionState, command: WithdrawChildTurn) -> NewEvents:
    """Cancel a turn that the parent no longer waits for; nothing where it is settled."""
    turn = command.turn
    if state.closed:
        return ()
    if state.submitted < turn:
        return tuple(_record_withdrawn_turns(state, turn))
    cancelled = TurnCancelled(turn=turn, reason="cancelled")
    if any(waiting.turn == turn for waiting in state.waiting):
        return (cancelled,)
    if state.open is None or state.open.turn != turn:
        return ()
    return (*cancel_open_turn(state.open, "cancelled"), *release_next_turn(state))


def _record_withdrawn_turns(state: SessionState, upto: int) -> Iterator[KnownEvent]:
    """Record each turn that was not submitted as cancelled; none of them has a text."""
    kind = TurnQueued if state.open else TurnSubmitted
    for turn in range(state.submitted + 1, upto + 1):
        yield kind(turn=turn)
        yield TurnCancelled(turn=turn, reason="cancelled")


def find_pending_child(opened: OpenTurn | None, session: str, turn: int) -> PendingChild | None:
    """Return the tool call that waits for a child's turn, or None."""
    for pending in list_pending_children(opened):
        if (pending.child.session, pending.child.turn) == (session, turn):
            return pending
    return None


def settle_child(state: SessionState, command: SettleChild) -> NewEvents:
    """Record the outcome of a child's turn, once; by policy, the parent's turn fails with it."""
    opened = state.open
    pending = find_pending_child(opened, command.session, command.child_turn)
    if opened is None or pending is None:
        return ()
    settlement = build_settlement(opened.turn, pending, command.outcome, command.detail)
    settled = (command.returned, settlement)
    if not command.fails_turn:
        return settled
    others = tuple(each for each in opened.tools if each != pending.use)
    detail = f"child {pending.use.tool} gave no reply: {command.detail}"
    rest = settle_pending_tools(replace(opened, tools=others))
    failed = fail_open_turn(
        opened=opened,
        settled=(*settled, *rest),
        code="child-failed",
        detail=detail,
        cut=CutReply(command.failed_policy),
    )
    return (*failed, *release_next_turn(state))


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child's turn ended for its parent."""

    outcome: ChildOutcome
    detail: str = ""
    reply: TextRef | None = None
    """Reference to the reply, as windows of the child show it."""


def find_child_end(
    child: SessionState, asked: ChildTurnRef, policy: ChildPolicy, at: datetime
) -> ChildEnd | None:
    """Return how a child's turn ended for its parent, or None while the parent waits."""
    if child.submitted < asked.turn:
        return ChildEnd("failed", "its session is closed") if child.closed else None
    settled = find_settled_turn(child, asked.turn)
    if isinstance(settled, SettledTurnRef) and settled.status == "completed":
        return ChildEnd("answered", reply=settled.reply)
    if settled is not None:
        is_cancelled = settled.status == "cancelled"
        return ChildEnd("cancelled" if is_cancelled else "failed", f"its turn was {settled.status}")
    opened = child.open if child.open and child.open.turn == asked.turn else None
    if tools := ", ".join(each.use.tool for each in list_undecided_tools(opened)):
        detail = f"it waits for a person's approval of {tools}"
        return ChildEnd("waiting", detail) if policy.approval == "report" else None
    if compute_child_wait(asked, opened, policy, at) > 0:
        return None
    return ChildEnd("timed-out", f"no reply in {policy.seconds:g} s")


def compute_child_wait(
    asked: ChildTurnRef, opened: OpenTurn | None, policy: ChildPolicy, at: datetime
) -> float:
    """Return the seconds that a parent still waits for a child.

    They count from the request, or from when the child's own turn last went on after waiting.
    """
    since = max(asked.at, opened.released_at) if opened else asked.at
    return policy.seconds - (at - datetime.fromisoformat(since)).total_seconds()
