"""Webhooks of a whole service: the receiver of the documentation, and kills of both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.live_service import LiveService
from tests.support.processes.process_host import run_process_host
from tests.support.processes.separate_roles import (
    build_settings,
    run_separate_roles,
)
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.postgres_server import PostgresServer
from tests.support.webhooks.sample_receiver import (
    check_forged_ones_are_refused,
    create_sample_receiver,
    run_service,
)
from tests.support.webhooks.webhook_receiver import WebhookReceiver

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("a service is killed and started again"),
]


async def list_stored(service: LiveService, session: str) -> list[int]:
    """Return the positions of a session's events."""
    found = await service.nats.log.read_last_event("default", session)
    assert found is not None
    events = await service.nats.log.read_range("default", session, None, found)
    return [each.stream_sequence for each in events]


async def test_killed_service_and_killed_receiver_lose_no_delivery_and_forged_ones_are_refused(
    provider: OpenAIServer, tmp_path: Path
) -> None:
    receiver = create_sample_receiver(tmp_path)
    variables = {
        **build_settings(provider),
        "TURNLOG_WEBHOOK_TARGETS": f"http://127.0.0.1:{receiver.port}",
        "TURNLOG_WEBHOOK_DELAYS": ",".join(["0.3"] * 20),
    }
    async with run_process_host(tmp_path, variables) as host:
        async with run_service(host) as up:
            body = {"name": "sample", "url": f"http://127.0.0.1:{receiver.port}/in"}
            added = await up.service.http.post("/v1/webhooks", json=body)
            assert added.status_code == 201, added.text
            receiver.secret = added.json()["secret"]
            session = await up.service.open_session()
            await up.service.run_turn(session, "Is anybody there?")
            async with receiver.run():
                stored = await list_stored(up.service, session)
                await receiver.wait_for(session, stored)
                await check_forged_ones_are_refused(receiver)
            # The receiver is killed, and while it is away the service as well.
            await up.service.run_turn(session, "And now?")
            up.process.kill_process()
            await up.process.wait_for_exit()
        async with receiver.run(), run_service(host) as again:
            stored = await list_stored(again.service, session)
            await receiver.wait_for(session, stored)
            other = await again.service.open_session()
            await again.service.run_turn(other, "Something else.")
            await receiver.wait_for(other, await list_stored(again.service, other))
            assert receiver.list_positions(session) == await list_stored(again.service, session)
            assert receiver.list_positions(other) == await list_stored(again.service, other)


async def test_killed_projector_is_followed_by_another_one_that_repeats_little_and_skips_nothing(
    provider: OpenAIServer, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    receiver = WebhookReceiver()
    async with (
        receiver.listen(),
        run_separate_roles(
            tmp_path,
            provider,
            postgres_server,
            {"TURNLOG_WEBHOOK_KEY": "5e" * 32, "TURNLOG_WEBHOOK_TARGETS": receiver.origin},
        ) as roles,
    ):
        body = {"name": "sample", "url": receiver.url, "after": 0}
        added = await roles.service.http.post("/v1/webhooks", json=body)
        assert added.status_code == 201, added.text
        sessions = [await play_turns(roles.service, 2) for _ in range(3)]
        for session in sessions:
            await receiver.wait_for_positions(set(await list_stored(roles.service, session)))
        standby = await roles.start_role("projector")
        roles.projector.kill_process()
        await roles.projector.wait_for_exit()
        sessions.append(await play_turns(roles.service, 2))
        for session in sessions:
            await receiver.wait_for_positions(set(await list_stored(roles.service, session)))
        by_session = receiver.list_by_session()
        for session in sessions:
            first_seen = list(dict.fromkeys(by_session[session]))
            assert first_seen == await list_stored(roles.service, session)
        assert all(each.has_signature_of(added.json()["secret"]) for each in receiver.tried)
        assert standby.returncode is None


async def play_turns(service: LiveService, count: int) -> str:
    """Open a session and cancel turns of it, which needs no worker."""
    session = await service.open_session()
    for _ in range(count):
        await service.submit_turn(session)
        answer = await service.http.post(f"/v1/sessions/{session}/cancel")
        assert answer.status_code == 200, answer.text
    return session
