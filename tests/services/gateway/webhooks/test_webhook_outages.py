"""Deliveries while nats-server is restarted: the deliverer goes on, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.gateway.gateway_service import start_service
from tests.services.gateway.webhooks.webhook_stand import open_webhook_stand
from tests.support.webhooks.webhook_receiver import WebhookReceiver
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

pytestmark = pytest.mark.slow("a server is restarted, and a lease lapses")


@pytest.mark.parametrize("is_alone", [True, False])
async def test_deliverer_goes_on_after_its_server_was_restarted(
    tmp_path: Path, *, is_alone: bool
) -> None:
    receiver = WebhookReceiver()
    async with (
        receiver.listen(),
        await NatsServer.start(NatsConfig(data_dir=tmp_path / "nats")) as server,
        open_client(server.url, StreamOptions()) as backend,
        start_service(backend, "default", tmp_path, working=False) as gateway,
        open_webhook_stand(gateway, receiver) as hooks,
    ):
        first = await hooks.play_session(2)
        await hooks.add_webhook()
        async with hooks.deliver(is_alone=is_alone, lease_seconds=3, seconds=1):
            await receiver.wait_for_positions(set(await hooks.list_positions(first)))
            await server.restart()
            later = await hooks.play_session(2)
            await receiver.wait_for_positions(set(await hooks.list_positions(later)))
            again = await hooks.play_session(1)
            await receiver.wait_for_positions(set(await hooks.list_positions(again)))
        for session in (first, later, again):
            seen = list(dict.fromkeys(receiver.list_by_session()[session]))
            assert seen == await hooks.list_positions(session)
