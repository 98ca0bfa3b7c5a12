"""What the event that ends a turn leaves of the turn's tools for later windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.turn_events import TurnCompleted, TurnEndEvent
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef, build_literal_text_ref


@dataclass(frozen=True, slots=True)
class LeftOutcomes:
    """The tools of a turn that ran, by reference."""

    outcomes: TextRef | None = None
    """Each of them with its outcome; None if none ran."""
    results: tuple[TextRef, ...] = ()
    """Their results, as far as windows may include them."""
    is_shown: bool = False
    """Whether windows include them now, or only if the reply is withheld later."""


NOTHING_LEFT: Final = LeftOutcomes()


def find_left_outcomes(
    state: SessionState, recorded: RecordedEvent, event: TurnEndEvent
) -> LeftOutcomes:
    """Return what an event leaves of the tools of the turn that it ends."""
    opened = state.open
    if not event.outcomes or opened is None or opened.turn != event.turn:
        return NOTHING_LEFT
    results = {
        use.result.summary.sequence: use.result.summary for use in opened.tools if use.result
    }
    return LeftOutcomes(
        build_literal_text_ref(recorded, "outcomes", event.outcomes),
        # The event's order, that of the model's requests: tools may return in another one.
        tuple([results[each] for each in event.kept_results if each in results]),
        has_no_model_reply(event),
    )


def has_no_model_reply(event: TurnEndEvent) -> bool:
    """Return whether a turn ended without a reply of a model that mentions what its tools did."""
    return not isinstance(event, TurnCompleted) or event.fallback is not None
