"""Alerts of a whole service: projectors that measure together, and are killed in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.live_service import LiveService
from tests.support.processes.process_host import POLL_INTERVAL
from tests.support.processes.separate_roles import WITHOUT_LITELLM, run_separate_roles
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.postgres_server import PostgresServer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes are killed and started again"),
]

WAIT_SECONDS = 90

INTERVAL = {"TURNLOG_ALERT_INTERVAL": "0.2"}

ALWAYS = {"measure": "projector_lag", "above": -1}
"""A rule by which the alert is raised as soon as it has been so for long enough."""


async def set_rules(service: LiveService, *rules: Mapping[str, Any]) -> None:
    answer = await service.http.put("/v1/alerts", json={"alerts": [*rules]})
    assert answer.status_code == 200, answer.text


async def list_events(service: LiveService, name: str) -> list[tuple[str, str]]:
    """Return the names of the events of an alert with the times, in order."""
    answer = await service.http.get(f"/v1/alerts/{name}/history?limit=200")
    found = [(each["event"], each["at"]) for each in answer.json()["events"]]
    return found[::-1]


async def wait_until(is_met: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not await is_met():  # noqa: ASYNC110 - other processes record it
            await asyncio.sleep(POLL_INTERVAL)


async def test_projectors_raise_an_alert_once_and_go_on_where_one_was_killed(
    provider: OpenAIServer, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    async with run_separate_roles(tmp_path, provider, postgres_server, INTERVAL) as roles:
        service = roles.service

        async def has_events(name: str, count: int) -> bool:
            return len(await list_events(service, name)) >= count

        await roles.machine.start_process("run", "projector", variables=WITHOUT_LITELLM)
        together = [f"together-{number}" for number in range(5)]
        rules = [{"name": name} | ALWAYS for name in together]
        await set_rules(service, *rules, {"name": "held", "for": "4s"} | ALWAYS)
        await wait_until(lambda: has_events("held", 1))
        roles.projector.kill_process()
        await roles.projector.wait_for_exit()
        await wait_until(lambda: has_events("held", 2))
        await roles.start_projector()
        # All measure again, which the alert that is new now shows.
        await set_rules(service, {"name": "later", "for": "1s"} | ALWAYS)
        await wait_until(lambda: has_events("later", 2))
        held = await list_events(service, "held")
        assert [name for name, _ in held] == ["alert-threshold-crossed", "alert-raised"]
        for alert in together:
            assert [name for name, _ in await list_events(service, alert)] == ["alert-raised"]
        shown = await service.get_json("/v1/alerts/held")
        assert (shown["alert"]["status"], shown["alert"]["value"]) == ("raised", 0)
