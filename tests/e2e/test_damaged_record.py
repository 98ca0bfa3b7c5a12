"""A lost event stops its own session, loudly, and no longer than until the stream is restored."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.processes.process_host import POLL_INTERVAL, find_free_port
from tests.support.processes.separate_roles import SeparateRoles
from tests.support.servers.nats_store_copies import copy_store, extend_store, restore_store
from tests.support.servers.store_damage import StoredStream
from turnlog.events.store.ports import EventLog, SnapshotStore
from turnlog.events.subjects import NOTES_TENANT, SESSIONS_STREAM, SNAPSHOTS_STREAM

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes of the service start, stop and recover"),
]


async def test_lost_event_stops_its_session_until_the_stream_is_restored(
    separate: SeparateRoles, tmp_path: Path
) -> None:
    service, folder = separate.service, separate.machine.folder / "nats"
    health = f"127.0.0.1:{find_free_port()}"
    separate.projector.kill_process()
    await separate.start_role("projector", {"TURNLOG_HEALTH": health})
    await wait_for_readiness(separate, f"http://{health}", lambda parts: parts["record"]["ready"])
    damaged, whole, gone = [await service.open_session() for _ in range(3)]
    for session in (damaged, whole):
        await service.submit_turn(session)
    await service.get_json(f"/v1/sessions/{whole}/calls", min_sequence=2)
    await copy_store(separate.server, folder, tmp_path / "damaged")
    await extend_store(tmp_path / "damaged", stop_in_good_order)
    # The first event of one session is altered, and the only one of another is gone.
    StoredStream(tmp_path / "damaged", "SESSIONS").drop_sequence(3)
    await extend_store(tmp_path / "damaged", stop_in_good_order)
    StoredStream(tmp_path / "damaged", "SESSIONS").flip_byte(1)
    await restore_store(separate.server, folder, tmp_path / "damaged")
    for address in ("", f"http://{health}"):
        readiness = await wait_for_damage(separate, address, f"stopped: {damaged}")
        assert readiness["parts"]["record"]["detail"].startswith("stream SESSIONS: sequence 1 is")
        assert readiness["ready"], readiness
    await assert_stopped(separate, f"/v1/sessions/{damaged}/cancel", {})
    await assert_note_outlives_snapshots(separate)
    await wait_for_damage(separate, "", f"stopped: {damaged}")
    # A gateway that has not seen a session would open it again, but for its read models.
    separate.gateway.kill_process()
    await separate.gateway.wait_for_exit()
    await separate.start_gateway()
    await assert_stopped(separate, "/v1/sessions", {"blueprint": "assistant", "session": gone})
    assert (await service.http.post(f"/v1/sessions/{whole}/cancel", json={})).is_success
    await service.submit_turn(await service.open_session())
    # The altered event is repaired while the roles run; the other stays lost.
    os.kill(separate.server.pid, signal.SIGKILL)
    await separate.server.wait_for_exit()
    StoredStream(folder, "SESSIONS").flip_byte(1)
    await separate.server.restart()
    await wait_for_damage(separate, "", "SESSIONS: sequence 3 is")
    assert (await service.http.post(f"/v1/sessions/{damaged}/cancel", json={})).is_success


async def assert_stopped(separate: SeparateRoles, path: str, body: dict[str, str]) -> None:
    refused = await separate.service.http.post(path, json=body)
    assert (refused.status_code, refused.json()["code"]) == (500, "corrupt"), refused.text
    assert "it is stopped, for an event is lost" in refused.json()["detail"]


async def assert_note_outlives_snapshots(separate: SeparateRoles) -> None:
    """Drop all snapshots; the projector saves its note again, without reading for it."""
    nats = separate.service.nats
    note = await wait_for_note(nats.snapshots)
    await nats.connection.nc.jetstream().purge_stream(SNAPSHOTS_STREAM)
    assert await wait_for_note(nats.snapshots) == note


async def wait_for_note(snapshots: SnapshotStore) -> dict[str, Any]:
    """Return the note about a reading of all sessions, once it is stored."""
    async with asyncio.timeout(60):
        while True:
            stored = await snapshots.get_snapshot(NOTES_TENANT, SESSIONS_STREAM)
            if stored is not None and (note := dict(json.loads(stored)))["is_complete"]:
                return note
            await asyncio.sleep(POLL_INTERVAL)


async def stop_in_good_order(log: EventLog) -> None:
    """Do nothing: a server that was stopped so trusts its index when it starts again."""


async def wait_for_damage(separate: SeparateRoles, address: str, naming: str) -> dict[str, Any]:
    """Wait until the damage that `/readyz` names first is this one; return the answer."""
    return await wait_for_readiness(
        separate, address, lambda parts: naming in str(parts["record"]["detail"])
    )


async def wait_for_readiness(
    separate: SeparateRoles, address: str, such: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Wait until the parts that `/readyz` names are such; return the answer."""
    async with asyncio.timeout(60):
        while True:
            with suppress(httpx.TransportError):
                answer = (await separate.service.http.get(f"{address}/readyz")).json()
                if such(answer["parts"]):
                    return dict(answer)
            await asyncio.sleep(POLL_INTERVAL)
