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
from turnlog.events.nats.answers import JsApiError, request_json
from turnlog.events.nats.connection import NatsConnection

DIRECT_GET_SUBJECT: Final = "$JS.API.DIRECT.GET"
LEADER_GET_SUBJECT: Final = "$JS.API.STREAM.MSG.GET"
MESSAGE_NOT_FOUND: Final = 10037
"""The server's error code for a message that does not exist."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as stored in a stream."""

    subject: str
    stream_sequence: int
    time: str
    """When it was stored, by the server's clock, RFC 3339."""
    payload: bytes


async def get_message(connection: NatsConnection, stream: str, sequence: int) -> StoredMessage | None:
    """Return the message at a stream sequence; None may mean that a follower lags."""
    return await _request_direct(connection, stream, seq=sequence)


async def get_last_message(connection: NatsConnection, stream: str, subjects: str) -> StoredMessage | None:
    """Return the last message under `subjects`, possibly from a follower that lags."""
    return await _request_direct(connection, stream, last_by_subj=subjects)


async def get_next_message(connection: NatsConnection, stream: str, subjects: str, start: int) -> StoredMessage | None:
    """Return the first message under `subjects` at or after `start`.

    None may mean that a follower lags.
    """
    return await _request_direct(connection, stream, seq=start, next_by_subj=subjects)


async def get_message_at_leader(connection: NatsConnection, stream: str, sequence: int) -> StoredMessage | None:
    """Return the message at a stream sequence from the leader, or None if there is none."""
    return await _request_leader(connection, stream, seq=sequence)


async def get_last_message_at_leader(connection: NatsConnection, stream: str, subjects: str) -> StoredMessage | None:
    """Return the last message under `subjects` from the leader, or None if there is none."""
    return await _request_leader(connection, stream, last_by_subj=subjects)


async def get_next_message_at_leader(
    connection: NatsConnection, stream: str, subjects: str, start: int
) -> StoredMessage | None:
    """Return the first message under `subjects` at or after `start` from the leader, or None."""
    return await _request_leader(connection, stream, seq=start, next_by_subj=subjects)


async def _request_direct(connection: NatsConnection, stream: str, **wanted: str | int) -> StoredMessage | None:
    answer = await connection.send_request(f"{DIRECT_GET_SUBJECT}.{stream}", _encode_json(wanted))
    match _get_status(answer):
        case None:
            return parse_stored_message(answer)
        case "404":
            return None
        case status:
            raise Unavailable("nats", f"{stream}: status {status} to {wanted}")


class _LeaderMessage(BaseModel):
    subject: str
    seq: int
    time: str
    data: str = ""


class _LeaderReply(BaseModel):
    message: _LeaderMessage


async def _request_leader(connection: NatsConnection, stream: str, **wanted: str | int) -> StoredMessage | None:
    try:
        found = (await request_json(connection, f"{LEADER_GET_SUBJECT}.{stream}", _LeaderReply, _encode_json(wanted))).message
    except JsApiError as denied:
        if denied.code == MESSAGE_NOT_FOUND:
            return None
        raise
    return StoredMessage(found.subject, found.seq, found.time, b64decode(found.data))


def parse_stored_message(message: Msg) -> StoredMessage:
    """Convert a message whose headers state its stream sequence."""
    headers = message.headers or {}
    return StoredMessage(
        headers["Nats-Subject"],
        int(headers["Nats-Sequence"]),
        headers.get("Nats-Time-Stamp", ""),
        message.data,
    )


def _encode_json(wanted: Mapping[str, object]) -> bytes:
    return json.dumps(wanted).encode()


def _get_status(message: Msg) -> str | None:
    return message.headers.get("Status") if message.headers else None
