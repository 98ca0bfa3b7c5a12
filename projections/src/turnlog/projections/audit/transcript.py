"""A session as a Markdown transcript: who said what, and what happened to each turn.

It is for people and contains what a user saw: of a withheld reply only the replacement, whenever it
was withheld. A turn is rendered once it is settled and then dropped, so that memory does not grow
with the session. Later changes to a turn must therefore be collected first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from turnlog.events.content import Content, Plain
from turnlog.events.envelope import Recorded
from turnlog.events.phase import PhaseEntered
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.session import ProfileSwitched, SessionClosed, SessionOpened
from turnlog.events.turn import (
    ChoiceRecorded,
    TurnCancelled,
    TurnCompleted,
    TurnExcluded,
    TurnFailed,
    TurnRestored,
)
from turnlog.projections import undertakings
from turnlog.projections.history import Turn, Turns, learn
from turnlog.projections.undertakings import NOTHING, Undertaking, Undertakings, lines


@dataclass(slots=True)
class Afterwards:
    """Changes to turns after their settlement, up to the end of the session."""

    withheld: dict[int, ReplyRedacted] = field(default_factory=dict[int, ReplyRedacted])
    excluded: set[int] = field(default_factory=set[int])

    def learn(self, recorded: Recorded) -> None:
        """Apply one more event."""
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
        """Return a turn with the later changes applied."""
        redacted = self.withheld.get(turn.turn)
        if redacted:
            reason, reply = redacted.reason, redacted.replacement
            turn = replace(turn, redacted=True, reason=reason, reply=reply)
        return replace(turn, excluded=turn.turn in self.excluded)


@dataclass(slots=True)
class Untold:
    """Turns that are not settled yet, with their activity so far."""

    turns: Turns = field(default_factory=Turns)
    done: Undertakings = field(default_factory=Undertakings)

    def learn(self, recorded: Recorded) -> None:
        """Apply one more event."""
        learn(self.turns, recorded)
        undertakings.learn(self.done, recorded)

    def take(self, turn: int, afterwards: Afterwards) -> str:
        """Render a turn and drop it."""
        return told(afterwards.known_of(self.turns.pop(turn)), self.done.pop(turn, NOTHING))

    def rest(self, afterwards: Afterwards) -> Iterator[str]:
        """Yield the rendered turns that the session never settled."""
        return (self.take(turn, afterwards) for turn in sorted(self.turns))


def transcript(events: Iterable[Recorded], afterwards: Afterwards, untold: Untold) -> Iterator[str]:
    """Yield the transcript of further events of a session."""
    for recorded in events:
        untold.learn(recorded)
        match recorded.event:
            case SessionOpened() as opened:
                yield _beginning(recorded, opened)
            case PhaseEntered() as entered:
                yield _aside(_entered(entered))
            case ProfileSwitched(profile=profile, model=model):
                yield _aside(f"Profile {profile}{f', model {model}' if model else ''}.")
            case ChoiceRecorded(choice=choice, label=label):
                yield _aside(f"Chosen: {label or choice}.")
            case (
                TurnCompleted(turn=turn)
                | TurnFailed(turn=turn)
                | TurnCancelled(turn=turn)
                | ReplyRedacted(turn=turn)
            ) if turn in untold.turns:
                yield untold.take(turn, afterwards)
            case SessionClosed(reason=reason):
                yield _aside(f"Closed: {reason}.")
            case _:
                pass


def told(turn: Turn, done: Undertaking) -> str:
    """Render one turn."""
    marks: list[str] = [turn.status] if turn.status != "completed" else []
    marks += ["withheld"] if turn.redacted else []
    marks += ["left out of later windows"] if turn.excluded else []
    marks += ["not a model's words"] if turn.fallback else []
    mark = f" · {', '.join(marks)}" if marks else ""
    said = [f"### Turn {turn.turn} · {turn.submitted_at}{mark}\n"]
    said += _spoken("User", turn.text)
    said += _quoted("Worked out", "\n".join(lines(done))) if done != NOTHING else []
    said += _spoken("Reply", turn.reply)
    return "\n".join([*said, _aside(turn.reason) if turn.reason else ""])


def _beginning(recorded: Recorded, opened: SessionOpened) -> str:
    by = f"{opened.blueprint.name} {opened.blueprint.version}, {opened.profile}"
    return f"## Session {recorded.session}\n\n{by}; opened {recorded.envelope.time}.\n\n"


def _entered(entered: PhaseEntered) -> str:
    by = f", by {entered.signal}" if entered.signal else ""
    hidden = f", which does not see {', '.join(entered.hidden)}" if entered.hidden else ""
    carried = entered.carried.text if isinstance(entered.carried, Plain) else ""
    return f"Phase {entered.phase}{by}{hidden}.{f' {carried}' if carried else ''}"


def _aside(said: str) -> str:
    """Render a note on one line, whatever line breaks the text has."""
    return f"*{' '.join(said.split())}*\n\n"


def _spoken(who: str, said: Content | None) -> list[str]:
    """Quote a message, so that no Markdown in it takes effect in the page."""
    if said is None:
        return []
    return _quoted(who, said.text if isinstance(said, Plain) else "(it cannot be read any more)")


def _quoted(who: str, text: str) -> list[str]:
    quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
    return [f"**{who}**\n", f"{quoted or '> (nothing)'}\n"]
