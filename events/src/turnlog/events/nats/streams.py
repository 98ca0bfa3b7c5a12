from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from turnlog.events.nats.answers import request_json
from turnlog.events.nats.connection import NatsConnection


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """Information about a stream."""

    created: str
    """Creation time; it distinguishes a stream from one that was lost and created again."""
    last_sequence: int
    """The last stream sequence."""
    server_time: datetime
    """The server's clock."""


class _StreamStateReply(BaseModel):
    last_seq: int


class _StreamInfoReply(BaseModel):
    created: str
    state: _StreamStateReply
    ts: datetime


async def fetch_stream_info(connection: NatsConnection, stream: str) -> StreamInfo:
    """Return the stream's information from its leader.

    Raises `Unavailable` also if the stream does not exist.
    """
    info = await request_json(connection, f"$JS.API.STREAM.INFO.{stream}", _StreamInfoReply)
    return StreamInfo(info.created, info.state.last_seq, info.ts)
