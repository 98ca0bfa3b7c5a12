"""Turn timelines: the events that made each turn of a session what it is.

A history shows the status of a turn; a timeline names the event behind it, so that an explanation
of a missing or changed turn can point to that event. Only events are read, and of a long session
only those that the requested turns need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from turnlog.events.envelope import Recorded
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import (
    TurnCancelled,
    TurnCompleted,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.projections.audit.known import Further, Known
from turnlog.projections.session.standing import said
from turnlog.projections.session.state import Said, Settled, TurnRef
from turnlog.projections.window.memory import messages_in


@dataclass(frozen=True, slots=True)
class Fate:
    """One turn, with the events that made it what it is."""

    turn: int
    begun: Recorded
    """The event that submitted or queued the turn."""
    text: Said | None
    released: Recorded | None = None
    """The event that opened the turn, if it was queued."""
    settled: Recorded | None = None
    """The event that settled the turn: a reply, a failure, a cancel, or a redaction before any
    reply.
    """
    status: Settled | None = None
    reply: Said | None = None
    """Reference to the reply, or to its replacement."""
    redacted: Recorded | None = None
    marked: Recorded | None = None
    """The latest event that excluded or restored the turn."""

    @property
    def excluded(self) -> bool:
        """Whether the turn is excluded from windows."""
        return bool(self.marked and isinstance(self.marked.event, TurnExcluded))

    @property
    def ref(self) -> TurnRef | None:
        """The turn as a window takes it; None while it is open."""
        if self.status is None:
            return None
        redacted = self.redacted is not None
        return TurnRef(self.turn, self.status, self.text, self.reply, self.excluded, redacted)

    @property
    def said(self) -> tuple[Said, ...]:
        """References to the turn's messages, as a window shows them."""
        return messages_in(self.ref) if self.ref else ()

    @property
    def usable(self) -> bool:
        """Whether a window could include the turn, judged by the turn alone."""
        return self.status == "completed" and not self.excluded and bool(self.said)

    @property
    def since(self) -> Recorded | None:
        """The event since which windows include the turn: its settlement or restoration."""
        return self.marked or self.settled

    @property
    def opening(self) -> tuple[Recorded, ...]:
        """The events that made it the turn to answer."""
        return (self.begun, self.released) if self.released else (self.begun,)


@dataclass(frozen=True, slots=True)
class Fates:
    """The timelines of a session's turns.

    All events of a turn come after the one that started it, and turns start in order. A turn whose
    events are not loaded raises `MissingEvents`.
    """

    known: Known
    begun: Mapping[int, Fate]
    """Timelines of the turns whose first event is loaded, by number."""
    submitted: int
    """Number of turns in the session."""

    def get(self, turn: int) -> Fate | None:
        """Return the timeline of a turn, or None if there is no such turn."""
        found = self.begun.get(turn)
        if found is None:
            if 1 <= turn <= self.submitted and not self.known.whole:
                raise self._towards(turn)
        else:
            self._followed(found)
        return found

    def after(self, turn: int) -> Iterator[Fate]:
        """Yield the timelines of all later turns, in order; each is loaded when it is reached."""
        later = range(turn + 1, self.submitted + 1)
        return (fate for each in later if (fate := self.get(each)))

    def _followed(self, fate: Fate) -> None:
        """Raise `MissingEvents` unless the events up to the turn's settlement are loaded."""
        stretch = self.known.stretch(fate.begun.sequence)
        settled = fate.settled and stretch and fate.settled.sequence in stretch
        if stretch and stretch.stop <= self.known.end and not settled:
            raise self.known.behind(stretch)

    def _towards(self, turn: int) -> Further:
        """Build the request for the events between a turn and the nearest loaded one."""
        known = self.known
        nearest = min(self.begun, key=lambda each: abs(each - turn), default=None)
        begun = self.begun[nearest].begun.sequence if nearest else known.end
        stretch = known.stretch(begun) or range(begun, begun + 1)
        back = nearest is None or nearest > turn
        return known.ahead(stretch) if back else known.behind(stretch)


def fates(known: Known, submitted: int) -> Fates:
    """Build the timelines of every turn, up to the last event of the log."""
    begun: dict[int, Fate] = {}
    for recorded in known.events:
        _befallen(begun, recorded)
    return Fates(known, begun, max(submitted, *begun, 0))


def was_latest(withheld: Recorded, known: Known) -> bool:
    """Return whether a reply was the latest one when it was redacted.

    The next call carries a note only then.
    """
    turn = withheld.event.turn if isinstance(withheld.event, ReplyRedacted) else 0
    for recorded in known.back(withheld.sequence - 1):
        match recorded.event:
            case TurnCompleted(turn=other) | ReplyRedacted(turn=other) if other > turn:
                return False
            case TurnSubmitted(turn=begun) | TurnQueued(turn=begun) if begun == turn:
                return True
            case _:
                pass
    return False


def _befallen(known: dict[int, Fate], recorded: Recorded) -> None:
    match recorded.event:
        case TurnSubmitted() as event:
            known[event.turn] = Fate(event.turn, recorded, said(recorded, "text", event.text))
        case TurnQueued() as event:
            known[event.turn] = Fate(event.turn, recorded, said(recorded, "text", event.text))
        case TurnReleased(turn=turn) if turn in known:
            known[turn] = replace(known[turn], released=recorded)
        case TurnCompleted(turn=turn, text=text) if turn in known:
            reply = said(recorded, "text", text)
            known[turn] = replace(known[turn], settled=recorded, status="completed", reply=reply)
        case TurnFailed(turn=turn) if turn in known:
            known[turn] = replace(known[turn], settled=recorded, status="failed")
        case TurnCancelled(turn=turn) if turn in known:
            known[turn] = replace(known[turn], settled=recorded, status="cancelled")
        case TurnExcluded(turn=turn) | TurnRestored(turn=turn) if turn in known:
            known[turn] = replace(known[turn], marked=recorded)
        case ReplyRedacted() as event if event.turn in known:
            known[event.turn] = _withheld(known[event.turn], recorded, event)
        case _:
            pass


def _withheld(fate: Fate, recorded: Recorded, event: ReplyRedacted) -> Fate:
    reply = said(recorded, "replacement", event.replacement)
    settled = fate.settled or recorded
    status = fate.status or "completed"
    return replace(fate, settled=settled, status=status, reply=reply, redacted=recorded)
