"""What is answered about turns and commands: what was recorded, and what came of it."""

from __future__ import annotations

from turnlog.events.content import Content, Plain
from turnlog.events.turn import Finish
from turnlog.projections.history import Status
from turnlog.services.gateway.payloads.closed import Answer


class Submitted(Answer):
    """A turn is on the log."""

    session: str
    """The session."""
    turn: int
    """Its number within the session."""
    sequence: int
    """Of the event that submitted it."""
    stream: str
    """Where its reply can be watched."""
    events: str
    """Where everything that happens to it can be read."""


class Settled(Submitted):
    """A turn is on the log, and what came of it."""

    settled: int
    """Of the event that settled it."""
    status: Status
    """What came of it."""
    reply: str | None
    """The reply, or the replacement of a redacted one."""
    finish: Finish | None
    """Why the model stopped; `length` marks a reply it did not get to end."""
    redacted: bool
    """Whether the reply was withheld."""
    reason: str | None
    """Why it failed, was cancelled or was redacted."""
    fallback: str | None = None
    """Why the reply is no model's; null where it is one's."""


class Acted(Answer):
    """A command was carried out, or had nothing left to do."""

    session: str
    """The session."""
    turn: int | None
    """The turn it was about, if it was about one."""
    sequence: int
    """Of its last event; of the session, where it had nothing left to do."""


class StepView(Answer):
    """A step of a turn's plan."""

    step: int
    """Its number."""
    goal: str | None
    """What it is for."""
    given: bool
    """Whether the turn before had done it already, and no call was made for it."""


class ToolUseView(Answer):
    """A tool that a model asked for, and what came of it."""

    call: str
    """The call whose answer asked for it."""
    id: str
    """The provider's name for this request."""
    tool: str
    """The tool."""
    arguments: str
    """Its arguments as the model wrote them."""
    step: int | None
    """The step of the plan it is for."""
    outcome: str | None
    """What came of it; null as long as it has not come back."""
    detail: str
    """Why it was refused, failed or was lost."""
    text: str | None
    """What prompts say of it."""
    characters: int
    """Length of the whole result."""
    condensed: bool
    """Whether prompts hold a summary of it."""
    milliseconds: int | None
    """How long its server took."""


class DisplayView(Answer):
    """How a turn is to be looked at."""

    text: str | None
    """How what was said is drawn; null where nobody said."""
    reply: str | None
    """How the reply is drawn; null where nobody said, and where the reply is withheld."""


class TurnView(Answer):
    """A turn as people read it."""

    turn: int
    """Its number."""
    status: Status
    """What became of it."""
    text: str | None
    """What was said."""
    reply: str | None
    """The reply, or the replacement of a redacted one."""
    finish: Finish | None
    """Why the model stopped."""
    call: str | None
    """The call whose text the reply is."""
    excluded: bool
    """Whether it is left out of windows."""
    redacted: bool
    """Whether the reply was withheld."""
    reason: str | None
    """Why it failed, was cancelled or was redacted."""
    sequence: int
    """Of the event that submitted it."""
    submitted_at: str
    """When."""
    settled_at: str | None
    """When it was settled."""
    purged: bool = False
    """Whether no window shows it any more, since the memory was purged."""
    remembered: bool = True
    """Whether later turns may be told of it."""
    fallback: str | None = None
    """Why the reply is no model's; null where it is one's."""
    phase: str | None = None
    """The phase it is of."""
    display: DisplayView | None = None
    """How it is to be looked at, as whoever gave it wrote it; null where nobody said."""
    steps: tuple[StepView, ...] = ()
    """Its plan, where it has one."""
    tools: tuple[ToolUseView, ...] = ()
    """The tools it asked for, in order."""


class StayView(Answer):
    """A time that the session spent in one phase."""

    phase: str
    """The phase."""
    before: str | None
    """The phase that was left for it."""
    signal: str | None
    """What led to it."""
    at: str
    """When it began."""
    first: int
    """The event that entered it, or the switch to its profile just before."""
    last: int
    """The latest event in it: state and window as it ended are those `at` this sequence."""
    carried: str | None
    """What its prompts are told of the phase before."""
    shared: tuple[str, ...]
    """Phases whose turns it may see, where phases are kept apart."""
    hidden: tuple[str, ...]
    """Phases the session had been in that it may not see."""
    turns: tuple[int, ...]
    """The turns that are of it."""


class HistoryView(Answer):
    """All turns of a session, or those of one phase."""

    session: str
    """The session."""
    sequence: int
    """Up to which event."""
    turns: tuple[TurnView, ...]
    """In order."""
    stays: tuple[StayView, ...] = ()
    """The times in its phases, in order; none where it has no phases."""


def plain(content: Content | None) -> str | None:
    """Give a text that may be shown; none when it is sealed, erased or was never there."""
    return content.text if isinstance(content, Plain) else None
