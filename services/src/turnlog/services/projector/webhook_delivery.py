"""The deliveries to webhooks of a projector process, if the installation has a key for them."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from turnlog.services.platform.clock import read_clock
from turnlog.services.platform.process_settings import ProjectorSettings
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.process_components import ProcessComponents
from turnlog.services.webhooks.webhook_keys import get_webhook_key


@asynccontextmanager
async def run_webhooks(
    settings: ProjectorSettings, parts: ProcessComponents, ending: Shutdown, *, is_alone: bool
) -> AsyncGenerator[None]:
    """Deliver to the webhooks of the configured tenant while the body runs."""
    key = get_webhook_key(settings)
    if key is None:
        yield
        return
    # A projector without webhooks does without an HTTP client: 4.6 MB.
    from turnlog.services.webhooks.delivery.webhook_deliverer import (  # noqa: PLC0415
        WebhookDeliverer,
        run_deliverer,
    )
    from turnlog.services.webhooks.delivery.webhook_runner import DeliveryTerms  # noqa: PLC0415
    from turnlog.services.webhooks.delivery.webhook_sender import open_sender  # noqa: PLC0415

    async with open_sender(read_clock, settings.webhook_targets) as sender:
        deliverer = WebhookDeliverer(
            tenant=settings.tenant,
            name=f"{socket.gethostname()}-{os.getpid()}",
            key=key,
            log=parts.log,
            tokens=parts.tokens,
            service=parts.create_webhook_service(),
            sender=sender,
            terms=DeliveryTerms(retry_delays=settings.webhook_delays),
            is_alone=is_alone,
        )
        async with run_deliverer(deliverer, ending, settings.grace):
            yield
