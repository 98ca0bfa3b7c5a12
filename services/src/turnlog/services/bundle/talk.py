"""A session as a page of talk, sent while it is read: twice, since its end changes the page."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from turnlog.projections.audit.transcript import Afterwards, told, transcript
from turnlog.projections.history import Turns
from turnlog.services.bundle.taking import Taken


async def talk(taken: Taken) -> AsyncGenerator[bytes]:
    """Send the page, piece by piece."""
    afterwards, turns = Afterwards(), Turns()
    async for page in taken.pages():
        for recorded in page:
            afterwards.learn(recorded)
    async for page in taken.pages():
        yield "".join(transcript(page, afterwards, turns)).encode()
    yield "".join(told(afterwards.known_of(turn)) for turn in turns.values()).encode()
