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

from benchmarks.support.random_prose import RandomProse
from tests.support.sessions.session_harness import TENANT as LED_FOR
from tests.support.sessions.session_harness import TESTER, EmptyCommandIndex, SessionHarness
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions as Layout
from turnlog.events.registry import UnknownEvent
from turnlog.events.store.ports import BatchAppended, EventLog
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.session.commands import OpenSession
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import CheckedSnapshotStore
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.platform.clock import create_id, read_clock
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.sessions.command_handler import CommandHandler

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


async def build_full_session(turns: int = TURNS) -> SessionHarness:
    """Run a session `s` for so many turns."""
    house, prose = SessionHarness(), RandomProse()
    ref = await house.blueprints.store_blueprint(TENANT, BLUEPRINT)
    await house.sessions.handle(
        TENANT,
        "s",
        OpenSession(blueprint=ref, profile="one", reach=compute_history_reach(BLUEPRINT)),
        TESTER,
    )
    house.model.scripts += [[prose.generate_text(CHARACTERS // 2)] for _ in range(turns)]
    worker = house.build_worker()
    for _ in range(turns):
        await house.run_turn(await house.submit_turn(prose.generate_text(CHARACTERS // 2)), worker)
    return house


@asynccontextmanager
async def run_server_with_blobs(
    folder: Path, house: SessionHarness
) -> AsyncGenerator[tuple[str, JetStreamClient]]:
    """Give the address of a server that holds what the session that was led is made from."""
    async with (
        await NatsServer.start(NatsConfig(data_dir=folder)) as server,
        open_client(server.url, Layout(replicas=1)) as on,
    ):
        for text in house.blobs.blobs.values():
            await on.blobs.put_blob(TENANT, text)
        yield server.url, on


async def copy_sessions(log: EventLog, house: SessionHarness, sessions: range) -> None:
    """Write sessions like the one that was led, each under its number."""
    drafts = _list_drafts(house)
    for number in sessions:
        await _append_session(log, f"s{number}", drafts)


def _list_drafts(house: SessionHarness) -> Sequence[EventDraft]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        EventDraft(
            event=each.event, id=f"{each.sequence}", at=at, source="/turnlog/bench", actor="bench"
        )
        for each in house.list_events()
        if not isinstance(each.event, UnknownEvent)
    ]


async def _append_session(log: EventLog, session: str, drafts: Sequence[EventDraft]) -> None:
    outcome = await log.append_batch(encode_batch(TENANT, session, None, drafts))
    assert isinstance(outcome, BatchAppended), outcome


def build_command_handler(on: JetStreamClient) -> CommandHandler:
    """Make the sessions of a process that only reads."""
    snapshots = CheckedSnapshotStore(on.log, on.snapshots)
    texts = TextReader(log=on.log, blobs=on.blobs, media=MediaReader(on.media))
    return CommandHandler(
        log=on.log,
        snapshots=snapshots,
        texts=texts,
        older_commands=EmptyCommandIndex(),
        clock=read_clock,
        create_id=create_id,
        source="/turnlog/bench",
    )
