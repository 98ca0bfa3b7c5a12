"""The responses about quarantine: sessions whose read models an event stopped.

They name events by their envelopes and contain no text of a session.
"""

from __future__ import annotations

from turnlog.services.api.payload_models import ResponseModel


class StoppedSessionView(ResponseModel):
    """A session whose read models are stopped; the session itself goes on."""

    session: str
    """The session id."""
    position: int
    """The stream sequence of the event that stopped it."""
    sequence: int | None
    """The sequence of the event within the session; null if its bytes cannot be read."""
    type: str | None
    """The wire type of the event; null if its bytes cannot be read."""
    time: str | None
    """When the event was recorded, RFC 3339; null if its bytes cannot be read."""
    reason: str
    """Why the event could not be folded."""
    held_back: int
    """The number of later events of the session that wait."""


class StoppedSessionList(ResponseModel):
    """The stopped sessions, in the order in which they stopped."""

    sessions: tuple[StoppedSessionView, ...]
    """The stopped sessions."""


class QuarantinedEventView(ResponseModel):
    """An event in quarantine."""

    position: int
    """The stream sequence."""
    sequence: int | None
    """The sequence within the session; null if its bytes cannot be read."""
    type: str | None
    """The wire type; null if its bytes cannot be read."""
    time: str | None
    """When it was recorded, RFC 3339; null if its bytes cannot be read."""
    reason: str | None
    """Why it could not be folded; null if it only waits."""


class QuarantineView(ResponseModel):
    """The events of a stopped session that wait in quarantine."""

    session: str
    """The session id."""
    events: tuple[QuarantinedEventView, ...]
    """The events in stored order; the first one stopped the session."""


class QuarantineRelease(ResponseModel):
    """The result of releasing a session from quarantine."""

    session: str
    """The session id."""
    events: int
    """The number of events that were folded."""
