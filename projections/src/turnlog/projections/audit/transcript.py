"""A session as a page of talk, in Markdown: who said what, and what became of it.

It is for people and says what a user saw: of a reply that was withheld only its replacement, at
whatever time it was withheld. A turn is told once it is settled and then forgotten, so that a long
session takes no more room than a short one; so what was done to it later must be known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from turnlog.events.content import Content, Plain
from turnlog.events.envelope import Recorded
from turnlog.events.phase import PhaseEntered
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.session import SessionClosed, SessionOpened
from turnlog.events.turn import (
    ChoiceRecorded,
    TurnCancelled,
    TurnCompleted,
    TurnExcluded,
    TurnFailed,
    TurnRestored,
)
from turnlog.projections.history import Turn, Turns, learn


@dataclass(slots=True)
class Afterwards:
    """What was done to turns that had been settled, by the time the session ends."""

    withheld: dict[int, ReplyRedacted] = field(default_factory=dict[int, ReplyRedacted])
    excluded: set[int] = field(default_factory=set[int])

    def learn(self, recorded: Recorded) -> None:
        """Take in one more event."""
        match recorded.event:
            case ReplyRedacted() as redacted:
                self.withheld[redacted.turn] = redacted
            case TurnExcluded(turn=turn):
                self.excluded.add(turn)
            case TurnRestored(turn=turn):
                self.excluded.discard(turn)
            case _:
                pass

    def known_of(self, turn: Turn) -> Turn:
        """Give a turn as it is in the end."""
        redacted = self.withheld.get(turn.turn)
        if redacted:
            reason, reply = redacted.reason, redacted.replacement
            turn = replace(turn, redacted=True, reason=reason, reply=reply)
        return replace(turn, excluded=turn.turn in self.excluded)


def transcript(events: Iterable[Recorded], afterwards: Afterwards, turns: Turns) -> Iterator[str]:
    """Tell more of a session; `turns` are those that are not settled yet, and stay so."""
    for recorded in events:
        learn(turns, recorded)
        match recorded.event:
            case SessionOpened() as opened:
                yield _beginning(recorded, opened)
            case PhaseEntered(phase=phase, signal=signal):
                yield _aside(f"Phase {phase}{f', by {signal}' if signal else ''}.")
            case ChoiceRecorded(choice=choice, label=label):
                yield _aside(f"Chosen: {label or choice}.")
            case (
                TurnCompleted(turn=turn)
                | TurnFailed(turn=turn)
                | TurnCancelled(turn=turn)
                | ReplyRedacted(turn=turn)
            ) if turn in turns:
                yield told(afterwards.known_of(turns.pop(turn)))
            case SessionClosed(reason=reason):
                yield _aside(f"Closed: {reason}.")
            case _:
                pass


def told(turn: Turn) -> str:
    """Tell one turn."""
    marks: list[str] = [turn.status] if turn.status != "completed" else []
    marks += ["withheld"] if turn.redacted else []
    marks += ["left out of later windows"] if turn.excluded else []
    marks += ["not a model's words"] if turn.fallback else []
    mark = f" · {', '.join(marks)}" if marks else ""
    said = [f"### Turn {turn.turn} · {turn.submitted_at}{mark}\n"]
    said += _spoken("User", turn.text) + _spoken("Reply", turn.reply)
    return "\n".join([*said, _aside(turn.reason) if turn.reason else ""])


def _beginning(recorded: Recorded, opened: SessionOpened) -> str:
    by = f"{opened.blueprint.name} {opened.blueprint.version}, {opened.profile}"
    return f"## Session {recorded.session}\n\n{by}; opened {recorded.envelope.time}.\n\n"


def _aside(said: str) -> str:
    """Tell something in one line, whatever lines somebody wrote it in."""
    return f"*{' '.join(said.split())}*\n\n"


def _spoken(who: str, said: Content | None) -> list[str]:
    """Quote what was said, so that no heading or rule in it is taken for one of the page."""
    if said is None:
        return []
    text = said.text if isinstance(said, Plain) else "(it cannot be read any more)"
    quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
    return [f"**{who}**\n", f"{quoted or '> (nothing)'}\n"]
