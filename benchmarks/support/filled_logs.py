"""Logs and sessions filled with turns that copy real ones, for measurements on long logs.

Ten thousand real turns take minutes. A turn in a long session costs the same whoever wrote the
events before it, as long as they are the same events. Only the digests in copied manifests belong
to another turn, and nothing reads them before an audit. In `run_filled_log`, the first turns of
each session come from a real worker with a fake model.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from benchmarks.support.random_prose import RandomProse
from tests.support.sessions.session_harness import SessionHarness
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions as Layout
from turnlog.events.registry import KnownEvent, UnknownEvent
from turnlog.events.store.ports import BatchAlreadyStored, BatchAppended, EventLog
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

TURNS_PER_BATCH: Final = 60
"""Turns in one batch."""


async def add_turns(log: EventLog, tenant: str, session: str, upto: int) -> None:
    """Add turns to a settled session until it has so many."""
    last = await log.read_last_event(tenant, session)
    assert last
    events = await log.read_range(tenant, session, None, last)
    pattern = _list_last_turn(events)
    prose, head, turn = RandomProse(3), last.head, _get_turn(pattern[0])
    while turn < upto:
        turns = range(turn + 1, min(upto, turn + TURNS_PER_BATCH) + 1)
        drafts = [_build_turn_draft(event, number, prose) for number in turns for event in pattern]
        outcome = await log.append_batch(encode_batch(tenant, session, head, drafts))
        assert isinstance(outcome, BatchAppended | BatchAlreadyStored), outcome
        head, turn = outcome.events[-1].head, turns[-1]


def _list_last_turn(events: Sequence[RecordedEvent]) -> list[KnownEvent]:
    last = _get_turn(events[-1].event)
    found = [each.event for each in events if getattr(each.event, "turn", None) == last]
    return [event for event in found if not isinstance(event, UnknownEvent)]


def _get_turn(event: object) -> int:
    turn = getattr(event, "turn", None)
    assert isinstance(turn, int)
    return turn


def _build_turn_draft(event: KnownEvent, turn: int, prose: RandomProse) -> EventDraft:
    changed: dict[str, object] = {"turn": turn}
    if hasattr(event, "call"):
        changed["call"] = f"{turn}.1"
    content = getattr(event, "text", None)
    if isinstance(content, PlainText):
        changed["text"] = PlainText(text=prose.generate_text(len(content.text)))
    copied = event.model_copy(update=changed)
    return EventDraft(
        event=copied, id=uuid4().hex, at=datetime.now(UTC), source="/turnlog/bench", actor="bench"
    )


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
        await NatsServer.start(NatsConfig(data_dir=folder)) as server,
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
        EventDraft(
            event=each.event,
            id=str(uuid4()),
            at=datetime.now(UTC),
            source="/turnlog/bench",
            actor="bench",
        )
        for each in house.list_events()
        if not isinstance(each.event, UnknownEvent)
    ]
    outcome = await log.append_batch(encode_batch(TENANT, session, None, drafts))
    assert isinstance(outcome, BatchAppended), outcome
    await add_turns(log, TENANT, session, turns)
