from __future__ import annotations

from typing import Final

from turnlog.events.codec import MAX_EVENT_BYTES
from turnlog.events.errors import TooLarge
from turnlog.events.nats.connection import NatsConnection

HEADER_BYTES: Final = 4096
"""Bytes reserved for headers; a server closes the connection on a message above its limit."""
MAX_MESSAGE_BYTES: Final = MAX_EVENT_BYTES + HEADER_BYTES
"""Maximum bytes of one stream message, including headers."""


def check_message_size(connection: NatsConnection, what: str, size: int) -> None:
    """Refuse a payload that the server or its streams would not accept."""
    limit = min(connection.nc.max_payload, MAX_MESSAGE_BYTES) - HEADER_BYTES
    if size > limit:
        raise TooLarge(what, size, limit)
