from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from turnlog.events.errors import Refused
from turnlog.services.gateway.desk import FEW, Desk


def refuse_more(desk: Desk) -> None:
    """Raise `Refused` `busy` when every log scan slot is taken.

    The request is refused at once instead of queued, because the waiting time cannot be estimated.
    """
    if desk.few.locked():
        detail = f"{FEW} requests that go through a log are under way"
        raise Refused("busy", detail, fix="ask again when one of them is done")


async def one_of_few(desk: Desk, lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the lines of a log scan while holding a slot."""
    async with desk.few, aclosing(lines):
        async for line in lines:
            yield line
