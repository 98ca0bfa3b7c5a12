"""The state of a session: what deciding and assembling need to know, and nothing more.

It refers to events instead of repeating their text, and it is bounded by what a window can
hold: recent turns one by one, older ones as runs of numbers. So a turn in a session of ten
thousand costs what it costs in one of ten. What the fold replaces has no slots, so that all of it
is copied at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.envelope import Head
from turnlog.events.prompt import PromptFile
from turnlog.events.session import BlueprintRef, Origin
from turnlog.events.tool import ToolsSnapshotted
from turnlog.projections.session.opened import Given as Given  # noqa: PLC0414 re-exported
from turnlog.projections.session.opened import OpenTurn as OpenTurn  # noqa: PLC0414 re-exported
from turnlog.projections.session.opened import PlannedStep as PlannedStep  # noqa: PLC0414 re-exported
from turnlog.projections.session.opened import Resolved as Resolved  # noqa: PLC0414 re-exported
from turnlog.projections.session.opened import Returns as Returns  # noqa: PLC0414 re-exported
from turnlog.projections.session.opened import ToolUse as ToolUse  # noqa: PLC0414 re-exported
from turnlog.projections.session.places import Brought as Brought  # noqa: PLC0414 re-exported
from turnlog.projections.session.places import Said as Said  # noqa: PLC0414 re-exported
from turnlog.projections.session.summaries import Summary
from turnlog.projections.session.telling import Telling

FOLD_VERSION: Final = 7
"""Raised whenever the fold gives another state for the same events; old snapshots are then void."""
MOST_RECENT: Final = 512
"""Turns kept one by one at the most, and shown by any view but one of the whole history."""
UNBOUNDED: Final = -1
"""The reach of a state that keeps every turn, folded for a call that needs all of them."""
MOST_RETURNS: Final = 16
"""Results of tools that the turn behind the one they were for may be told of."""
REMEMBERED_COMMANDS: Final = 64
"""Idempotency keys kept in the state; older ones are looked up in the read model."""

Settled = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True)
class TurnRef:
    """A settled turn."""

    turn: int
    status: Settled
    text: Said | None
    reply: Said | None
    """What stands for the reply in a window: the reply, or the replacement of a redacted one."""
    excluded: bool = False
    redacted: bool = False
    phase: str | None = None
    """The phase the session was in."""
    work: Said | None = None
    """How it was worked out, where that took more than a call; none of a withheld reply."""

    @property
    def characters(self) -> int:
        """Characters it takes in a window; none when no window holds it."""
        if self.status != "completed" or self.excluded:
            return 0
        text, reply = self.text, self.reply
        return (text.characters if text else 0) + (reply.characters if reply else 0)


@dataclass(frozen=True)
class Run:
    """Settled turns that are too old to be kept one by one, all alike."""

    first: int
    last: int
    status: Settled
    excluded: bool
    redacted: bool
    phase: str | None = None


@dataclass(frozen=True, slots=True)
class WaitingTurn:
    """A turn behind the open one."""

    turn: int
    text: Said | None
    event: str
    """Id of the event that queued it."""
    inputs: Brought | None = None
    """None where it came without any."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What the latest answered turn was about."""

    turn: int
    """That turn."""
    identifiers: dict[str, JsonValue]
    """Those that may be inherited."""
    intent: str | None
    """What was wanted of it."""
    entity: str | None
    """What kind of thing it is."""
    at: str
    """When it was recorded, RFC 3339."""


@dataclass(frozen=True, slots=True)
class Memo:
    """A command that was carried out: the same key with the same body gets the same answer."""

    key: str
    hash: Digest
    sequence: int
    turn: int | None


@dataclass(frozen=True, slots=True)
class ChoiceMade:
    """A choice of a static phase."""

    phase: str
    choice: str
    label: str | None
    """What prompts may say of it."""


@dataclass(frozen=True)
class Note:
    """A reply was withheld, and one call is to be told so."""

    turn: int
    """Whose reply it was."""
    told: int | None = None
    """The turn whose calls carry the note; none until the first of them is fixed."""


@dataclass(frozen=True)
class SessionState:
    """A session after its `head`."""

    tenant: str
    session: str
    head: Head
    opened: Head
    """The event that opened it."""
    blueprint: BlueprintRef
    profile: str
    """What its next turn runs by."""
    attributes: dict[str, JsonValue]
    reach: int
    """Characters of history the widest window holds; 0 is without end."""
    cartridge: Digest | None = None
    """The data of its task."""
    model: str | None = None
    """What was asked for in place of the profile's own model."""
    phase: str | None = None
    """Where it stands in its state machine, if it has one."""
    exchanges: int = 0
    """Turns completed in this phase."""
    visited: tuple[str, ...] = ()
    """The phases it has been in, each once, in the order of their first time."""
    carried: Said | None = None
    """What was told of the phase before, when it came to this one."""
    choices: tuple[ChoiceMade, ...] = ()
    """Those made so far."""
    note: Note | None = None
    """The latest reply that was withheld, while a call may still have to be told."""
    closed: bool = False
    prompts: dict[str, dict[str, PromptFile]] = field(
        default_factory=dict[str, dict[str, PromptFile]]
    )
    """Provider to layer to file, once they are pinned."""
    tools: dict[str, ToolsSnapshotted] = field(default_factory=dict[str, ToolsSnapshotted])
    """Profile to tools, once they are pinned."""
    telling: dict[str, Telling] = field(default_factory=dict[str, Telling])
    """Profile to how long its tools are told in full."""
    turns: tuple[TurnRef, ...] = ()
    """Recent settled turns, oldest first."""
    earlier: tuple[Run, ...] = ()
    """Settled turns before those."""
    open: OpenTurn | None = None
    waiting: tuple[WaitingTurn, ...] = ()
    submitted: int = 0
    """Turns so far, of whatever fate."""
    called: dict[str, int] = field(default_factory=dict[str, int])
    """Kind of call to where the latest prompt of that kind lies in the stream."""
    completed: int = 0
    """Turns that got a reply."""
    returns: Returns | None = None
    """What tools gave in the latest turn that was completed; none where they gave nothing."""
    commands: tuple[Memo, ...] = ()
    """The latest commands that carried a key, oldest first."""
    forgotten_commands: int = 0
    """How many keys are too old for `commands`."""
    memory: Digest | None = None
    """What of its turns is remembered, as it is pinned."""
    summaries: tuple[Summary, ...] = ()
    """Those that stand in place of older turns, oldest first."""
    whole: dict[str, int] = field(default_factory=dict[str, int])
    """View to the latest turn there was when somebody undid a summary of it."""
    purged: int = 0
    """The last turn that no window shows any more; 0 before the first purge."""
    reference: Reference | None = None
    """What the latest answered turn was about."""
    warnings: tuple[str, ...] = ()
    """What was wrong with the files it is made from."""
    attributes_in: int = 1
    """Sequence of the event that says its attributes: the opening, or the latest move."""
    origin: Origin | None = None
    """The session it came from."""
    drawn: str | None = None
    """By which session's id variants are drawn, where not by its own."""
