"""How large a message may be, so that it is refused here and not by a server that hangs up."""

from __future__ import annotations

from typing import Final

from turnlog.events.codec import MAX_EVENT_BYTES
from turnlog.events.errors import TooLarge
from turnlog.events.nats.connection import Connection

HEADER_BYTES: Final = 4096
"""Room left for headers: they count, and a server closes the connection above its limit."""
MAX_MESSAGE: Final = MAX_EVENT_BYTES + HEADER_BYTES
"""Bytes a stream takes in one message, headers included."""


def check_size(connection: Connection, what: str, size: int) -> None:
    """Refuse a payload that the server or its streams would not take."""
    limit = min(connection.nc.max_payload, MAX_MESSAGE) - HEADER_BYTES
    if size > limit:
        raise TooLarge(what, size, limit)
