"""Turn milestones: the events that made each turn of a session what it is.

A history shows the status of a turn; milestones name the event behind it, so that an explanation
of a missing or changed turn can point to that event. Only events are read, and of a long session
only those that the requested turns need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnCompleted,
    TurnEndEvent,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnRestored,
    TurnRole,
    TurnSubmitted,
)
from turnlog.projections.audit.record.partial_log import MissingEvents, PartialLog
from turnlog.projections.prompt.history.memory_access import list_message_refs
from turnlog.projections.session.fold.settled_turns import has_no_model_reply
from turnlog.projections.session.state import SettledStatus, SettledTurnRef
from turnlog.projections.session.text_refs import (
    MediaRef,
    TextRef,
    build_literal_text_ref,
    build_media_refs,
    build_optional_text_ref,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMilestones:
    """One turn, with the events that determine its state."""

    turn: int
    begun: RecordedEvent
    """The event that submitted or queued the turn."""
    text: TextRef | None
    released: RecordedEvent | None = None
    """The event that opened the turn, if it was queued."""
    settled: RecordedEvent | None = None
    """The event that settled the turn: a reply, a failure, a cancel, or a redaction before any
    reply.
    """
    status: SettledStatus | None = None
    reply: TextRef | None = None
    """Reference to the reply, or to its replacement."""
    redacted: RecordedEvent | None = None
    text_redacted: RecordedEvent | None = None
    """The latest event that withheld its text, or a part of it; `text` is the replacement then."""
    marked: RecordedEvent | None = None
    """The latest event that excluded or restored the turn."""
    role: TurnRole = "user"
    """Whose text it is."""
    outcomes: TextRef | None = None
    """Reference to the outcomes of its tools."""
    shows_outcomes: bool = False
    """Whether windows include them."""
    media: tuple[MediaRef, ...] = ()
    """The pictures, recordings and files beside its text."""
    is_kept: bool = False
    """Whether windows include it although it was cancelled or failed."""

    @property
    def is_excluded(self) -> bool:
        """Whether the turn is excluded from windows."""
        return bool(self.marked and isinstance(self.marked.event, TurnExcluded))

    @property
    def turn_ref(self) -> SettledTurnRef | None:
        """The turn as a window takes it; None while it is open."""
        if self.status is None:
            return None
        redacted = self.redacted is not None
        return SettledTurnRef(
            turn=self.turn,
            status=self.status,
            text=self.text,
            reply=self.reply,
            excluded=self.is_excluded,
            redacted=redacted,
            role=self.role,
            outcomes=self.outcomes,
            shows_outcomes=self.shows_outcomes,
            media=self.media,
            is_kept=self.is_kept,
        )

    @property
    def messages(self) -> tuple[TextRef, ...]:
        """References to the turn's messages, as a window shows them."""
        return list_message_refs(self.turn_ref) if self.turn_ref else ()

    @property
    def is_usable(self) -> bool:
        """Whether a window could include the turn, judged by the turn alone."""
        turn = self.turn_ref
        return bool(turn and turn.is_usable and not turn.excluded and self.messages)

    @property
    def inclusion_event(self) -> RecordedEvent | None:
        """The event since which windows include the turn: its settlement or restoration."""
        return self.marked or self.settled

    @property
    def opening_events(self) -> tuple[RecordedEvent, ...]:
        """The events that made it the turn to answer."""
        return (self.begun, self.released) if self.released else (self.begun,)


@dataclass(frozen=True, slots=True)
class MilestonesByTurn:
    """The milestones of a session's turns.

    All events of a turn come after the one that started it, and turns start in order. A turn whose
    events are not loaded raises `MissingEvents`.
    """

    log: PartialLog
    loaded: Mapping[int, TurnMilestones]
    """Milestones of the turns whose first event is loaded, by number."""
    submitted: int
    """Number of turns in the session."""

    def get(self, turn: int) -> TurnMilestones | None:
        """Return the milestones of a turn, or None if there is no such turn."""
        found = self.loaded.get(turn)
        if found is None:
            if 1 <= turn <= self.submitted and not self.log.is_complete:
                raise self._request_nearest(turn)
        else:
            self._require_settled(found)
        return found

    def iterate_after(self, turn: int) -> Iterator[TurnMilestones]:
        """Yield the milestones of all later turns, in order; each is loaded when it is reached."""
        later = range(turn + 1, self.submitted + 1)
        return (milestones for each in later if (milestones := self.get(each)))

    def _require_settled(self, milestones: TurnMilestones) -> None:
        """Raise `MissingEvents` unless the events up to the turn's settlement are loaded."""
        loaded_range = self.log.find_range(milestones.begun.sequence)
        settled = (
            milestones.settled and loaded_range and milestones.settled.sequence in loaded_range
        )
        if loaded_range and loaded_range.stop <= self.log.end and not settled:
            raise self.log.request_after(loaded_range)

    def _request_nearest(self, turn: int) -> MissingEvents:
        """Build the request for the events between a turn and the nearest loaded one."""
        known = self.log
        nearest = min(self.loaded, key=lambda each: abs(each - turn), default=None)
        begun = self.loaded[nearest].begun.sequence if nearest else known.end
        loaded_range = known.find_range(begun) or range(begun, begun + 1)
        back = nearest is None or nearest > turn
        return known.request_before(loaded_range) if back else known.request_after(loaded_range)


