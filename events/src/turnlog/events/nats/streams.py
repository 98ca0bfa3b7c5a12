from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from turnlog.events.nats.answers import ask
from turnlog.events.nats.connection import Connection


@dataclass(frozen=True, slots=True)
class Facts:
    """Information about a stream."""

    created: str
    """Creation time; it distinguishes a stream from one that was lost and created again."""
    last: int
    """The last stream sequence."""
    now: datetime
    """The server's clock."""


class _State(BaseModel):
    last_seq: int


class _Info(BaseModel):
    created: str
    state: _State
    ts: datetime


async def facts_of(connection: Connection, stream: str) -> Facts:
    """Return the stream's information from its leader.

    Raises `Unavailable` also if the stream does not exist.
    """
    info = await ask(connection, f"$JS.API.STREAM.INFO.{stream}", _Info)
    return Facts(info.created, info.state.last_seq, info.ts)
