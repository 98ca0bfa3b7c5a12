"""Watches whether the streams of the record have lost a message; readiness reports it.

A server that recovers a store trusts its index and does not read the blocks, so a message that was
altered on disk is found only by reading. A gateway therefore reads the streams once after its
start, in the background and with pauses. From then on it compares the counts that the server keeps
for each stream: every sequence from 1 to the last must have its message.

What was found stays until the process ends: a record that is restored needs a new process anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.jetstream.js_api import fetch_stream_info
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.stream_setup import RECORD_STREAMS
from turnlog.events.store.ports import BlobStore, EventLog, RawEvent

COUNT_SECONDS: Final = 5.0
"""Seconds between two comparisons of the counts."""

SCAN_PAUSE_SECONDS: Final = 0.002
"""Seconds without a read after each batch, in which the process does its other work."""

_log = structlog.get_logger("turnlog.record")


@dataclass
class RecordWatch:
    """The first loss of a message that this process knows of."""

    loss: Corrupt | None = None

    async def check_record(self) -> None:
        """Raise `Corrupt` if a message of the record is known to be lost."""
        if self.loss is not None:
            raise self.loss

    def report_loss(self, loss: Corrupt) -> None:
        """Remember a loss, and log the first one as an error."""
        if self.loss is None:
            self.loss = loss
            _log.error("record-damaged", where=loss.where, detail=loss.detail)

    @asynccontextmanager
    async def watch_streams(
        self, connection: NatsConnection, log: EventLog, library: EventLog, blobs: BlobStore
    ) -> AsyncGenerator[None]:
        """Watch the streams while the body runs; their counts have been compared once before."""
        await self._compare_counts(connection)
        tasks = (
            asyncio.create_task(self._scan_streams(log, library, blobs)),
            asyncio.create_task(self._keep_comparing_counts(connection)),
        )
        try:
            yield
        finally:
            await cancel_tasks(*tasks)

    async def _keep_comparing_counts(self, connection: NatsConnection) -> None:
        while self.loss is None:
            await asyncio.sleep(COUNT_SECONDS)
            await self._compare_counts(connection)

    async def _compare_counts(self, connection: NatsConnection) -> None:
        try:
            for stream in RECORD_STREAMS:
                await check_message_count(connection, stream)
        except Corrupt as loss:
            self.report_loss(loss)
        except Unavailable:
            pass  # Readiness reports an unreachable server itself.

    async def _scan_streams(self, log: EventLog, library: EventLog, blobs: BlobStore) -> None:
        for batches in (
            log.stream_raw_events(None, 0, live=False),
            library.stream_raw_events(None, 0, live=False),
            blobs.stream_raw_blobs(0),
        ):
            try:
                await _read_to_end(batches)
            except Corrupt as loss:
                self.report_loss(loss)
            except Unavailable as error:
                _log.warning("record-not-read", what=error.what, detail=error.detail)


async def check_message_count(connection: NatsConnection, stream: str) -> None:
    """Raise `Corrupt` unless the stream has as many messages as its last sequence says."""
    info = await fetch_stream_info(connection, stream)
    if (lost := info.last_sequence - info.message_count) > 0:
        detail = f"{lost} of {info.last_sequence} messages are missing"
        raise Corrupt(f"stream {stream}", f"{detail}: restore the stream from a backup")


async def _read_to_end(batches: AsyncGenerator[Sequence[RawEvent]]) -> None:
    async with aclosing(batches):
        async for _ in batches:
            await asyncio.sleep(SCAN_PAUSE_SECONDS)
