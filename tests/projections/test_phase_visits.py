"""The turns of a phase visit: each belongs to the phase in which it ended."""

from __future__ import annotations

from turnlog.events.content import PlainText
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted
from turnlog.events.testing import record_events
from turnlog.projections.session_views.phase_visits import list_phase_visits

REDACTED = ReplyRedacted(turn=1, reason="secret", rule="r", replacement=PlainText(text="-"))
SUBMITTED = TurnSubmitted(turn=1, text=PlainText(text="Hello."))


def enter_phase(phase: str) -> PhaseEntered:
    return PhaseEntered(phase=phase)


def test_reply_redacted_later_stays_in_the_phase_of_its_turn() -> None:
    events = record_events(
        enter_phase("first"),
        SUBMITTED,
        TurnCompleted(turn=1, text=PlainText(text="Hi.")),
        enter_phase("second"),
        REDACTED,
    )
    assert [visit.turns for visit in list_phase_visits(events)] == [(1,), ()]


def test_turn_completed_by_a_redaction_belongs_to_the_phase_in_which_it_ends() -> None:
    events = record_events(enter_phase("first"), SUBMITTED, enter_phase("second"), REDACTED)
    assert [visit.turns for visit in list_phase_visits(events)] == [(), (1,)]
