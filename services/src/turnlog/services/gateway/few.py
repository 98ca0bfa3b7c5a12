"""Requests that go through a whole log: only few at a time, so that all others are answered.

One too many is told so at once and may come again; it is not made to wait, since nobody can say
for how long.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from turnlog.events.errors import Refused
from turnlog.services.gateway.desk import FEW, Desk


def refuse_more(desk: Desk) -> None:
    """Refuse a request where as many are under way as may be."""
    if desk.few.locked():
        detail = f"{FEW} requests that go through a log are under way"
        raise Refused("busy", detail, fix="ask again when one of them is done")


async def one_of_few(desk: Desk, lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Send lines as one of those that may be under way."""
    async with desk.few, aclosing(lines):
        async for line in lines:
            yield line
