"""Logs and sessions filled with turns that copy real ones, for measurements on long logs.

Ten thousand real turns take minutes. A turn in a long session costs the same whoever wrote the
events before it, as long as they are the same events. Only the digests in copied manifests belong
to another turn, and nothing reads them before an audit. In `run_filled_log`, the first turns of
each session come from a real worker with a fake model.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from benchmarks.parts.prose import RandomProse
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.registry import KnownEvent, UnknownEvent
from turnlog.events.store.append_outcomes import BatchAlreadyStored, BatchAppended
from turnlog.events.store.ports import EventLog

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
    said = getattr(event, "text", None)
    if isinstance(said, PlainText):
        changed["text"] = PlainText(text=prose.generate_text(len(said.text)))
    copied = event.model_copy(update=changed)
    return EventDraft(copied, uuid4().hex, datetime.now(UTC), "/turnlog/bench", "bench")
