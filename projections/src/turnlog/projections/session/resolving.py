from __future__ import annotations

from turnlog.events.content import PlainText
from turnlog.events.reference import TurnResolved
from turnlog.events.turn import ReplyFallback, TurnCompleted
from turnlog.projections.session.attempts import NewEvents, build_attempt_ended, find_claimed_turn, release_next_turn
from turnlog.projections.session.commands import EndAttempt, FallBack, ResolveTurn
from turnlog.projections.session.references import record_reference
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.tooling import settle_pending_tools


def resolve_turn(state: SessionState, command: ResolveTurn) -> NewEvents:
    """Record the resolver's answer, once for each turn and before any model call."""
    opened = find_claimed_turn(state, command.attempt)
    if opened is None or opened.resolved is not None:
        return ()
    return (
        TurnResolved(
            turn=opened.turn,
            resolver=command.resolver,
            intent=command.intent,
            entity=command.entity,
            identifiers=command.references.identifiers,
            used=command.references.is_inherited,
            reason=command.references.reason,
            results=PlainText(text=command.results),
            meta=command.meta,
            answer=PlainText(text=command.answer),
        ),
    )


def complete_with_fallback(state: SessionState, command: FallBack) -> NewEvents:
    """Complete a turn with the resolver's answer instead of a model's, and mark it as a fallback.

    For a superseded worker only the end of its attempt is recorded.
    """
    ended = EndAttempt(
        command.attempt,
        "failed" if command.fault else "unasked",
        command.spent,
        "release",
        command.fault,
        command.partial,
    )
    event = build_attempt_ended(command.attempt, ended)
    if find_claimed_turn(state, command.attempt) is None:
        return (event,)
    replied = TurnCompleted(
        turn=command.attempt.turn,
        text=PlainText(text=command.text),
        fallback=ReplyFallback(code=command.code, detail=command.detail),
    )
    # An out-of-scope question has no answer text and leaves the last reference unchanged.
    about = record_reference(state, command.references) if command.text else ()
    left = settle_pending_tools(state.open) if state.open else ()
    return (event, *left, replied, *about, *release_next_turn(state))
