"""Requests to the JetStream API, whose answers are JSON: a result, or an error with a code.

Errors are distinguished by their codes, never by their texts.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from nats.js.api import Header
from pydantic import BaseModel

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import NatsConnection

LAST_DIFFERS_CODE: Final = 10071
"""The server's error code where the last message of a subject is not the expected one."""

IN_FLIGHT_CODE: Final = 10164
"""The code of a replicated stream for a subject whose message is being stored right now."""


class JsApiError(Unavailable):
    """The server refused the request; `code` is the server's error code."""

    def __init__(self, what: str, code: int, detail: str) -> None:
        super().__init__(what, f"{detail} ({code})")
        self.code = code


class PublishAck(BaseModel):
    """A stream's acknowledgement that a message is stored."""

    seq: int


class _JsApiFault(BaseModel):
    err_code: int = 0
    description: str = ""


JsApiReply = TypeVar("JsApiReply", bound=BaseModel)


async def request_json(
    connection: NatsConnection,
    subject: str,
    reply_type: type[JsApiReply],
    payload: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> JsApiReply:
    """Send a request and decode the answer.

    Raises `JsApiError`, `RequestNotSent` or `RequestUnanswered`.
    """
    message = await connection.send_request(subject, payload, headers)
    answer = json.loads(message.data)
    if "error" in answer:
        fault = _JsApiFault.model_validate(answer["error"])
        raise JsApiError(subject, fault.err_code, fault.description)
    return reply_type.model_validate(answer)


async def store_behind(
    connection: NatsConnection, subject: str, data: bytes, last: int
) -> int | None:
    """Store a message behind a stream sequence of its subject, or as its first one behind 0.

    Return its own stream sequence, or None if another message is the last one.
    """
    headers = {Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(last)}
    try:
        stored = await request_json(
            connection=connection,
            subject=subject,
            reply_type=PublishAck,
            payload=data,
            headers=headers,
        )
    except JsApiError as denied:
        if denied.code != LAST_DIFFERS_CODE:
            raise
        return None
    return stored.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """Information about a stream."""

    created: str
    """Creation time; it distinguishes a stream from one that was lost and created again."""
    first_sequence: int
    """The stream sequence of the first message; one more than the last if there is none."""
    last_sequence: int
    """The last stream sequence."""
    message_count: int
    """Messages that the server believes to have; it may find out later that it cannot read one."""
    server_time: datetime
    """The server's clock."""
    byte_count: int = 0
    """Stored bytes."""
    max_bytes: int = -1
    """The most bytes that the stream takes; -1 without a limit."""
    subject_count: int = 0
    """Messages that the server counts under the subjects asked for, readable or not."""
    distinct_subjects: int = 0
    """Subjects under which the server counts a message, readable or not."""

    @property
    def lost_count(self) -> int:
        """How many messages the server knows to be missing, if the stream never deletes one."""
        return self.last_sequence - self.message_count


class _StreamStateReply(BaseModel):
    first_seq: int
    last_seq: int
    messages: int
    bytes: int = 0
    subjects: dict[str, int] | None = None
    num_subjects: int = 0


CREATED_METADATA: Final = "turnlog-created"
"""Where the metadata of a stream say when it was created that it was made from, RFC 3339.

It has the same messages at the same places, without those that were moved into the archive.
"""

ARCHIVED_METADATA: Final = "turnlog-archived"
"""Where the metadata of a stream say how many messages the archive has in its place."""


class _StreamConfig(BaseModel):
    max_bytes: int = -1
    metadata: dict[str, str] = {}


NANOSECONDS_PER_SECOND: Final = 10**9

PEER_SILENCE: Final = 5.0
"""Seconds without a word of a replica after which its leader counts as cut off from it; replicas
that follow a leader answer every second.
"""


class _PeerReply(BaseModel):
    active: int = 0
    """Nanoseconds since the leader heard of it."""
    current: bool = False

    @property
    def is_heard(self) -> bool:
        """Whether it still answers the leader."""
        return (self.active > 0 or self.current) and (
            self.active < PEER_SILENCE * NANOSECONDS_PER_SECOND
        )


class _ClusterReply(BaseModel):
    leader: str = ""
    replicas: tuple[_PeerReply, ...] = ()

    @property
    def has_quorum(self) -> bool:
        """Whether most of the replicas, the leader among them, follow this leader."""
        heard = 1 + sum(peer.is_heard for peer in self.replicas)
        return 2 * heard > 1 + len(self.replicas)


class _StreamInfoReply(BaseModel):
    created: str
    config: _StreamConfig = _StreamConfig()
    state: _StreamStateReply
    ts: datetime
    cluster: _ClusterReply = _ClusterReply()
    total: int = 0
    """Subjects that match, of which a page is in the state."""


async def list_subjects(
    connection: NatsConnection, stream: str, subjects: str
) -> AsyncGenerator[str]:
    """Yield the subjects of a stream that match, as its leader has them, page by page.

    Those of what was moved into the archive come first, and may come again.
    """
    if archive := connection.find_archive(stream):
        for subject in await archive.list_subjects(subjects):
            yield subject
    offset = 0
    while True:
        request = json.dumps({"subjects_filter": subjects, "offset": offset}).encode()
        info = await request_json(
            connection, f"$JS.API.STREAM.INFO.{stream}", _StreamInfoReply, request
        )
        page = info.state.subjects or {}
        for subject in page:
            yield subject
        offset += len(page)
        if not page or offset >= info.total:
            return


async def fetch_stream_info(
    connection: NatsConnection, stream: str, subjects: str | None = None
) -> StreamInfo:
    """Return the stream's information from its leader, and the count under `subjects` if given.

    What was moved into the archive counts as if it were in the stream. Raises `Unavailable` also if
    the stream does not exist, and if the leader is cut off from most of the replicas: another one
    may have stored more.
    """
    request = b"" if subjects is None else json.dumps({"subjects_filter": subjects}).encode()
    subject = f"$JS.API.STREAM.INFO.{stream}"
    info = await request_json(connection, subject, _StreamInfoReply, request)
    if not info.cluster.has_quorum:
        raise Unavailable(
            "nats", f"{stream}: {info.cluster.leader or 'the leader'} is cut off from its replicas"
        )
    state, archive = info.state, connection.find_archive(stream)
    archived_under = await archive.count_messages(subjects) if archive and subjects else 0
    return StreamInfo(
        created=info.config.metadata.get(CREATED_METADATA, info.created),
        first_sequence=state.first_seq,
        last_sequence=state.last_seq,
        message_count=state.messages + (archive.count if archive else 0),
        server_time=info.ts,
        byte_count=state.bytes,
        max_bytes=info.config.max_bytes,
        subject_count=sum((state.subjects or {}).values()) + archived_under,
        distinct_subjects=state.num_subjects,
    )
