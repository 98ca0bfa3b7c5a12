"""A server is asked whether it can read its snapshots, and starts without those it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.support.servers.store_damage import StoredStream
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.subjects import SNAPSHOTS_STREAM
from turnlog.services.integrity.snapshot_readability import find_snapshot_fault
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

LENGTH_OFFSET = 1
"""Where the second byte of the length lies in a record."""

SEQUENCE_OFFSET = 10
"""Where the last but one byte of the sequence lies in a record."""


async def store_snapshots(folder: Path) -> StoredStream:
    """Store three snapshots, stop the server in good order, and return its stream."""
    async with (
        await NatsServer.start(NatsConfig(data_dir=folder)) as server,
        open_client(server.url, StreamOptions()) as client,
    ):
        for session in ("first", "second", "third"):
            await client.snapshots.put_snapshot("t", session, b"a state " * 20)
    return StoredStream(folder, SNAPSHOTS_STREAM)


async def find_fault(folder: Path) -> str | None:
    async with await NatsServer.start(NatsConfig(data_dir=folder)) as server:
        return await find_snapshot_fault(server.url)


async def test_readable_snapshots_have_no_fault(tmp_path: Path) -> None:
    assert await find_fault(tmp_path) is None
    await store_snapshots(tmp_path)
    assert await find_fault(tmp_path) is None


@pytest.mark.parametrize("damaged", [1, 2, 3])
async def test_altered_snapshot_is_reported(tmp_path: Path, damaged: int) -> None:
    (await store_snapshots(tmp_path)).flip_byte(damaged)
    assert await find_fault(tmp_path) == "1 of 3 are damaged"


@pytest.mark.parametrize(("damaged", "lost"), [(1, 3), (2, 2), (3, 1)])
async def test_snapshots_after_an_altered_length_are_reported(
    tmp_path: Path, damaged: int, lost: int
) -> None:
    (await store_snapshots(tmp_path)).flip_byte(damaged, LENGTH_OFFSET)
    assert await find_fault(tmp_path) == f"{lost} of 3 are damaged"


async def test_server_that_hangs_on_its_snapshots_starts_after_they_are_dropped(
    tmp_path: Path,
) -> None:
    stored = await store_snapshots(tmp_path)
    # It would count up to a sequence of fifteen digits.
    stored.flip_byte(2, SEQUENCE_OFFSET)
    with capture_logs() as logs:
        async with await NatsServer.start(NatsConfig(data_dir=tmp_path), timeout=3) as server:
            assert await find_snapshot_fault(server.url) is None
            async with open_client(server.url, StreamOptions()) as client:
                assert await client.snapshots.get_snapshot("t", "first") is None
    assert [each["event"] for each in logs] == ["snapshots-dropped"]
    assert "not ready in 3 s" in logs[0]["reason"]
