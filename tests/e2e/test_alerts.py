"""Alerts of a whole service: what ships tells a receiver, and projectors measure together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.doc_pages import ROOT
from tests.support.processes.live_service import LiveService
from tests.support.processes.process_host import POLL_INTERVAL, run_process_host
from tests.support.processes.separate_roles import (
    MODEL_NAME,
    run_separate_roles,
)
from tests.support.servers.model_behaviours import ModelRefusal
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.postgres_server import PostgresServer
from tests.support.webhooks.sample_receiver import (
    check_forged_ones_are_refused,
    create_sample_receiver,
    run_service,
)
from turnlog.services.cli.alerts.alert_file import read_alert_file

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

        await roles.start_role("projector")
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


async def test_failing_provider_raises_an_alert_that_a_receiver_gets_signed_until_it_is_cleared(
    provider: OpenAIServer, tmp_path: Path
) -> None:
    receiver = create_sample_receiver(tmp_path)
    variables = {
        **INTERVAL,
        "OPENAI_API_BASE": provider.url,
        "OPENAI_API_KEY": "sk-of-nobody",
        "TURNLOG_MODEL": MODEL_NAME,
        "TURNLOG_WEBHOOK_TARGETS": f"http://127.0.0.1:{receiver.port}",
    }
    failing = {"name": "failing", "measure": "failed_share", "above": 0.5, "window": "15m"}
    async with run_process_host(tmp_path, variables) as host, run_service(host) as up:
        service = up.service
        shipped = read_alert_file(ROOT / "deploy/alerts.yaml")
        await set_rules(service, *shipped, failing | {"where": {"blueprint": "assistant"}})
        body = {"name": "oncall", "url": f"http://127.0.0.1:{receiver.port}/in", "alerts": True}
        added = await service.http.post("/v1/webhooks", json=body)
        assert added.status_code == 201, added.text
        receiver.secret = added.json()["secret"]
        async with receiver.run():
            session = await service.open_session("assistant")
            provider.queue_behaviours(ModelRefusal(status=401))
            failed = await service.run_turn(session, "Is anybody there?")
            assert failed["status"] == "failed"
            await wait_until_printed(receiver.printed, "failing turnlog.alert-raised.v1")
            shown = (await service.get_json("/v1/alerts/failing"))["alert"]
            assert (shown["status"], shown["value"], shown["sessions"]) == ("raised", 1, [session])
            await check_forged_ones_are_refused(receiver)
            for _ in range(2):
                done = await service.run_turn(session, "And now?")
                assert done["status"] == "completed"
            await wait_until_printed(receiver.printed, "failing turnlog.alert-cleared.v1")
        told = [line.split() for line in receiver.printed if " failing " in line]
        assert [kind for *_, kind in told] == [
            "turnlog.alert-raised.v1",
            "turnlog.alert-cleared.v1",
        ]
        text = str(await service.get_json("/v1/alerts/failing/history"))
        assert "Is anybody" not in text


async def wait_until_printed(printed: list[str], end: str) -> None:
    """Wait until a receiver has printed a line that ends so."""

    async def is_printed() -> bool:
        return any(line.endswith(end) for line in printed)

    await wait_until(is_printed)
