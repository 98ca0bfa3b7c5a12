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
    """Deliver to the webhooks of all tenants while the body runs."""
    key = get_webhook_key(settings)
    if key is None:
        yield
        return
    # A projector without webhooks does without an HTTP client: 4.6 MB.
    from turnlog.services.webhooks.delivery.delivery_metrics import (  # noqa: PLC0415
        DeliveryMetrics,
    )
    from turnlog.services.webhooks.delivery.tenant_deliverers import (  # noqa: PLC0415
        TenantDeliverers,
        run_deliverers,
    )
    from turnlog.services.webhooks.delivery.webhook_deliverer import (  # noqa: PLC0415
        WebhookDeliverer,
    )
    from turnlog.services.webhooks.delivery.webhook_runner import DeliveryTerms  # noqa: PLC0415
    from turnlog.services.webhooks.delivery.webhook_sender import open_sender  # noqa: PLC0415

    async with open_sender(read_clock, settings.webhook_targets) as sender:
        service, metrics = parts.create_webhook_service(), DeliveryMetrics()

        def create_deliverer(tenant: str) -> WebhookDeliverer:
            return WebhookDeliverer(
                tenant=tenant,
                name=f"{socket.gethostname()}-{os.getpid()}",
                key=key,
                log=parts.log,
                alerts=parts.alerts,
                tokens=parts.tokens,
                service=service,
                sender=sender,
                terms=DeliveryTerms(retry_delays=settings.webhook_delays),
                metrics=metrics,
                is_alone=is_alone,
            )

        deliverers = TenantDeliverers(
            own_tenant=settings.tenant,
            find_tenants=parts.library.list_tenants,
            create=create_deliverer,
        )
        async with run_deliverers(deliverers, ending, settings.grace):
            yield
