"""A snapshot that the server cannot read costs the snapshots, and never an answer or a write."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.servers.store_damage import StoredStream
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamSnapshotStore, open_client
from turnlog.events.jetstream.nats_connection import wait_backoff
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.subjects import SNAPSHOTS_STREAM
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

SEQUENCE_OFFSET = 5
"""Where the second byte of the sequence lies in a record."""

SUBJECT_OFFSET = 30
"""Within the subject, for it follows a head of 22 bytes."""


@asynccontextmanager
async def open_snapshots(folder: Path) -> AsyncGenerator[JetStreamSnapshotStore]:
    async with (
        await NatsServer.start(NatsConfig(data_dir=folder)) as server,
        open_client(server.url, StreamOptions()) as client,
    ):
        yield client.snapshots


async def store_snapshots(folder: Path) -> StoredStream:
    """Store three snapshots, stop the server in good order, and return its stream."""
    async with open_snapshots(folder) as snapshots:
        for session in ("first", "second", "third"):
            await snapshots.put_snapshot("t", session, b"a state " * 20)
    return StoredStream(folder, SNAPSHOTS_STREAM)


# A server that replaces such a message answers nobody, or removes the new message, or hangs.
@pytest.mark.parametrize("offset", [None, SUBJECT_OFFSET, SEQUENCE_OFFSET])
@pytest.mark.parametrize("damaged", [1, 2, 3])
async def test_damaged_snapshot_is_dropped_before_it_is_replaced(
    tmp_path: Path, damaged: int, offset: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    (await store_snapshots(tmp_path)).flip_byte(damaged, offset)
    session = ("first", "second", "third")[damaged - 1]
    async with open_snapshots(tmp_path) as snapshots:
        assert await snapshots.get_snapshot("t", session) is None
        for state in (b"newer", b"newest"):
            await snapshots.put_snapshot("t", session, state)
            assert await snapshots.get_snapshot("t", session) == state
    (line,) = [each.getMessage() for each in caplog.records if "dropped" in each.getMessage()]
    assert line == f"snapshots-dropped: snapshot.t.{session} or another one is damaged"


async def test_snapshots_with_a_lost_file_can_be_stored_again(tmp_path: Path) -> None:
    (await store_snapshots(tmp_path)).block.unlink()
    async with open_snapshots(tmp_path) as snapshots:
        for session in ("first", "second", "third"):
            await snapshots.put_snapshot("t", session, b"newer")
            assert await snapshots.get_snapshot("t", session) == b"newer"


async def test_intact_snapshots_are_kept_when_one_is_replaced(tmp_path: Path) -> None:
    await store_snapshots(tmp_path)
    async with open_snapshots(tmp_path) as snapshots:
        for session in ("first", "fourth"):
            await snapshots.put_snapshot("t", session, b"newer")
        assert await snapshots.get_snapshot("t", "second") == b"a state " * 20


async def test_client_continues_with_a_server_that_restarts_without_snapshots(
    tmp_path: Path,
) -> None:
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as client,
    ):
        await client.snapshots.put_snapshot("t", "s", b"a state")
        await server.restart_without_snapshots("as if they were damaged")
        failures = 0
        while True:
            try:
                assert await client.snapshots.get_snapshot("t", "s") is None
                await client.snapshots.put_snapshot("t", "s", b"newer")
                break
            except Unavailable:  # Until it has reconnected.
                failures += 1
                await wait_backoff(failures)
        assert await client.snapshots.get_snapshot("t", "s") == b"newer"
