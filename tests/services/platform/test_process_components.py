"""A process that finds no server of NATS says what it waits for, without the password."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.processes.process_host import POLL_INTERVAL, find_free_port
from turnlog.events.async_tasks import cancel_tasks
from turnlog.services import process_components
from turnlog.services.platform.process_settings import ProjectorSettings
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.process_components import connect_components


def list_notices(logged: Sequence[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    return [each for each in logged if each["event"] == "waiting-for-nats"]


async def test_start_without_a_nats_server_logs_the_awaited_address_without_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_components, "NOTICED_WAIT", 0.0)
    place = f"127.0.0.1:{find_free_port()}"
    settings = ProjectorSettings.model_validate({"nats_url": f"nats://me:secret@{place}"})

    async def connect() -> None:
        async with connect_components(settings, "projector", Shutdown()):
            pass

    with capture_logs() as logged:
        connecting = asyncio.create_task(connect())
        async with asyncio.timeout(60):
            while not list_notices(logged):  # noqa: ASYNC110
                await asyncio.sleep(POLL_INTERVAL)
        await cancel_tasks(connecting)
    (notice,) = list_notices(logged)
    assert (notice["role"], notice["address"].rpartition("@")[2]) == ("projector", place)
    assert "secret" not in str(logged)
