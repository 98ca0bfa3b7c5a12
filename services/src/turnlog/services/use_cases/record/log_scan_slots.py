"""Slots for work that scans a whole log, which keeps a processor busy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, TypeVar

from turnlog.events.errors import Refused

MAX_LOG_SCANS: Final = 2
"""How many callers may scan a whole log at the same time."""

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class LogScanSlots:
    """Held by callers that scan a whole log; one object for all of them."""

    semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_LOG_SCANS))

    def check_free(self) -> None:
        """Raise `Refused` `busy` when every slot is taken.

        The caller is refused at once, because the waiting time cannot be estimated.
        """
        if self.semaphore.locked():
            detail = f"{MAX_LOG_SCANS} requests are already scanning a log"
            raise Refused("busy", detail, fix="retry when one of them has finished")

    async def stream_in_slot(self, items: AsyncGenerator[ItemT]) -> AsyncGenerator[ItemT]:
        """Yield the items of a scan while holding a slot."""
        async with self.semaphore, aclosing(items):
            async for item in items:
                yield item
