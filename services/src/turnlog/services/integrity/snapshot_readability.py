"""Whether a server can read all of its snapshots, asked before anything is written to it.

The stream SNAPSHOTS is the only one whose writes remove messages. One message that the server
cannot read, in the file of the message that it removes, can make such a write loop for ever, and
with it everything that asks about the stream (2.15.1, seen). Who owns the server therefore reads
the stream once when it starts, by headers alone; the server checks each message for that.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.js_api import JsApiError, StreamInfo, fetch_stream_info
from turnlog.events.jetstream.nats_connection import NatsConnection, open_connection
from turnlog.events.jetstream.stream_reader import stream_deliveries
from turnlog.events.jetstream.stream_setup import STREAM_NOT_FOUND
from turnlog.events.subjects import ALL_SNAPSHOT_SUBJECTS, SNAPSHOTS_STREAM

MAX_CHECK_SECONDS: Final = 20.0
"""What is not read within this time counts as readable."""

MAX_SILENCES: Final = 3
"""How often the server may fall silent before it counts as unable to read; some seconds each."""

MAX_IDLE_BEATS: Final = 2
"""Heartbeats in a row without a message until the server counts as having read everything."""


async def find_snapshot_fault(server_url: str) -> str | None:
    """Return why the snapshots of a server are not usable, or None."""
    async with open_connection(server_url, name="turnlog-start") as connection:
        for silences in range(1, MAX_SILENCES + 1):
            try:
                async with asyncio.timeout(MAX_CHECK_SECONDS):
                    return await _read_snapshots(connection)
            except TimeoutError:
                return None
            except Unavailable as error:
                if silences == MAX_SILENCES:
                    return f"the server does not deliver them: {error}"
    return None


async def _read_snapshots(connection: NatsConnection) -> str | None:
    try:
        info = await fetch_stream_info(connection, SNAPSHOTS_STREAM)
    except JsApiError as denied:
        if denied.code == STREAM_NOT_FOUND:
            return None
        raise
    readable = await _count_readable(connection, info) if info.message_count else 0
    # There is one under each subject.
    damaged = info.distinct_subjects - readable
    return f"{damaged} of {info.distinct_subjects} are damaged" if damaged > 0 else None


async def _count_readable(connection: NatsConnection, info: StreamInfo) -> int:
    deliveries = stream_deliveries(
        connection, SNAPSHOTS_STREAM, ALL_SNAPSHOT_SUBJECTS, 0, headers_only=True
    )
    count = idle_beats = 0
    async with aclosing(deliveries) as batches:
        async for batch in batches:
            count += len(batch.events)
            # A heartbeat without a message: the server has read what it can.
            idle_beats = idle_beats + 1 if batch.passed and not batch.events else 0
            has_ended = batch.is_drained or batch.passed >= info.last_sequence
            if has_ended or idle_beats == MAX_IDLE_BEATS:
                break
    return count
