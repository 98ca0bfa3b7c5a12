"""The history of a session: every turn with its text, its reply and its status.

It is the read model for people. Excluded, failed and cancelled turns are listed and marked as such;
only withheld replies are replaced. A prompt window may hide more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from turnlog.events.call import AttemptEnded, AttemptStarted, CallCompleted, ContextAssembled
from turnlog.events.content import Content, Plain
from turnlog.events.envelope import Recorded
from turnlog.events.memory import MemoryPurged
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.reference import TurnResolved
from turnlog.events.turn import (
    Fallback,
    Finish,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.projections.window.spoken import Spoken, spoken, worked_out

Status = Literal["queued", "open", "completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Display:
    """The display form of a turn, HTML for example, which no window contains."""

    text: Content | None = None
    """The display form of what the user said."""
    reply: Content | None = None


# No slots: windows ask for the messages of a turn once per prompt, so they are cached properties.
@dataclass(frozen=True)
class Turn:
    """One turn as people read it."""

    turn: int
    status: Status
    text: Content | None
    submitted_at: str
    sequence: int
    """Sequence of the event that submitted the turn."""
    reply: Content | None = None
    """The reply, or its replacement where the reply is withheld."""
    finish: Finish | None = None
    call: str | None = None
    settled_at: str | None = None
    excluded: bool = False
    redacted: bool = False
    purged: bool = False
    """Whether a memory purge removed the turn from all later windows."""
    reason: str | None = None
    """Why the turn failed, was cancelled or was redacted."""
    remembered: bool = True
    """Whether later prompts may include this turn."""
    resolved: TurnResolved | None = None
    """What a resolver returned for the turn."""
    fallback: Fallback | None = None
    """Why the reply is not a model's."""
    work: Content | None = None
    """How the reply was worked out; None for a withheld reply."""
    display: Display | None = None
    """The display form, where a client supplied one."""

    @cached_property
    def spoken(self) -> Spoken:
        """The turn's messages in a prompt; a text that cannot be opened counts as empty."""
        return spoken(_plain(self.text), _plain(self.reply))

    @cached_property
    def worked(self) -> Spoken:
        """The turn's messages in a prompt that includes how the reply was worked out."""
        if self.work is None:
            return self.spoken
        return spoken(_plain(self.text), worked_out(_plain(self.work), _plain(self.reply)))


def _plain(content: Content | None) -> str:
    return content.text if isinstance(content, Plain) else ""


Turns = dict[int, Turn]


def history(events: Iterable[Recorded]) -> tuple[Turn, ...]:
    """Return the turns of a session's events, ordered by number."""
    turns: Turns = {}
    for recorded in events:
        learn(turns, recorded)
    return tuple(turns[turn] for turn in sorted(turns))


def learn(turns: Turns, recorded: Recorded) -> None:
    """Apply one more event to the turns collected so far."""
    at = recorded.envelope.time
    match recorded.event:
        # The cases that occur in every turn come first: each case costs a check for all events
        # below it.
        case TurnSubmitted() as event:
            turns[event.turn] = _begun(recorded, event, "open")
        case TurnCompleted() as event if event.turn in turns:
            turns[event.turn] = replace(
                turns[event.turn],
                status="completed",
                reply=event.text,
                finish=event.finish,
                call=event.call,
                fallback=event.fallback,
                work=event.work,
                settled_at=at,
            )
        case AttemptStarted() | AttemptEnded() | CallCompleted() | ContextAssembled():
            pass
        case TurnQueued() as event:
            turns[event.turn] = _begun(recorded, event, "queued")
        case TurnReleased(turn=number) if number in turns:
            turns[number] = replace(turns[number], status="open")
        case TurnResolved() as event if event.turn in turns:
            turns[event.turn] = replace(turns[event.turn], resolved=event)
        case TurnFailed(turn=number, code=reason) if number in turns:
            turns[number] = _over(turns[number], "failed", reason, at)
        case TurnCancelled(turn=number, reason=reason) if number in turns:
            turns[number] = _over(turns[number], "cancelled", reason, at)
        case TurnExcluded(turn=number) if number in turns:
            turns[number] = replace(turns[number], excluded=True)
        case TurnRestored(turn=number) if number in turns:
            turns[number] = replace(turns[number], excluded=False)
        case TurnDisplayed(turn=number, text=text, reply=reply) if number in turns:
            turns[number] = _shown(turns[number], text, reply)
        case MemoryPurged(upto=upto):
            gone = {n: replace(turn, purged=True) for n, turn in turns.items() if n <= upto}
            turns.update(gone)
        case ReplyRedacted() as event if event.turn in turns:
            turns[event.turn] = _withheld(turns[event.turn], event, at)
        case _:
            pass


def _begun(
    recorded: Recorded, event: TurnSubmitted | TurnQueued, status: Literal["open", "queued"]
) -> Turn:
    turn = Turn(event.turn, status, event.text, recorded.envelope.time, recorded.sequence)
    return turn if event.remembered else replace(turn, remembered=False)


def _over(turn: Turn, status: Literal["failed", "cancelled"], reason: str, at: str) -> Turn:
    return replace(turn, status=status, reason=reason, settled_at=at)


def _shown(turn: Turn, text: Content | None, reply: Content | None) -> Turn:
    was = turn.display or Display()
    shown = None if turn.redacted else reply or was.reply
    return replace(turn, display=Display(text or was.text, shown))


def _withheld(turn: Turn, event: ReplyRedacted, at: str) -> Turn:
    return replace(
        turn,
        status="completed",
        reply=event.replacement,
        redacted=True,
        work=None,
        display=Display(turn.display.text) if turn.display else None,
        reason=event.reason,
        settled_at=turn.settled_at or at,
    )
