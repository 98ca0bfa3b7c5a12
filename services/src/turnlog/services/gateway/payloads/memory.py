"""What is answered about the summaries that stand in a session's windows."""

from __future__ import annotations

from turnlog.services.gateway.payloads.closed import Answer


class TurnsView(Answer):
    """Turns that follow each other."""

    first: int
    """The first of them."""
    last: int
    """The last of them."""


class SummaryView(Answer):
    """A summary that stands in place of older turns."""

    sequence: int
    """The event that holds it, by which it is undone."""
    view: str
    """The blueprint's view of the history that it stands in."""
    turns: tuple[TurnsView, ...]
    """What it stands for."""
    former: int | None
    """The summary that it took in."""
    phases: tuple[str, ...]
    """The phases those turns were said in."""
    text: str | None
    """What prompts say in their place; null where it cannot be read any more."""
    call: str
    """The call that answered it."""
    inputs: str
    """Digest of the request that it is the answer to."""
    model: str
    """The model as litellm was told it."""
    micro_dollars: int | None
    """What the call cost; null where nobody knows."""
    at: str
    """When it was recorded, RFC 3339."""


class SummariesView(Answer):
    """The summaries of a session, oldest first."""

    session: str
    """The session."""
    sequence: int
    """Up to which event."""
    summaries: tuple[SummaryView, ...]
    """Those that nobody has undone, the latest of each view."""
    purged: int
    """The last turn that no window shows any more; 0 where nothing was purged."""
