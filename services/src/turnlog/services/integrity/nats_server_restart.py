"""Restarts the nats-server of `turnlog up` when it takes no writes although it could.

nats-server fixes its limit when it starts, at three quarters of the free disk, and a stream that
met a full disk takes no writes until the server is restarted. So the server is restarted when it
refuses writes although the disk has space again, and also when one of its streams hangs, which
its health page shows by not answering; its clients reconnect.
"""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from pydantic import BaseModel, ValidationError

from turnlog.events.errors import Unavailable
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.nats_monitor import fetch_monitor_page, fetch_store_fault
from turnlog.services.platform.nats_server import NatsServer

_log = structlog.get_logger("turnlog.process")

STORE_CHECK_INTERVAL: Final = 3.0
"""Seconds between two looks at the server's store."""

MAX_SILENT_LOOKS: Final = 5
"""Looks in a row at a health page that does not answer until the server counts as hanging."""

LOW_ROOM_BYTES: Final = 2 * 1024 * 1024
"""With less room than this the server may refuse an event."""

WORTHWHILE_BYTES: Final = 16 * 1024 * 1024
"""The least room that a restart must gain."""

SILENT_REASON: Final = "it answers, but not about its streams"


async def restart_when_stuck(server: NatsServer, data_dir: Path) -> None:
    """Look at the server's store from time to time, forever, and restart it where that helps."""
    silent_looks = 0
    while True:
        await asyncio.sleep(STORE_CHECK_INTERVAL)
        look = partial(find_restart_reason, server.monitor_url or "", data_dir)
        reason = await run_in_thread(look)
        silent_looks = silent_looks + 1 if reason == SILENT_REASON else 0
        if reason is not None and silent_looks in {0, MAX_SILENT_LOOKS}:
            _log.warning("nats-server-restarting", reason=reason)
            if silent_looks:
                await server.restart_without_snapshots(reason)
            else:
                await server.restart()
            silent_looks = 0


def find_restart_reason(monitor: str, data_dir: Path) -> str | None:
    """Return why a restart would help the server, if it would."""
    try:
        facts = _StoreFacts.model_validate(fetch_monitor_page(monitor, "jsz"))
    except (Unavailable, ValidationError):
        return None
    try:
        fault = fetch_store_fault(monitor)
    except Unavailable:
        return SILENT_REASON
    room = facts.config.max_storage - facts.storage
    free = shutil.disk_usage(data_dir).free
    if not can_gain_room(room, is_stuck=fault is not None, free=free):
        return None
    return f"it has space, and took no writes: {fault or 'its store was full'}"


def can_gain_room(room: int, *, is_stuck: bool, free: int) -> bool:
    """Return whether a server that refuses writes would take them after a restart.

    `room` is what its limit leaves, `is_stuck` whether it could not write to its disk, and `free`
    the free bytes of the disk, of which a start claims three quarters.
    """
    gain = free * 3 // 4 - (0 if is_stuck else max(room, 0))
    return (is_stuck or room < LOW_ROOM_BYTES) and gain >= WORTHWHILE_BYTES


class _StoreLimit(BaseModel):
    max_storage: int


class _StoreFacts(BaseModel):
    config: _StoreLimit
    storage: int
