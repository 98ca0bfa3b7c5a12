"""Fates: what befell each turn of a session, and by which event.

A history says how a turn stands; this says what brought it there, so that whoever misses a turn
in a prompt, or finds another text in it, is led to the event. Nothing but events is read, and no
more of a long session than the turns that are asked for take.
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
    """What submitted it, or queued it."""
    text: Said | None
    released: Recorded | None = None
    """What opened it, where it had waited."""
    settled: Recorded | None = None
    """What ended it: a reply, a failure, a cancel, or a reply withheld before anybody saw it."""
    status: Settled | None = None
    reply: Said | None = None
    """What stands for its reply."""
    redacted: Recorded | None = None
    marked: Recorded | None = None
    """What excluded it last, or restored it."""

    @property
    def excluded(self) -> bool:
        """Whether it is left out of windows."""
        return bool(self.marked and isinstance(self.marked.event, TurnExcluded))

    @property
    def ref(self) -> TurnRef | None:
        """The turn as a window takes it; none while it is open."""
        if self.status is None:
            return None
        redacted = self.redacted is not None
        return TurnRef(self.turn, self.status, self.text, self.reply, self.excluded, redacted)

    @property
    def said(self) -> tuple[Said, ...]:
        """Where its messages stand, as a window shows them."""
        return messages_in(self.ref) if self.ref else ()

    @property
    def usable(self) -> bool:
        """Whether a window could show it, as far as it alone matters."""
        return self.status == "completed" and not self.excluded and bool(self.said)

    @property
    def since(self) -> Recorded | None:
        """What made it stand in windows, where it does: its settling, or its restoration."""
        return self.marked or self.settled

    @property
    def opening(self) -> tuple[Recorded, ...]:
        """What made it the turn to be answered."""
        return (self.begun, self.released) if self.released else (self.begun,)


@dataclass(frozen=True, slots=True)
class Fates:
    """What befell turns; whatever befell one lies behind what began it, in the order of turns."""

    known: Known
    begun: Mapping[int, Fate]
    """Those whose beginning is at hand."""
    submitted: int
    """Turns that there are."""

    def get(self, turn: int) -> Fate | None:
        """Give one; none where there is no such turn."""
        found = self.begun.get(turn)
        if found is None:
            if 1 <= turn <= self.submitted and not self.known.whole:
                raise self._towards(turn)
        else:
            self._followed(found)
        return found

    def after(self, turn: int) -> Iterator[Fate]:
        """Give those of all later turns, in order, as far as they are asked for."""
        later = range(turn + 1, self.submitted + 1)
        return (fate for each in later if (fate := self.get(each)))

    def _followed(self, fate: Fate) -> None:
        """Ask for more where it is not all at hand, from what began a turn to what settled it."""
        stretch = self.known.stretch(fate.begun.sequence)
        settled = fate.settled and stretch and fate.settled.sequence in stretch
        if stretch and stretch.stop <= self.known.end and not settled:
            raise self.known.behind(stretch)

    def _towards(self, turn: int) -> Further:
        """Ask for what lies between a turn and the nearest one that is at hand."""
        known = self.known
        nearest = min(self.begun, key=lambda each: abs(each - turn), default=None)
        begun = self.begun[nearest].begun.sequence if nearest else known.end
        stretch = known.stretch(begun) or range(begun, begun + 1)
        back = nearest is None or nearest > turn
        return known.ahead(stretch) if back else known.behind(stretch)


def fates(known: Known, submitted: int) -> Fates:
    """Give what befell every turn, up to the last of these events."""
    begun: dict[int, Fate] = {}
    for recorded in known.events:
        _befallen(begun, recorded)
    return Fates(known, begun, max(submitted, *begun, 0))


def was_latest(withheld: Recorded, known: Known) -> bool:
    """Tell whether a reply was the latest one when it was withheld, so that a call was to know."""
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
