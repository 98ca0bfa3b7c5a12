"""Stored messages by stream sequence or subject: one per request, or many at once.

Any replica answers a direct get, and a follower may lag; ask the leader if that matters. No request
scans without a count: a filtered scan of a large stream takes tens of milliseconds, an exact get a
third of one.

Through nats-py, a message costs a task, a future and the parsing of all headers. Requests for many
messages take the answers from the wire instead. A batch may lack messages that were lost or that a
follower does not have; the caller requests them again.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nats.aio.msg import Msg
from pydantic import BaseModel

from turnlog.events.errors import Unavailable
from turnlog.events.nats.answers import Denied, ask
from turnlog.events.nats.connection import Connection

DIRECT: Final = "$JS.API.DIRECT.GET"
LEADER: Final = "$JS.API.STREAM.MSG.GET"
NO_MESSAGE: Final = 10037
"""The server's error code for a message that does not exist."""


@dataclass(frozen=True, slots=True)
class Held:
    """A message as stored in a stream."""

    subject: str
    stream_sequence: int
    time: str
    """When it was stored, by the server's clock, RFC 3339."""
    payload: bytes


async def exact(connection: Connection, stream: str, sequence: int) -> Held | None:
    """Return the message at a stream sequence; None may mean that a follower lags."""
    return await _direct(connection, stream, seq=sequence)


async def last_of(connection: Connection, stream: str, subjects: str) -> Held | None:
    """Return the last message under `subjects`, possibly from a follower that lags."""
    return await _direct(connection, stream, last_by_subj=subjects)


async def next_of(connection: Connection, stream: str, subjects: str, start: int) -> Held | None:
    """Return the first message under `subjects` at or after `start`.

    None may mean that a follower lags.
    """
    return await _direct(connection, stream, seq=start, next_by_subj=subjects)


async def exact_at_leader(connection: Connection, stream: str, sequence: int) -> Held | None:
    """Return the message at a stream sequence from the leader, or None if there is none."""
    return await _led(connection, stream, seq=sequence)


async def last_at_leader(connection: Connection, stream: str, subjects: str) -> Held | None:
    """Return the last message under `subjects` from the leader, or None if there is none."""
    return await _led(connection, stream, last_by_subj=subjects)


async def next_at_leader(
    connection: Connection, stream: str, subjects: str, start: int
) -> Held | None:
    """Return the first message under `subjects` at or after `start` from the leader, or None."""
    return await _led(connection, stream, seq=start, next_by_subj=subjects)


async def _direct(connection: Connection, stream: str, **wanted: str | int) -> Held | None:
    answer = await connection.request(f"{DIRECT}.{stream}", _json(wanted))
    match _status(answer):
        case None:
            return held(answer)
        case "404":
            return None
        case status:
            raise Unavailable("nats", f"{stream}: status {status} to {wanted}")


class _Message(BaseModel):
    subject: str
    seq: int
    time: str
    data: str = ""


class _Found(BaseModel):
    message: _Message


async def _led(connection: Connection, stream: str, **wanted: str | int) -> Held | None:
    try:
        found = (await ask(connection, f"{LEADER}.{stream}", _Found, _json(wanted))).message
    except Denied as denied:
        if denied.code == NO_MESSAGE:
            return None
        raise
    return Held(found.subject, found.seq, found.time, b64decode(found.data))


def held(message: Msg) -> Held:
    """Convert a message whose headers state its stream sequence."""
    headers = message.headers or {}
    return Held(
        headers["Nats-Subject"],
        int(headers["Nats-Sequence"]),
        headers.get("Nats-Time-Stamp", ""),
        message.data,
    )


def _json(wanted: Mapping[str, object]) -> bytes:
    return json.dumps(wanted).encode()


def _status(message: Msg) -> str | None:
    return message.headers.get("Status") if message.headers else None
