"""The gateway's application on its socket; who waits for something is answered when it ends."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from turnlog.services.gateway.app import build
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.heads import heads_within
from turnlog.services.runtime.serving import served


def serving(desk: Desk) -> AbstractAsyncContextManager[str]:
    """Serve while the body runs; gives the address, with the port that port 0 became."""
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
