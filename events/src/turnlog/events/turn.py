"""Events of the turn family: what was put to a session, and what came of it.

Two of them, submitted and released, have a subject of their own, because workers wait for
exactly these two.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, JsonValue

from turnlog.events.content import Content
from turnlog.events.fact import Fact

Finish = Literal["stop", "length", "tool_calls", "content_filter", "safety", "recitation"]
"""Why a model stopped, in one vocabulary for all providers."""


class TurnSubmitted(Fact):
    """A turn is open; a worker may take it."""

    type: ClassVar[str] = "turnlog.turn-submitted.v1"
    leaf: ClassVar[str] = "turn.submitted"

    turn: int
    """1, 2, 3 ... within the session."""
    text: Content | None = None
    """What was said; none where the turn starts by itself."""
    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    """What the blueprint takes beside the text."""
    references: dict[str, JsonValue] = Field(default_factory=dict)
    """Identifiers the turn mentions."""
    meta: dict[str, JsonValue] = Field(default_factory=dict)
    """Kept, never interpreted."""
    remembered: bool = True
    """Whether later turns may be told of it; the record keeps it either way."""


class TurnQueued(Fact):
    """A turn waits behind an open one; no worker is told of it."""

    type: ClassVar[str] = "turnlog.turn-queued.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """1, 2, 3 ... within the session."""
    text: Content | None = None
    """What was said."""
    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    """What the blueprint takes beside the text."""
    references: dict[str, JsonValue] = Field(default_factory=dict)
    """Identifiers the turn mentions."""
    meta: dict[str, JsonValue] = Field(default_factory=dict)
    """Kept, never interpreted."""
    remembered: bool = True
    """Whether later turns may be told of it; the record keeps it either way."""


class TurnReleased(Fact):
    """A queued turn is open now; its deadline runs from here."""

    type: ClassVar[str] = "turnlog.turn-released.v1"
    leaf: ClassVar[str] = "turn.released"

    turn: int
    """The turn that was queued."""


class ChoiceRecorded(Fact):
    """A choice was made in a phase that offers choices instead of turns."""

    type: ClassVar[str] = "turnlog.choice-recorded.v1"
    leaf: ClassVar[str] = "turn.marked"

    phase: str
    """The phase that offered it."""
    choice: str
    """The cartridge's name for it."""
    label: str | None = None
    """What prompts may say of it later; none where they say nothing."""


class Exchange(Fact):
    """What a completed turn was in its phase."""

    phase: str
    """The phase it belonged to."""
    kind: Literal["freeform", "debrief"]
    """The kind of that phase."""
    count: int
    """Exchanges of the phase so far, this one included."""
    signal: str | None = None
    """What ended the phase with it; none when it goes on."""
    next: str | None = None
    """The phase that follows."""


class Fallback(Fact):
    """Why a reply is not a model's."""

    code: str
    """In one word: what the model failed of, `model-off`, or `unroutable`."""
    detail: str
    """The same for people; never prompt text, never a secret."""


class TurnCompleted(Fact):
    """A turn has its reply; this text is what was said."""

    type: ClassVar[str] = "turnlog.turn-completed.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn."""
    call: str | None = None
    """The call whose text this is; none where it is no model's."""
    text: Content
    """The whole reply."""
    finish: Finish | None = None
    """`length` marks a reply the model did not get to end; none where it is no model's."""
    fallback: Fallback | None = None
    """Why a resolver's answer stands for the model's."""
    exchange: Exchange | None = None
    """Its place in the session's state machine, where there is one."""
    work: Content | None = None
    """What was planned and what tools gave, as the plans of later turns may be told."""


class TurnFailed(Fact):
    """A turn has no reply and will get none."""

    type: ClassVar[str] = "turnlog.turn-failed.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn."""
    code: str
    """What went wrong, in one word."""
    detail: str
    """The same for people; never prompt text, never a secret."""
    retryable: bool
    """Whether submitting it again may help."""


class TurnCancelled(Fact):
    """A turn was given up."""

    type: ClassVar[str] = "turnlog.turn-cancelled.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn."""
    reason: Literal["cancelled", "interrupted", "closed", "phase-left"]
    """By request, by a later turn, or because the session closed, or left the phase in which the
    turn was waiting."""


class TurnExcluded(Fact):
    """A turn is left out of every window from here on; the audit keeps it."""

    type: ClassVar[str] = "turnlog.turn-excluded.v1"
    leaf: ClassVar[str] = "turn.marked"

    turn: int
    """The turn."""


class TurnDisplayed(Fact):
    """A turn has a form to be looked at, beside its plain text; no window ever holds it."""

    type: ClassVar[str] = "turnlog.turn-displayed.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn."""
    text: Content | None = None
    """How what was said is shown; none leaves it as it was."""
    reply: Content | None = None
    """How the reply is shown; none leaves it as it was."""


class TurnRestored(Fact):
    """An excluded turn is back in the windows."""

    type: ClassVar[str] = "turnlog.turn-restored.v1"
    leaf: ClassVar[str] = "turn.marked"

    turn: int
    """The turn."""
