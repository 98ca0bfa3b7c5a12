from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from benchmarks.parts.aging import aged
from benchmarks.parts.prose import Prose
from tests.parts.house import House
from turnlog.events.codec import Draft, write
from turnlog.events.kinds import Unknown
from turnlog.events.log.outcomes import Appended
from turnlog.events.log.ports import Log
from turnlog.events.nats.layout import Terms as Layout
from turnlog.events.nats.opening import JetStream, opened
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer

TENANT: Final = "bench"
SESSIONS: Final = 100
CHARACTERS: Final = 350
"""Of a text, and of a reply."""
REAL: Final = 3
"""Turns of a real worker in each session."""


@asynccontextmanager
async def filled(folder: Path, turns: int) -> AsyncGenerator[JetStream]:
    """Run a server whose log has `SESSIONS` sessions with so many turns each."""
    async with (
        await NatsServer.start(NatsConfig(folder)) as server,
        opened(server.url, Layout(replicas=1)) as on,
    ):
        for _ in range(SESSIONS):
            await _fill(on.log, str(uuid4()), turns)
        yield on


async def _fill(log: Log, session: str, turns: int) -> None:
    house, prose = House(), Prose(len(session))
    await house.open()
    for _ in range(REAL):
        house.model.scripts.append([prose.say(CHARACTERS)])
        await house.answer(await house.submit(prose.say(CHARACTERS)))
    drafts = [
        Draft(each.event, str(uuid4()), datetime.now(UTC), "/turnlog/bench", "bench")
        for each in house.events()
        if not isinstance(each.event, Unknown)
    ]
    outcome = await log.append(write(TENANT, session, None, drafts))
    assert isinstance(outcome, Appended), outcome
    await aged(log, TENANT, session, turns)
