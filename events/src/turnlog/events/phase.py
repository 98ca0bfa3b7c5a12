"""Events of the phase family: where a session stands in its state machine."""

from __future__ import annotations

from typing import ClassVar

from turnlog.events.content import Content
from turnlog.events.fact import Fact


class PhaseEntered(Fact):
    """The session is in another phase from here on; its exchanges are counted anew."""

    type: ClassVar[str] = "turnlog.phase-entered.v1"
    leaf: ClassVar[str] = "phase"

    phase: str
    """The phase entered."""
    before: str | None = None
    """The phase left; none for the first one."""
    signal: str | None = None
    """What led here: a signal, `choice`, or `next`; none for the first one."""
    forced: bool = False
    """Whether the phase left had reached its most exchanges."""
    turn: int | None = None
    """The turn that brought the signal."""
    carried: Content | None = None
    """What is told of the phase left, as prompts of this phase say it."""
    shared: tuple[str, ...] = ()
    """Phases whose turns this phase may see, where phases are kept apart."""
    hidden: tuple[str, ...] = ()
    """Phases that the session has been in and that this phase may not see."""
