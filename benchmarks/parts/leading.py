"""Sessions that fill their prompts: each call sends some 4,000 tokens and can be reproduced.

One session is run in memory. The others are copies of it under their own names, so that a log of
any size is filled in the time it takes to write it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.parts.prose import Prose
from tests.parts.house import BY, House, NoOlderCommands
from tests.parts.house import TENANT as LED_FOR
from turnlog.events.codec import Draft, write
from turnlog.events.kinds import Unknown
from turnlog.events.log.outcomes import Appended
from turnlog.events.log.ports import Log
from turnlog.events.nats.layout import Terms as Layout
from turnlog.events.nats.opening import JetStream, opened
from turnlog.projections.blueprint.schema import Blueprint, reach
from turnlog.projections.session.commands import OpenSession
from turnlog.services.runtime.clock import new_id, now
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.texts import TextReader

TENANT: Final = LED_FOR
TOKENS: Final = 4_000
"""Of a prompt, at four characters each."""
CHARACTERS: Final = 800
"""Of a turn's text and its reply together."""
TURNS: Final = 60
"""Of a session; the first twenty fill the prompt."""
BLUEPRINT: Final = Blueprint.model_validate(
    {
        "blueprint": "led",
        "version": 1,
        "layers": {
            "persona": {"text": "You are a patient guide. " * 20, "keep": "always"},
            "rules": {"text": "Be brief, be kind, and say where you are not sure. " * 10},
        },
        "calls": {
            "reply": {
                "messages": [
                    {"system": ["persona", "rules"]},
                    {"history": "recent"},
                    {"user": ["input"]},
                ],
                "budget": "window",
            }
        },
        "history": {"recent": {}},
        "budget": {
            "window": {"tokens": TOKENS, "ladder": [{"drop_oldest_pairs": {"history": "recent"}}]}
        },
        "profiles": {"one": {"default": True, "call": "reply"}},
    }
)


async def led(turns: int = TURNS) -> House:
    """Run a session `s` for so many turns."""
    house, prose = House(), Prose()
    ref = await house.blueprints.pin(TENANT, BLUEPRINT)
    await house.sessions.act(TENANT, "s", OpenSession(ref, "one", reach(BLUEPRINT)), BY)
    house.model.scripts += [[prose.say(CHARACTERS // 2)] for _ in range(turns)]
    worker = house.worker()
    for _ in range(turns):
        await house.answer(await house.submit(prose.say(CHARACTERS // 2)), worker)
    return house


@asynccontextmanager
async def held(folder: Path, house: House) -> AsyncGenerator[tuple[str, JetStream]]:
    """Run a server with the blobs of a session; yields its address and a client."""
    async with (
        await NatsServer.start(NatsConfig(folder)) as server,
        opened(server.url, Layout(replicas=1)) as on,
    ):
        for text in house.blobs.held.values():
            await on.blobs.put(TENANT, text)
        yield server.url, on


async def fill(log: Log, house: House, sessions: range) -> None:
    """Append copies of a session, each under its number."""
    drafts = _drafts(house)
    for number in sessions:
        await _write(log, f"s{number}", drafts)


def _drafts(house: House) -> Sequence[Draft]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Draft(each.event, f"{each.sequence}", at, "/turnlog/bench", "bench")
        for each in house.events()
        if not isinstance(each.event, Unknown)
    ]


async def _write(log: Log, session: str, drafts: Sequence[Draft]) -> None:
    outcome = await log.append(write(TENANT, session, None, drafts))
    assert isinstance(outcome, Appended), outcome


def sessions_of(on: JetStream) -> Sessions:
    """Build the command handler of a process that only reads."""
    snapshots = CheckedSnapshots(on.log, on.snapshots)
    texts = TextReader(on.log, on.blobs)
    return Sessions(on.log, snapshots, texts, NoOlderCommands(), now, new_id, "/turnlog/bench")
