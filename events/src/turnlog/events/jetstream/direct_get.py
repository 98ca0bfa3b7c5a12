"""Stored messages by stream sequence or subject: one per request, or many at once.

Any replica answers a direct get, and a follower may lag; ask the leader if that matters. A follower
may also have vanished with its host, and get its share of the requests for as long as the other
servers have not noticed it: what is not answered within a second is asked of the leader, or once
more. The leader is also asked where no server listens yet, as in the first moments of a stream. No
request scans without a count: a filtered scan of a large stream takes tens of milliseconds, an
exact get a third of one.

Through nats-py, a message costs a task, a future and the parsing of all headers. Requests for many
messages take the answers from the wire instead. A batch may lack messages that were lost or that a
follower does not have; the caller requests them again.

What was moved out of the stream into the archive is found like the rest, by the same positions.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from nats import errors
from nats.aio.msg import Msg
from pydantic import BaseModel

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.js_api import JsApiError, request_json
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    RequestNotSent,
    RequestUnanswered,
)
from turnlog.events.jetstream.subscriptions import (
    RawFrame,
    is_status_message,
    parse_headers,
    subscribe_raw,
)
from turnlog.events.store.ports import RawEvent

DIRECT_GET_SUBJECT: Final = "$JS.API.DIRECT.GET"

LEADER_GET_SUBJECT: Final = "$JS.API.STREAM.MSG.GET"

DIRECT_SECONDS: Final = 1.0
"""Seconds without an answer after which a replica counts as unavailable."""

BATCH_TRIES: Final = (DIRECT_SECONDS, 1.5, 2.5)
"""Seconds of silence after which each try of a batch ends; a slow scan needs the later ones."""

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


async def get_message(
    connection: NatsConnection, stream: str, sequence: int, *, leader: bool = False
) -> StoredMessage | None:
    """Return the message at a stream sequence, or None.

    Unless it is asked of the leader, None may mean that a follower lags; so in all of these.
    """
    archive = connection.find_archive(stream)
    if archive and (archived := await archive.get_message(sequence)):
        return await _attach_key(connection, _convert_archived(archived))
    return await _request_message(connection, stream, leader=leader, seq=sequence)


async def get_last_message(
    connection: NatsConnection, stream: str, subjects: str, *, leader: bool = False
) -> StoredMessage | None:
    """Return the last message under `subjects`, or None."""
    found = await _request_message(connection, stream, leader=leader, last_by_subj=subjects)
    archive = connection.find_archive(stream)
    archived = await archive.get_last_message(subjects) if archive else None
    if archived is None or (found and found.stream_sequence > archived.stream_sequence):
        return found
    return await _attach_key(connection, _convert_archived(archived))


async def get_next_message(
    connection: NatsConnection, stream: str, subjects: str, start: int, *, leader: bool = False
) -> StoredMessage | None:
    """Return the first message under `subjects` at or after `start`, or None."""
    archive = connection.find_archive(stream)
    archived = await archive.list_messages(subjects, start, 1) if archive else ()
    found = await _request_message(
        connection, stream, leader=leader, seq=start, next_by_subj=subjects
    )
    if not archived or (found and found.stream_sequence < archived[0].stream_sequence):
        return found
    return await _attach_key(connection, _convert_archived(archived[0]))


def _convert_archived(raw: RawEvent) -> StoredMessage:
    return StoredMessage(raw.subject, raw.stream_sequence, "", raw.stored)


async def _attach_key(connection: NatsConnection, found: StoredMessage) -> StoredMessage:
    return (await _attach_keys(connection, [found]))[0]


async def _request_message(
    connection: NatsConnection, stream: str, *, leader: bool, **request: str | int
) -> StoredMessage | None:
    if leader:
        found = await _request_leader(connection, stream, **request)
    else:
        found = await _request_direct(connection, stream, **request)
    return await _attach_key(connection, found) if found else None


async def _attach_keys(
    connection: NatsConnection, found: list[StoredMessage]
) -> list[StoredMessage]:
    """Return messages with the keys of those that are sealed events."""
    if connection.keys is None:
        return found
    payloads = await connection.keys.attach_keys(each.payload for each in found)
    return [
        each if payload is each.payload else replace(each, payload=payload)
        for each, payload in zip(found, payloads, strict=True)
    ]


async def _request_direct(
    connection: NatsConnection, stream: str, **request: str | int
) -> StoredMessage | None:
    subject, payload = f"{DIRECT_GET_SUBJECT}.{stream}", _encode_json(request)
    patience = min(DIRECT_SECONDS, connection.patience)
    try:
        answer = await connection.send_request(subject, payload, patience=patience)
    except (RequestNotSent, RequestUnanswered):
        return await _request_leader(connection, stream, **request)
    match _get_status(answer):
        case None:
            return parse_stored_message(answer)
        case "404":
            return None
        case status:
            raise Unavailable("nats", f"{stream}: status {status} to {request}")


class _LeaderMessage(BaseModel):
    subject: str
    seq: int
    time: str
    data: str = ""


class _LeaderReply(BaseModel):
    message: _LeaderMessage


async def _request_leader(
    connection: NatsConnection, stream: str, **request: str | int
) -> StoredMessage | None:
    try:
        found = (
            await request_json(
                connection, f"{LEADER_GET_SUBJECT}.{stream}", _LeaderReply, _encode_json(request)
            )
        ).message
    except JsApiError as denied:
        if denied.code == MESSAGE_NOT_FOUND:
            return None
        raise
    return StoredMessage(found.subject, found.seq, found.time, b64decode(found.data))


def parse_stored_message(message: Msg) -> StoredMessage:
    """Convert a message whose headers state its stream sequence."""
    return _build_stored_message(message.headers or {}, message.data)


def _build_stored_message(headers: Mapping[str, str], payload: bytes) -> StoredMessage:
    return StoredMessage(
        headers["Nats-Subject"],
        int(headers["Nats-Sequence"]),
        headers.get("Nats-Time-Stamp", ""),
        payload,
    )


def _encode_json(request: Mapping[str, object]) -> bytes:
    return json.dumps(request).encode()


def _get_status(message: Msg) -> str | None:
    return message.headers.get("Status") if message.headers else None


MAX_REPLY_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of one batched answer, so that it does not overrun its reader."""

