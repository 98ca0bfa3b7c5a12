"""Fates: what befell each turn of a session, and by which event.

A history says how a turn stands; this says what brought it there, so that whoever misses a turn
in a prompt, or finds another text in it, is led to the event. Nothing but events is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


Fates = Mapping[int, Fate]


def fates(events: Iterable[Recorded]) -> Fates:
    """Give what befell every turn, up to the last of these events."""
    known: dict[int, Fate] = {}
    for recorded in events:
        _befallen(known, recorded)
    return known


def noting(known: Fates) -> Iterator[Recorded]:
    """Give the replies withheld that a call was to be told of: each the latest of its time."""
    replied = [fate for fate in known.values() if fate.status == "completed" and fate.settled]
    for fate in replied:
        later = (each.settled for each in replied if each.turn > fate.turn)
        redacted = fate.redacted
        if redacted and all(each and each.sequence > redacted.sequence for each in later):
            yield redacted


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
