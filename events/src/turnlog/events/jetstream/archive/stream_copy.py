"""A stream as one file, written and loaded by the server's own API.

The file is what the server stores, compressed by it; its configuration and state are beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from nats import errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import BaseModel, JsonValue

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.js_api import request_json
from turnlog.events.jetstream.nats_connection import NatsConnection, RequestNotSent
from turnlog.events.jetstream.stream_setup import JetStreamConfig, get_metadata

CHUNK_BYTES: Final = 65_536

CHUNK_SECONDS: Final = 60.0
"""Seconds that a server may take for one chunk of a large stream."""

LOAD_TRIES: Final = 50
"""Tries to send the first chunk: the servers of a cluster may not know yet which one takes it."""


class StreamCopy(BaseModel):
    """The configuration and the state of a copied stream, as the server wants them back."""

    config: JetStreamConfig
    state: JetStreamConfig

    def add_metadata(self, name: str, value: str) -> StreamCopy:
        """Return the copy with one more entry in the metadata of the stream."""
        metadata: JsonValue = {**get_metadata(self.config), name: value}
        return StreamCopy(config=self.config | {"metadata": metadata}, state=self.state)


class _LoadBegun(BaseModel):
    deliver_subject: str


async def save_stream(connection: NatsConnection, stream: str, file: Path) -> StreamCopy:
    """Write a stream into a file that outlives a power loss; return what it had.

    Raises `Unavailable` where the copy did not reach its end.
    """
    async with _open_inbox(connection) as (inbox, chunks):
        request = {"deliver_subject": inbox, "chunk_size": CHUNK_BYTES}
        copy = await request_json(
            connection,
            f"$JS.API.STREAM.SNAPSHOT.{stream}",
            StreamCopy,
            json.dumps(request).encode(),
        )
        with file.open("wb") as opened:
            while True:
                chunk = await _take_chunk(chunks, stream)
                if not chunk.data:
                    break
                opened.write(chunk.data)
                if chunk.reply:  # The server waits for it before it sends more.
                    await chunk.respond(b"")
            opened.flush()
            os.fsync(opened.fileno())
    status = (chunk.headers or {}).get("Status", "204")
    if status != "204":
        raise Unavailable(f"stream {stream}", f"its copy ended with status {status}")
    return copy


@asynccontextmanager
async def _open_inbox(connection: NatsConnection) -> AsyncGenerator[tuple[str, Subscription]]:
    inbox = connection.nc.new_inbox()
    subscription = await connection.nc.subscribe(inbox)
    try:
        yield inbox, subscription
    finally:
        await subscription.unsubscribe()


async def _take_chunk(chunks: Subscription, stream: str) -> Msg:
    try:
        return await chunks.next_msg(timeout=CHUNK_SECONDS)
    except errors.Error as error:
        raise Unavailable(f"stream {stream}", f"copy stalled: {type(error).__name__}") from error


async def load_stream(
    connection: NatsConnection, stream: str, copy: StreamCopy, file: Path
) -> None:
    """Make a stream from a file, with the configuration of `copy`.

    There must be none of that name. That configuration may differ from the one that was saved.
    """
    begun = await request_json(
        connection, f"$JS.API.STREAM.RESTORE.{stream}", _LoadBegun, copy.model_dump_json().encode()
    )
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK_BYTES):
            await _send_chunk(connection, begun.deliver_subject, chunk)
    await request_json(connection, begun.deliver_subject, StreamCopy)


async def _send_chunk(connection: NatsConnection, inbox: str, chunk: bytes) -> None:
    for _ in range(LOAD_TRIES):
        try:
            await connection.send_request(inbox, chunk, patience=CHUNK_SECONDS)
        except RequestNotSent:
            await asyncio.sleep(0.1)
        else:
            return
    raise Unavailable("nats", "no server takes the copy of the stream")
