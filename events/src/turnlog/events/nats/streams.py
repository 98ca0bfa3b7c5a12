"""What a stream says of itself: which one it is, how far it has got, and what its clock reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from turnlog.events.nats.answers import ask
from turnlog.events.nats.connection import Connection


@dataclass(frozen=True, slots=True)
class Facts:
    """A stream as it was a moment ago."""

    created: str
    """When it was made, which tells it from one that was lost and made anew."""
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
    """Ask the stream's leader; raises `Unavailable` also where there is no such stream."""
    info = await ask(connection, f"$JS.API.STREAM.INFO.{stream}", _Info)
    return Facts(info.created, info.state.last_seq, info.ts)
