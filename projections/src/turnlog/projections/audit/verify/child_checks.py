"""The rules of children, checked on the record: each settles once, with what the child replied.

What a parent records of its own requests is checked in its log alone. That a child was asked what
its parent's model wrote, and replied what the model read, takes both logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import (
    TURN_END_TYPES,
    TurnCompleted,
    TurnQueued,
    TurnSubmitted,
    find_turn_end,
)
from turnlog.projections.audit.record.event_queries import filter_by_type
from turnlog.projections.audit.verify.verification_report import AuditFinding
from turnlog.projections.session.rules.steps.child_rules import find_query

_ChildKey = tuple[str, int]

ToolEvent = TypeVar("ToolEvent", ToolCalled, ToolReturned)


def list_child_sessions(events: Iterable[RecordedEvent]) -> tuple[str, ...]:
    """Return the child sessions that a session requested turns of, in order."""
    requests = (each.event for each in events if isinstance(each.event, ChildRequested))
    return tuple(dict.fromkeys(request.session for request in requests))


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


def compare_child(
    parent: Sequence[RecordedEvent], session: str, child: Iterable[RecordedEvent]
) -> Iterator[AuditFinding]:
    """Yield a finding for each turn of a child that differs from what its parent recorded."""
    asked, replied = _collect_texts(child)
    called = {(e.call, e.id): e for e in _list_events(parent, ToolCalled)}
    returned = {(e.call, e.id): e for e in _list_events(parent, ToolReturned)}
    for recorded in filter_by_type(parent, ChildRequested, ChildSettled):
        event = recorded.event
        if not isinstance(event, ChildRequested | ChildSettled) or event.session != session:
            continue
        key, turn = (event.call, event.id), event.child_turn
        if isinstance(event, ChildRequested):
            query = find_query(called[key].arguments) if key in called else None
            text = asked.get(turn)
            if text is not None and (query is None or compute_digest(query) != text):
                detail = f"turn {turn} of {session} was asked something else than its parent wrote"
                yield _build_finding(recorded, detail)
        elif event.outcome == "answered":
            result = returned[key].result if key in returned else None
            if result not in replied.get(turn, ()):
                detail = f"turn {turn} of {session} did not reply what its parent recorded"
                yield _build_finding(recorded, detail)


def _list_events(events: Iterable[RecordedEvent], kind: type[ToolEvent]) -> Iterator[ToolEvent]:
    return (each.event for each in events if isinstance(each.event, kind))


def _collect_texts(
    child: Iterable[RecordedEvent],
) -> tuple[dict[int, Digest | None], dict[int, list[Digest]]]:
    """Return the digests of what each turn of a child was asked, and of all that it replied."""
    asked: dict[int, Digest | None] = {}
    replied: dict[int, list[Digest]] = {}
    for recorded in child:
        match recorded.event:
            case TurnSubmitted(turn=turn, text=text) | TurnQueued(turn=turn, text=text):
                asked[turn] = text.digest if text else None
            case TurnCompleted(turn=turn, text=text):
                replied.setdefault(turn, []).append(text.digest)
            case ReplyRedacted(turn=turn, replacement=text):
                replied.setdefault(turn, []).append(text.digest)
            case _:
                pass
    return asked, replied


def _build_finding(recorded: RecordedEvent, detail: str) -> AuditFinding:
    return AuditFinding("integrity", "children", recorded.sequence, detail)
