"""What pages of stored events contain beside the events, which are sent as they are stored."""

from __future__ import annotations

from turnlog.contract.payload_models import ResponseModel
from turnlog.contract.session_payloads import UnreadableMessage


class SessionPageHead(ResponseModel):
    """A page of a session's events."""

    session: str
    """The session id."""
    sequence: int
    """The session's last sequence."""
    after: int
    """The sequence to go on from: that of the last event here, or the last one if there is no more.
    """
    more: bool
    """Whether there are more events after this page."""
    unreadable: UnreadableMessage | None = None
    """What is stored behind the last event and is none."""


class TenantPageHead(ResponseModel):
    """A page of the events of all sessions."""

    after: int
    """The stream sequence to go on from."""
    more: bool
    """Whether there are more events after this page."""
    unreadable: tuple[int, ...]
    """The stream sequences of this page whose bytes are not an event."""
