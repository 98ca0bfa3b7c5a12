"""Events of the phase family: the session's state machine."""

from __future__ import annotations

from typing import ClassVar

from turnlog.events.content import Content
from turnlog.events.event_model import EventModel


class PhaseEntered(EventModel):
    """The session entered another phase; its exchange count starts at zero."""

    type: ClassVar[str] = "turnlog.phase-entered.v1"
    leaf: ClassVar[str] = "phase"
    sentence: ClassVar[str] = (
        "[{before} → ]{phase}[ · {signal}][, {forced|flag:forced}]"
        "[ · hides {hidden|list}][ · {carried|content}]"
    )

    phase: str
    """The phase entered."""
    before: str | None = None
    """The phase left; None for the first phase."""
    signal: str | None = None
    """The cause: a signal, `choice`, or `next`; None for the first phase."""
    forced: bool = False
    """Whether the phase left had reached its maximum number of exchanges."""
    turn: int | None = None
    """The turn that sent the signal."""
    carried: Content | None = None
    """What prompts of this phase say about the phase left."""
    shared: tuple[str, ...] = ()
    """Phases whose turns this phase may see, if phases are isolated."""
    hidden: tuple[str, ...] = ()
    """Earlier phases of the session that this phase may not see."""
