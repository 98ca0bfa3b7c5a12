"""The rules of children, checked on the record: each settles once, with what the child replied.

What a parent records of its own requests is checked in its log alone. That a child was asked what
its parent's model wrote, and replied what the model read, takes both logs. Each of them is read
once: `collect_child_claims` takes from the parent's, and `collect_child_turns` from the child's,
what the comparison needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from turnlog.events.content import KEYED_DIGEST, Digest, compute_digest, is_keyed
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.child_events import (
    ChildOutcome,
    ChildRequested,
    ChildSettled,
    ParentInput,
)
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import (
    TURN_END_TYPES,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnSubmitted,
    find_turn_end,
)
from turnlog.projections.audit.record.erasure_reach import is_closed
from turnlog.projections.audit.record.event_queries import filter_by_type
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.verification_report import ChildClaim, ChildTurn
from turnlog.projections.session.rules.steps.child_rules import find_query

_ChildKey = tuple[str, int]

ListedEvent = TypeVar("ListedEvent", ToolCalled, ToolReturned, ChildRequested)

UNANSWERED_OUTCOMES: Final = frozenset[ChildOutcome | None]({"failed", "cancelled"})
"""Outcomes that the child's turn had itself, without a reply."""


def check_children(events: Iterable[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each child's turn that is not requested once and settled once."""
    pending: dict[_ChildKey, tuple[int, RecordedEvent]] = {}
    asked: dict[str, int] = {}
    over: set[int] = set()
    for recorded in filter_by_type(events, ChildRequested, ChildSettled, *TURN_END_TYPES):
        match recorded.event:
            case ChildRequested(session=session, child_turn=child_turn, turn=turn):
                if child_turn != asked.get(session, 0) + 1:
                    detail = f"turn {child_turn} of {session} was requested out of order"
                    yield _build_finding(recorded, detail)
                asked[session] = child_turn
                pending[session, child_turn] = turn, recorded
            case ChildSettled(session=session, child_turn=child_turn):
                if pending.pop((session, child_turn), None) is None:
                    detail = f"turn {child_turn} of {session} was settled, and nobody waited for it"
                    yield _build_finding(recorded, detail)
            case event:
                if end := find_turn_end(event):
                    over.add(end.turn)
    for (session, child_turn), (turn, recorded) in pending.items():
        if turn in over:
            detail = f"turn {child_turn} of {session} was never settled, and turn {turn} is over"
            yield _build_finding(recorded, detail)


def check_parent_inputs(events: Sequence[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each reference to an input that is not one of the session's parent.

    That the parent has the input takes both logs. A fork of a child has the references of its
    original.
    """
    opened = events[0].event if events else None
    origin = opened.origin if isinstance(opened, SessionOpened) else None
    if origin is not None and origin.kind != "parent":
        return
    for recorded in filter_by_type(events, TurnSubmitted, TurnQueued):
        for handed in _list_references(recorded):
            if origin is None or handed.session != origin.session:
                detail = f"it refers to input {handed.name} of {handed.session}, not its parent"
                yield _build_finding(recorded, detail)


def _list_references(recorded: RecordedEvent) -> tuple[ParentInput, ...]:
    match recorded.event:
        case TurnSubmitted(parent_inputs=handed) | TurnQueued(parent_inputs=handed):
            return handed
        case _:
            return ()


def _collect_handed_inputs(
    events: Sequence[RecordedEvent],
) -> Mapping[int, tuple[ParentInput, ...]]:
    """Return how children refer to the texts among the inputs, for each turn that asked any."""
    asking = {each.turn for each in _list_events(events, ChildRequested)}
    found: dict[int, tuple[ParentInput, ...]] = {}
    for recorded in filter_by_type(events, TurnSubmitted, TurnQueued):
        match recorded.event:
            case TurnSubmitted(inputs=inputs, turn=turn) | TurnQueued(inputs=inputs, turn=turn) if (
                turn in asking
            ):
                texts = [(name, each) for name, each in inputs.items() if isinstance(each, str)]
                digests = {name: compute_digest(text) for name, text in texts}
                digests |= {each.name: each.digest for each in _list_references(recorded)}
                found[turn] = tuple(
                    ParentInput(
                        name=name,
                        session=recorded.session,
                        turn=turn,
                        sequence=recorded.sequence,
                        digest=digest,
                    )
                    for name, digest in digests.items()
                )
            case _:
                pass
    return found


def collect_child_claims(events: Sequence[RecordedEvent]) -> tuple[ChildClaim, ...]:
    """Return what a session recorded of the turns of its children, in order.

    Where it was erased what a child was asked, or replied, there is nothing to compare.
    """
    erased_queries = _list_erased(events, ToolCalled)
    erased_replies = _list_erased(events, ToolReturned)
    called = {(e.call, e.id): e for e in _list_events(events, ToolCalled)}
    returned = {(e.call, e.id): e for e in _list_events(events, ToolReturned)}
    handed = _collect_handed_inputs(events)
    claims: list[ChildClaim] = []
    for recorded in filter_by_type(events, ChildRequested, ChildSettled):
        match recorded.event:
            case ChildRequested(call=call, id=id) if (call, id) in erased_queries:
                pass
            case ChildSettled(call=call, id=id) if (call, id) in erased_replies:
                pass
            case ChildRequested(call=call, id=id, session=session, child_turn=turn, turn=by):
                query = find_query(called[call, id].arguments) if (call, id) in called else None
                text = compute_digest(query) if query is not None else None
                claims.append(
                    ChildClaim(
                        sequence=recorded.sequence,
                        session=session,
                        turn=turn,
                        outcome=None,
                        text=text,
                        inputs=handed.get(by, ()),
                    )
                )
            case ChildSettled(call=call, id=id, session=session, child_turn=turn, outcome=outcome):
                text = returned[call, id].result if (call, id) in returned else None
                claims.append(
                    ChildClaim(
                        sequence=recorded.sequence,
                        session=session,
                        turn=turn,
                        outcome=outcome,
                        text=text,
                    )
                )
            case _:
                pass
    return tuple(claims)


def collect_child_turns(events: Sequence[RecordedEvent]) -> tuple[ChildTurn, ...]:
    """Return the turns of a child session as its parent's record is compared with them.

    There are none of a session that no parent opened.
    """
    opened = events[0].event if events else None
    if not isinstance(opened, SessionOpened) or opened.origin is None:
        return ()
    if opened.origin.kind != "parent":
        return ()
    asked: dict[int, Digest | None] = {}
    inputs: dict[int, tuple[ParentInput, ...]] = {}
    replied: dict[int, tuple[Digest, ...]] = {}
    cut: set[int] = set()
    for recorded in events:
        match recorded.event:
            case TurnSubmitted(turn=turn, text=text) | TurnQueued(turn=turn, text=text):
                is_kept = not is_closed(recorded)
                asked[turn] = text.digest if text and is_kept else None
                inputs[turn] = _list_references(recorded) if is_kept else ()
            case TurnCompleted(turn=turn, text=text):
                replied[turn] = (*replied.get(turn, ()), text.digest)
            case TurnFailed(turn=turn) | TurnCancelled(turn=turn):
                cut.add(turn)
            case ReplyRedacted(turn=turn, replacement=text) if turn not in cut:
                replied[turn] = (*replied.get(turn, ()), text.digest)
            case _:
                pass
    turns = sorted({*asked, *replied})
    return tuple(
        ChildTurn(turn, asked.get(turn), replied.get(turn, ()), inputs.get(turn, ()))
        for turn in turns
    )


def compare_child(
    claims: Iterable[ChildClaim], session: str, turns: Iterable[ChildTurn]
) -> Iterator[AuditFinding]:
    """Yield a finding for each turn of a child that differs from what its parent recorded.

    Without turns, the child session is not there.
    """
    by_number = {each.turn: each for each in turns}
    for claim in claims:
        if claim.session == session and (what := _find_difference(claim, by_number)):
            detail = f"turn {claim.turn} of {session} {what}"
            yield AuditFinding("integrity", "children", claim.sequence, detail)


def find_lost_parents(
    turns: Iterable[ChildTurn], is_known: Callable[[str], bool]
) -> Iterator[AuditFinding]:
    """Yield a finding for the first input whose session is gone from the log."""
    for turn in turns:
        for handed in turn.inputs:
            if not is_known(handed.session):
                what = f"turn {turn.turn} refers to input {handed.name} of {handed.session}"
                yield AuditFinding("completeness", "children", 1, f"{what}, which is gone")
                return


def _find_difference(claim: ChildClaim, turns: Mapping[int, ChildTurn]) -> str:
    """Return in what a turn of a child differs from what its parent recorded, or an empty text."""
    turn = turns.get(claim.turn)
    if claim.outcome is None:
        return _find_request_difference(claim, turn) if turn is not None else ""
    if claim.outcome == "answered" and (turn is None or not _is_reply(claim.text, turn)):
        return "did not reply what its parent recorded"
    if claim.outcome in UNANSWERED_OUTCOMES and turn is not None and turn.replied:
        return f"replied, and its parent recorded that it was {claim.outcome}"
    return ""


def _is_reply(digest: Digest | None, turn: ChildTurn) -> bool:
    """Return whether a turn replied what its parent recorded by this digest.

    A keyed one is that of a sealed text, with which no other digest can be compared.
    """
    if digest and is_keyed(digest):
        return bool(turn.replied)
    return digest in turn.replied


def _find_request_difference(claim: ChildClaim, turn: ChildTurn) -> str:
    if turn.asked is not None and turn.asked != claim.text:
        return "was asked something else than its parent wrote"
    # A fork of the parent has the same events, under the name of another session.
    known = {_identify_input(each) for each in claim.inputs}
    known |= {_identify_sealed_input(each) for each in claim.inputs}
    other = next((each for each in turn.inputs if _identify_input(each) not in known), None)
    if other is None:
        return ""
    return f"refers to input {other.name} of its parent's turn {other.turn}, not as it is"


def _identify_input(handed: ParentInput) -> tuple[str, int, int, Digest]:
    if is_keyed(handed.digest):
        return _identify_sealed_input(handed)
    return handed.name, handed.turn, handed.sequence, handed.digest


def _identify_sealed_input(handed: ParentInput) -> tuple[str, int, int, Digest]:
    """Return what identifies an input whose digest is keyed, and compares with none."""
    return handed.name, handed.turn, handed.sequence, KEYED_DIGEST


def _list_events(events: Iterable[RecordedEvent], kind: type[ListedEvent]) -> Iterator[ListedEvent]:
    return (each.event for each in events if isinstance(each.event, kind))


def _list_erased(
    events: Iterable[RecordedEvent], kind: type[ToolCalled | ToolReturned]
) -> set[tuple[str, str]]:
    """Return the calls and ids of the events of a type whose words were erased."""
    return {
        (each.event.call, each.event.id)
        for each in events
        if isinstance(each.event, kind) and is_closed(each)
    }


def _build_finding(recorded: RecordedEvent, detail: str) -> AuditFinding:
    return AuditFinding("integrity", "children", recorded.sequence, detail)