def build_milestones(log: PartialLog, submitted: int) -> MilestonesByTurn:
    """Build the milestones of every turn, up to the last event of the log."""
    begun: dict[int, TurnMilestones] = {}
    for recorded in log.events:
        _apply_event(begun, recorded)
    return MilestonesByTurn(log, begun, max(submitted, *begun, 0))


def _apply_event(turns: dict[int, TurnMilestones], recorded: RecordedEvent) -> None:
    match recorded.event:
        case TurnSubmitted() as event:
            turns[event.turn] = TurnMilestones(
                turn=event.turn,
                begun=recorded,
                text=build_optional_text_ref(recorded, "text", event.text),
                role=event.role,
                media=build_media_refs(recorded, event.parts),
            )
        case TurnQueued() as event:
            turns[event.turn] = TurnMilestones(
                turn=event.turn,
                begun=recorded,
                text=build_optional_text_ref(recorded, "text", event.text),
                media=build_media_refs(recorded, event.parts),
            )
        case TurnReleased(turn=turn) if turn in turns:
            turns[turn] = replace(turns[turn], released=recorded)
        case TurnCompleted(turn=turn, text=text) as event if turn in turns:
            reply = build_optional_text_ref(recorded, "text", text)
            settled = _settle_turn(turns[turn], recorded, event, "completed")
            turns[turn] = replace(settled, reply=reply)
        case TurnFailed(turn=turn) | TurnCancelled(turn=turn) as event if turn in turns:
            status: SettledStatus = "failed" if isinstance(event, TurnFailed) else "cancelled"
            reply = build_optional_text_ref(recorded, "cut_reply", event.cut_reply)
            cut = _settle_turn(turns[turn], recorded, event, status)
            turns[turn] = replace(cut, reply=reply, is_kept=reply is not None)
        case TurnExcluded(turn=turn) | TurnRestored(turn=turn) if turn in turns:
            turns[turn] = replace(turns[turn], marked=recorded)
        case ReplyRedacted() as event if event.turn in turns:
            turns[event.turn] = _redact_turn(turns[event.turn], recorded, event)
        case TextRedacted() as event if event.turn in turns:
            turns[event.turn] = _redact_text(turns[event.turn], recorded, event)
        case _:
            pass


def _settle_turn(
    milestones: TurnMilestones,
    recorded: RecordedEvent,
    event: TurnEndEvent,
    status: SettledStatus,
) -> TurnMilestones:
    return replace(
        milestones,
        settled=recorded,
        status=status,
        outcomes=_build_outcomes_ref(recorded, event),
        shows_outcomes=has_no_model_reply(event),
    )


def _build_outcomes_ref(recorded: RecordedEvent, event: TurnEndEvent) -> TextRef | None:
    return build_literal_text_ref(recorded, "outcomes", event.outcomes) if event.outcomes else None


def _redact_turn(
    milestones: TurnMilestones, recorded: RecordedEvent, event: ReplyRedacted
) -> TurnMilestones:
    reply = build_optional_text_ref(recorded, "replacement", event.replacement)
    settled = milestones.settled or recorded
    status = milestones.status or "completed"
    return replace(
        milestones,
        settled=settled,
        status=status,
        reply=reply,
        redacted=recorded,
        outcomes=milestones.outcomes or _build_outcomes_ref(recorded, event),
        shows_outcomes=True,
    )


def _redact_text(
    milestones: TurnMilestones, recorded: RecordedEvent, event: TextRedacted
) -> TurnMilestones:
    said = build_optional_text_ref(recorded, "replacement", event.replacement)
    return replace(
        milestones,
        text=said if milestones.text else None,
        media=milestones.media if event.spans else (),
        text_redacted=recorded,
    )
