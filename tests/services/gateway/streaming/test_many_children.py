"""The tokens of the first children of a turn are counted, however many there are."""

from __future__ import annotations

import asyncio

from tests.support.sessions.session_harness import SessionHarness
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.testing import record_events
from turnlog.services.use_cases.turns.child_watch import (
    MOST_TOKEN_WATCHES,
    TurnWatch,
    open_watch_with_children,
)


async def test_children_beyond_the_limit_take_no_token_watch_from_the_others() -> None:
    harness, wake = SessionHarness(), asyncio.Event()
    asked = (
        ChildRequested(
            turn=1, call="1.1", id=f"c{each}", profile="p", session=f"child-{each}", child_turn=1
        )
        for each in range(MOST_TOKEN_WATCHES + 8)
    )
    async with (
        harness.log.open_session_watch("t", "s", 0, wake) as own,
        open_watch_with_children(
            harness.sessions, own, ("t", "s"), 1, wake=wake, tokens=harness.tokens
        ) as watch,
    ):
        assert isinstance(watch, TurnWatch)
        for recorded in record_events(*asked):
            watch.apply_event("s", 1, watch.activity, recorded)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(harness.tokens.wakes) == MOST_TOKEN_WATCHES
    assert harness.tokens.wakes == []
