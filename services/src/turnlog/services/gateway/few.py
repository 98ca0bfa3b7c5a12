from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from turnlog.events.errors import Refused
from turnlog.services.gateway.desk import MAX_LOG_SCANS, GatewayDependencies


def check_log_scan_slot(deps: GatewayDependencies) -> None:
    """Raise `Refused` `busy` when every log scan slot is taken.

    The request is refused at once instead of queued, because the waiting time cannot be estimated.
    """
    if deps.log_scan_slots.locked():
        detail = f"{MAX_LOG_SCANS} requests that go through a log are under way"
        raise Refused("busy", detail, fix="ask again when one of them is done")


async def stream_in_log_scan_slot(deps: GatewayDependencies, lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the lines of a log scan while holding a slot."""
    async with deps.log_scan_slots, aclosing(lines):
        async for line in lines:
            yield line
