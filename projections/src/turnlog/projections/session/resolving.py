from __future__ import annotations

from turnlog.events.content import Plain
from turnlog.events.reference import TurnResolved
from turnlog.events.turn import Fallback, TurnCompleted
from turnlog.projections.session.attempts import Events, attempt_ended, current, released_next
from turnlog.projections.session.commands import EndAttempt, FallBack, ResolveTurn
from turnlog.projections.session.references import updated
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.tooling import left_behind


def resolve(state: SessionState, command: ResolveTurn) -> Events:
    """Record the resolver's answer, once for each turn and before any model call."""
    opened = current(state, command.attempt)
    if opened is None or opened.resolved is not None:
        return ()
    return (
        TurnResolved(
            turn=opened.turn,
            resolver=command.resolver,
            intent=command.intent,
            entity=command.entity,
            identifiers=command.meant.identifiers,
            used=command.meant.used,
            reason=command.meant.reason,
            results=Plain(text=command.results),
            meta=command.meta,
            answer=Plain(text=command.answer),
        ),
    )


def fall_back(state: SessionState, command: FallBack) -> Events:
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
    event = attempt_ended(command.attempt, ended)
    if current(state, command.attempt) is None:
        return (event,)
    replied = TurnCompleted(
        turn=command.attempt.turn,
        text=Plain(text=command.text),
        fallback=Fallback(code=command.code, detail=command.detail),
    )
    # An out-of-scope question has no answer text and leaves the last reference unchanged.
    about = updated(state, command.references) if command.text else ()
    left = left_behind(state.open) if state.open else ()
    return (event, *left, replied, *about, *released_next(state))
