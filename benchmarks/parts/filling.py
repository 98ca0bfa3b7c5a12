from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from benchmarks.parts.aging import add_turns
from benchmarks.parts.prose import RandomProse
from tests.parts.house import SessionHarness
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions as Layout
from turnlog.events.registry import UnknownEvent
from turnlog.events.store.append_outcomes import BatchAppended
from turnlog.events.store.ports import EventLog
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

TENANT: Final = "bench"
SESSIONS: Final = 100
CHARACTERS: Final = 350
"""Of a text, and of a reply."""
WORKER_TURNS: Final = 3
"""Turns of a real worker in each session."""


@asynccontextmanager
async def run_filled_log(folder: Path, turns: int) -> AsyncGenerator[JetStreamClient]:
    """Give a log of `SESSIONS` sessions with so many turns each, on a server of its own."""
    async with (
        await NatsServer.start(NatsConfig(folder)) as server,
        open_client(server.url, Layout(replicas=1)) as on,
    ):
        for _ in range(SESSIONS):
            await _fill_session(on.log, str(uuid4()), turns)
        yield on


async def _fill_session(log: EventLog, session: str, turns: int) -> None:
    house, prose = SessionHarness(), RandomProse(len(session))
    await house.open_session()
    for _ in range(WORKER_TURNS):
        house.model.scripts.append([prose.generate_text(CHARACTERS)])
        await house.run_turn(await house.submit_turn(prose.generate_text(CHARACTERS)))
    drafts = [
        EventDraft(each.event, str(uuid4()), datetime.now(UTC), "/turnlog/bench", "bench")
        for each in house.list_events()
        if not isinstance(each.event, UnknownEvent)
    ]
    outcome = await log.append_batch(encode_batch(TENANT, session, None, drafts))
    assert isinstance(outcome, BatchAppended), outcome
    await add_turns(log, TENANT, session, turns)
