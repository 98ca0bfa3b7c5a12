"""A snapshot that somebody else put into the store is not believed, even if it fits the log."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.support.processes.live_service import TENANT
from tests.support.processes.process_host import run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.state import FOLD_VERSION, SessionState
from turnlog.services.caches.session_snapshots import KEY_FILE, StateSnapshot

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("processes of the service start, stop and recover"),
]


async def forge_snapshot(up: TurnlogUp, forged: SessionState) -> None:
    """Store a state under the right head, as a release without keys wrote it."""
    log, store = up.service.nats.log, up.service.nats.snapshots
    identity = await log.get_identity(TENANT)
    snapshot = StateSnapshot(identity.stream, identity.created, FOLD_VERSION, forged)
    packed = zlib.compress(TypeAdapter(StateSnapshot).dump_json(snapshot))
    for stored in (packed, bytes(32) + packed):
        await store.put_snapshot(TENANT, forged.session, stored)
        await store.put_snapshot(TENANT, forged.session, stored, 1)


async def get_window(up: TurnlogUp, session: str) -> Any:  # noqa: ANN401 - JSON
    """Return the messages of the next call."""
    return (await up.service.get_json(f"/v1/sessions/{session}/window"))["messages"]


async def test_window_after_a_restart_ignores_a_forged_snapshot(
    provider: OpenAIServer, tmp_path: Path
) -> None:
    settings = {
        name: value
        for name, value in build_settings(provider).items()
        if name != "TURNLOG_SNAPSHOT_KEY"
    }
    async with run_process_host(tmp_path, settings) as host:
        async with run_turnlog_up(host) as up:
            key = up.ready_file.with_name(KEY_FILE).read_text()
            session = await up.service.open_session()
            for text in ("My name is Ada", "And the weather?"):
                await up.service.run_turn(session, text)
            window = await get_window(up, session)
            assert "Ada" in str(window)
            state = fold(await up.service.list_events(session))
            assert state is not None
            await forge_snapshot(up, replace(state, turns=(), submitted=7, closed=True))
        async with run_turnlog_up(host) as up:
            assert up.ready_file.with_name(KEY_FILE).read_text() == key
            assert await get_window(up, session) == window
            turn = await up.service.run_turn(session, "What is my name?")
            assert turn["turn"] == 3
