"""Reading a tool's result: from the prompt of its call to the end of its turn."""

from __future__ import annotations

from tests.support.generators.manifest_samples import build_manifest
from turnlog.events.codec import encode_batch
from turnlog.events.content import PlainText
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnQueued,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.testing import SESSION, TENANT, make_drafts
from turnlog.services.use_cases.prompts.call_reading import EVENT_BATCH_SIZE, iterate_turn_rest

CONTEXT = ContextAssembled(
    turn=1, call="1.1", model="scripted/m", parameters={}, manifest=build_manifest()
)
CALLED = ToolCalled(turn=1, call="1.1", id="a", tool="look", arguments="{}")
RETURNED = ToolReturned(turn=1, call="1.1", id="a", tool="look", outcome="answered")
COMPLETED = TurnCompleted(turn=1, text=PlainText(text="Done."))
SHOWN = TurnDisplayed(turn=1, text=PlainText(text="Hello!"))


async def read_turn_rest(*events: KnownEvent) -> list[KnownEvent]:
    log = MemoryLog()
    opening = (TurnSubmitted(turn=1, text=PlainText(text="Hello.")), CONTEXT)
    await log.append_batch(encode_batch(TENANT, SESSION, None, make_drafts([*opening, *events])))
    (context,) = await log.read_events_at(TENANT, [2])
    return [each.event async for each in iterate_turn_rest(log, context)]  # type: ignore[misc]


async def test_cancelled_queued_turn_does_not_hide_a_later_tool_result() -> None:
    other = (
        TurnQueued(turn=2, text=PlainText(text="And?")),
        TurnCancelled(turn=2, reason="cancelled"),
    )
    read = await read_turn_rest(CALLED, *other, *[SHOWN] * EVENT_BATCH_SIZE, RETURNED, COMPLETED)
    assert RETURNED in read


async def test_reading_stops_after_the_batch_in_which_the_turn_ended() -> None:
    read = await read_turn_rest(CALLED, RETURNED, COMPLETED, *[SHOWN] * 2 * EVENT_BATCH_SIZE)
    assert len(read) == EVENT_BATCH_SIZE
