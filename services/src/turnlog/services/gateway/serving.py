from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from turnlog.services.gateway.app import build
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.heads import heads_within
from turnlog.services.runtime.serving import served


def serving(desk: Desk) -> AbstractAsyncContextManager[str]:
    """Serve the application while the context is open and yield the address.

    The address holds the real port when port 0 was configured. Waiting requests are answered at
    shutdown.
    """
    settings = desk.settings
    leaving = desk.stopping.set
    return served(
        build(desk),
        settings.http,
        field="http",
        grace=settings.grace,
        leaving=leaving,
        http=heads_within(settings.body_seconds),
    )
