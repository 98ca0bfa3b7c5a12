"""Reading one's own writes, and commands older than the session's state."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import (
    SAMPLE_DIGEST,
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
)
from turnlog.events.codec import CommandRef
from turnlog.events.errors import Unavailable
from turnlog.events.model.turn_events import TurnCancelled, TurnExcluded
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import (
    ProjectionSignal,
    wait_for_sequence,
    wait_until_folded,
)
from turnlog.projections.store.read.row_lookups import CommandLookup


@pytest.fixture
def story() -> StoredSession:
    return StoredSession(log=MemoryLog())


async def test_wait_returns_immediately_if_rows_are_already_folded(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await fold_log(store, story.log)
    assert await wait_until_folded(
        store=store, signal=ProjectionSignal(), tenant="t", session="s", sequence=2, within=0
    )


async def test_wait_returns_once_lagging_rows_are_folded(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened())
    await fold_log(store, story.log)
    await story.append_events(build_submitted(1, "one"))
    signal = ProjectionSignal()
    waiting = asyncio.create_task(
        wait_until_folded(
            store=store, signal=signal, tenant="t", session="s", sequence=2, within=60
        )
    )
    await asyncio.sleep(0)
    await fold_log(store, story.log)
    signal.notify_readers()
    assert await waiting


@pytest.mark.parametrize("steps", range(5))
async def test_wait_ends_when_it_is_cancelled_together_with_a_signal(steps: int) -> None:
    signal = ProjectionSignal()

    async def read_sequence() -> int:
        return 0

    waiting = asyncio.create_task(wait_for_sequence(signal, read_sequence, 1, within=60))
    await asyncio.sleep(0)
    signal.notify_readers()
    for _ in range(steps):
        await asyncio.sleep(0)
    assert waiting.cancel()
    done, _ = await asyncio.wait({waiting}, timeout=10)
    waiting.cancel()
    assert done
    assert waiting.cancelled()


async def test_rows_folded_by_another_process_are_found_without_a_signal(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened())
    waiting = asyncio.create_task(
        wait_until_folded(
            store=store, signal=ProjectionSignal(), tenant="t", session="s", sequence=1, within=60
        )
    )
    await asyncio.sleep(0)
    await fold_log(store, story.log)
    assert await waiting


async def test_wait_returns_false_if_rows_are_not_folded_in_time(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened())
    await fold_log(store, story.log)
    assert not await wait_until_folded(
        store=store, signal=ProjectionSignal(), tenant="t", session="s", sequence=2, within=0.1
    )
    assert not await wait_until_folded(
        store=store, signal=ProjectionSignal(), tenant="t", session="unknown", sequence=1, within=0
    )


async def append_commands(story: StoredSession) -> SessionState:
    """Append commands of every shape and return the state that records them."""
    events = [
        *await story.append_events(build_opened(), command=CommandRef("open", SAMPLE_DIGEST)),
        *await story.append_events(
            build_submitted(1, "one"), command=CommandRef("first", SAMPLE_DIGEST)
        ),
        *await story.append_events(
            TurnCancelled(turn=1, reason="interrupted"),
            build_submitted(2, "two"),
            command=CommandRef("interrupting", SAMPLE_DIGEST),
        ),
        *await story.append_events(build_completed(2, "second")),
        *await story.append_events(
            TurnExcluded(turn=1),
            TurnExcluded(turn=2),
            command=CommandRef("two events", SAMPLE_DIGEST),
        ),
    ]
    state = fold(events)
    assert state is not None
    return state


async def test_stored_idempotency_record_equals_that_of_the_state(
    store: ReadModelStore, story: StoredSession
) -> None:
    state = await append_commands(story)
    await fold_log(store, story.log)
    assert len(state.commands) == 4
    for memo in state.commands:
        assert await CommandLookup(store).find_command(state, memo.key) == memo
    assert await CommandLookup(store).find_command(state, "never given") is None


async def test_lookup_of_old_commands_is_unavailable_while_rows_lag(
    store: ReadModelStore, story: StoredSession
) -> None:
    state = await append_commands(story)
    with pytest.raises(Unavailable):
        await CommandLookup(store).find_command(state, "first")


async def test_rows_need_to_reach_only_the_oldest_command_in_the_state(
    store: ReadModelStore, story: StoredSession
) -> None:
    state = await append_commands(story)
    await fold_log(store, story.log)
    await story.append_events(build_submitted(3, "not folded yet"))
    forgetful = replace(state, commands=state.commands[1:], forgotten_commands=1)
    assert await CommandLookup(store).find_command(forgetful, "open") == state.commands[0]
