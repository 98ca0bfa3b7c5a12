"""A store without space: `/readyz` says so, and writes recover without a restart of the service."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.live_service import LiveService
from tests.support.processes.process_host import POLL_INTERVAL, ProcessHost
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from turnlog.events.errors import Unavailable
from turnlog.events.subjects import SESSIONS_STREAM

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes of the service start, stop and recover"),
]

MEGABYTE = 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    """A disk of 48 MB, in memory; only root may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)):
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)  # noqa: S607


def mount(*options: str) -> bool:
    return subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0  # noqa: S607


async def test_full_stream_is_reported_and_writes_recover_once_it_is_enlarged(
    up: TurnlogUp,
) -> None:
    stream = up.service.nats.connection.nc.jetstream()
    info = await stream.stream_info(SESSIONS_STREAM)
    await stream.update_stream(info.config.evolve(max_bytes=info.state.bytes + 1))
    try:
        readiness = await wait_for_readiness(up.service, 503)
        assert "max_bytes" in readiness["parts"]["space"]["detail"]
        await assert_write_refused(up.service)
    finally:
        await stream.update_stream(info.config)
    await wait_for_readiness(up.service, 200)
    await up.service.open_session()


async def test_server_at_its_limit_accepts_writes_once_the_disk_has_grown(
    host: ProcessHost, disk: Path
) -> None:
    async with run_turnlog_up(replace(host, folder=disk)) as up:
        session = await up.service.open_session()
        await fill_store(up.service)
        readiness = await wait_for_readiness(up.service, 503)
        assert "no space" in readiness["parts"]["space"]["detail"]
        await assert_write_refused(up.service)
        assert mount("-o", "remount,size=400m", str(disk))
        await wait_for_readiness(up.service, 200)
        await up.service.submit_turn(session)


async def test_server_with_a_full_disk_accepts_writes_once_it_has_space(
    host: ProcessHost, disk: Path
) -> None:
    async with run_turnlog_up(replace(host, folder=disk)) as up:
        session = await up.service.open_session()
        ballast = disk / "ballast"
        free = os.statvfs(disk)
        await asyncio.to_thread(ballast.write_bytes, bytes(free.f_bavail * free.f_bsize - MEGABYTE))
        await fill_store(up.service)
        readiness = await wait_for_readiness(up.service, 503)
        assert "no space left on device" in readiness["parts"]["space"]["detail"]
        ballast.unlink()
        await wait_for_readiness(up.service, 200)
        await up.service.submit_turn(session)


async def fill_store(service: LiveService) -> None:
    """Write until a write is refused."""
    with suppress(Unavailable):
        for number in range(10_000):
            await service.nats.snapshots.put_snapshot("default", f"s{number}", os.urandom(100_000))
        raise AssertionError("the store is never full")


async def assert_write_refused(service: LiveService) -> None:
    answer = await service.http.post("/v1/sessions", json={"blueprint": "assistant"})
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


async def wait_for_readiness(service: LiveService, status: int) -> dict[str, Any]:
    """Wait until `/readyz` answers with a status; when it is 503, because of space."""
    async with asyncio.timeout(60):
        while True:
            answer = await service.http.get("/readyz")
            found = dict(answer.json())
            if answer.status_code == status and found["parts"]["space"]["ready"] is (status == 200):
                return found
            await asyncio.sleep(POLL_INTERVAL)
