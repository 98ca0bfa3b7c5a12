"""Which calls had a source in their prompt, and by which way."""

from __future__ import annotations

from typing import Literal

from turnlog.contract.payload_models import ResponseModel

UseHopKind = Literal["summary", "carried", "step", "reply", "parent", "child", "fork"]
"""What a source went through on its way to a prompt."""


class UseHopView(ResponseModel):
    """A text through which a source reached a prompt."""

    kind: UseHopKind
    """`summary` of turns that had it, `carried` into a phase from the one before, `step` of a plan
    that quotes it, `reply` that may repeat it, `parent` that asked with it, `child` that replied
    with it, or `fork` that has the same event.
    """
    session: str
    """The session of that text; of a fork, the session whose event the other one has too."""
    turn: int | None
    """The turn that the text is the reply or the request of; null for the others."""
    sequence: int | None
    """The event that holds the text; null for the others."""


class UseView(ResponseModel):
    """A call whose prompt had the source."""

    session: str
    """The session."""
    turn: int
    """The turn."""
    call: str
    """The call."""
    kind: str
    """The blueprint's name of this kind of call."""
    model: str
    """The model."""
    at: str
    """When its prompt was fixed, RFC 3339."""
    sequence: int
    """The event that fixed its prompt, of which `why` says more."""
    reply: bool
    """Whether its answer is the reply of the turn."""
    through: tuple[UseHopView, ...]
    """The way of the source, with as few texts as possible; empty where the prompt has the source
    itself.
    """


class UsePage(ResponseModel):
    """A page of calls that had a source: the newest session first, its calls in order."""

    source: str
    """The source, as it was asked for."""
    uses: tuple[UseView, ...]
    """The calls."""
    stopped: tuple[str, ...]
    """Sessions that an event stopped: uses in what came after it are missing until the event is
    released from quarantine.
    """
    next: str | None
    """The `after` of the next page; null on the last page."""