_NO_RESPONDERS: Final = "503"


async def get_consecutive_messages(
    connection: NatsConnection, stream: str, subjects: str, start: int, count: int
) -> list[StoredMessage]:
    """Return up to `count` messages under `subjects` from stream sequence `start` on, in order.

    Fewer are returned if there are no more, if a follower lags, if they exceed the size of one
    answer, or if one was lost; messages after a lost one are left out.
    """
    archive = connection.find_archive(stream)
    archived = await archive.list_messages(subjects, start, count) if archive else ()
    found = await _request_consecutive(
        connection=connection, stream=stream, subjects=subjects, start=start, count=count
    )
    if archived:
        # Behind the last one that the server gave, it may have more.
        end = found[-1].stream_sequence if found else archived[-1].stream_sequence
        found += [_convert_archived(raw) for raw in archived if raw.stream_sequence <= end]
        found = sorted(found, key=lambda each: each.stream_sequence)[:count]
    return await _attach_keys(connection, found)


async def _request_consecutive(
    connection: NatsConnection, stream: str, subjects: str, start: int, count: int
) -> list[StoredMessage]:
    request = {"seq": start, "next_by_subj": subjects, "batch": count, "max_bytes": MAX_REPLY_BYTES}
    answers = _BatchReplies(remaining=1)
    for seconds in BATCH_TRIES:
        answers = _BatchReplies(remaining=1)
        async with _collect_replies(connection, answers, seconds) as inbox:
            await connection.nc.publish(
                f"{DIRECT_GET_SUBJECT}.{stream}", json.dumps(request).encode(), inbox
            )
        if answers.done.is_set() or answers.frames:
            break
    else:
        raise RequestUnanswered("nats", f"{stream}: no answer to a batch")
    found: list[StoredMessage] = []
    for frame in answers.frames:
        headers = parse_headers(frame.headers)
        before = int(headers.get("Nats-Last-Sequence", 0))
        if before == (found[-1].stream_sequence if found else 0):
            found.append(_build_stored_message(headers, frame.payload))
    return found


async def get_messages(
    connection: NatsConnection, stream: str, stream_sequences: Sequence[int]
) -> Mapping[int, StoredMessage]:
    """Return messages by stream sequence; one that a follower lacks may be missing."""
    answers = _BatchReplies(remaining=len(stream_sequences), count_messages=True)
    async with _collect_replies(connection, answers, DIRECT_SECONDS) as inbox:
        for place in stream_sequences:
            request = json.dumps({"seq": place}).encode()
            await connection.nc.publish(f"{DIRECT_GET_SUBJECT}.{stream}", request, inbox)
    messages = [
        _build_stored_message(parse_headers(frame.headers), frame.payload)
        for frame in answers.frames
    ]
    if archive := connection.find_archive(stream):
        missing = set(stream_sequences) - {each.stream_sequence for each in messages}
        found = [await archive.get_message(place) for place in missing]
        messages += [_convert_archived(raw) for raw in found if raw]
    keyed = await _attach_keys(connection, messages)
    return {message.stream_sequence: message for message in keyed}


@dataclass(slots=True, kw_only=True)
class _BatchReplies:
    """Collected replies; done after `remaining` status messages, or messages of any kind."""

    remaining: int
    count_messages: bool = False
    """Whether a stored message also counts."""
    frames: list[RawFrame] = field(default_factory=list[RawFrame])
    no_responders: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def add_frame(self, frame: RawFrame) -> None:
        is_status = is_status_message(frame.headers)
        if is_status:
            self.no_responders |= parse_headers(frame.headers)["Status"] == _NO_RESPONDERS
        else:
            self.frames.append(frame)
        self.remaining -= is_status or self.count_messages
        if self.remaining == 0 or self.no_responders:
            self.done.set()


@asynccontextmanager
async def _collect_replies(
    connection: NatsConnection, answers: _BatchReplies, seconds: float
) -> AsyncGenerator[str]:
    """Yield an inbox for the request, and wait for the replies on leaving.

    The wait ends without the rest after `seconds` without a reply. Raises `RequestUnanswered` where
    the connection fails or is out of patience.
    """
    inbox = connection.nc.new_inbox()
    try:
        async with subscribe_raw(connection.nc, inbox, answers.add_frame):
            yield inbox
            async with asyncio.timeout(connection.patience):
                await _wait_while_arriving(answers, seconds)
    except (errors.Error, TimeoutError) as error:
        raise RequestUnanswered("nats", f"no end of a batch: {type(error).__name__}") from error
    if answers.no_responders:
        raise RequestNotSent("nats", "no server answers for the stream")


async def _wait_while_arriving(answers: _BatchReplies, seconds: float) -> None:
    """Wait until all replies are there, or for `seconds` none has arrived."""
    before: tuple[int, int] | None = None
    while not answers.done.is_set() and before != (at := (len(answers.frames), answers.remaining)):
        before = at
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await answers.done.wait()
