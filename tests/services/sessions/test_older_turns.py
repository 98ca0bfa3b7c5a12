"""Loading the turns that a state keeps only as runs, where exclusions make room for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from tests.support.sessions.session_harness import TENANT, SessionHarness, build_small_blueprint
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.content import PlainText
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.session_events import BlueprintMoved, BlueprintRef, SessionOpened
from turnlog.events.model.turn_events import (
    TurnCompleted,
    TurnExcluded,
    TurnFailed,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.events.store.memory_log import MemoryLog, MemorySnapshotStore
from turnlog.events.store.ports import BatchAppended
from turnlog.projections.blueprint.schema.history_specs import HistoryViewSpec
from turnlog.projections.prompt.history.history_window import HistoryWindow
from turnlog.projections.prompt.sources.session_material import PhaseVisibility
from turnlog.projections.session.evolve import fold, fold_unbounded
from turnlog.projections.session.state import MAX_RECENT_TURNS, SessionState
from turnlog.services.caches.session_snapshots import (
    INTERVAL_LENGTH,
    CheckedSnapshotStore,
    IntervalSnapshots,
    has_crossed_interval,
)

TURNS = 900

REACH = 200
"""Characters; a turn has ten."""


WINDOW = HistoryWindow(view=HistoryViewSpec(), visibility=PhaseVisibility(), access=None)


@dataclass(kw_only=True)
class PageCountingLog(MemoryLog):
    """A log that counts the events read from sessions."""

    read: int = 0

    async def read_next_events(
        self, tenant: str, session: str, after: ChainHead | None, count: int
    ) -> list[RecordedEvent]:
        events = [*await super().read_next_events(tenant, session, after, count)]
        self.read += len(events)
        return events


def list_turn_events(turn: int, ref: BlueprintRef) -> Iterator[KnownEvent]:
    """Give the events of a turn, and of what became of others beside it."""
    yield TurnSubmitted(turn=turn, text=PlainText(text=f"t{turn:04}"))
    if turn % 9 == 0:
        yield TurnFailed(turn=turn, code="overloaded", detail="", retryable=True)
    else:
        yield TurnCompleted(turn=turn, text=PlainText(text=f"r{turn:04}"))
    if turn % 20 == 0:
        yield TurnExcluded(turn=turn - 1)
        yield TurnExcluded(turn=max(1, turn - 300))
    if turn % 60 == 0:
        yield TurnRestored(turn=turn - 21)
        yield ReplyRedacted(
            turn=turn - 4,
            reason="asked for",
            rule="operator",
            replacement=PlainText(text="(withheld)"),
        )
    if turn == TURNS - 40:
        yield BlueprintMoved(before=ref, blueprint=ref, attributes={}, reach=REACH)


async def append_events(house: SessionHarness, events: list[KnownEvent]) -> None:
    last = await house.log.read_last_event(TENANT, "s")
    head = last.head if last else None
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for start in range(0, len(events), 900):
        drafts = [
            EventDraft(event=each, id="id", at=at, source="/test", actor="tester")
            for each in events[start:][:900]
        ]
        outcome = await house.log.append_batch(encode_batch(TENANT, "s", head, drafts))
        assert isinstance(outcome, BatchAppended)
        head = outcome.events[-1].head


async def build_long_session() -> SessionHarness:
    house = SessionHarness(log=PageCountingLog())
    ref = await house.blueprints.store_blueprint(TENANT, build_small_blueprint())
    opened = SessionOpened(blueprint=ref, profile="one", attributes={}, reach=REACH)
    turns = (each for turn in range(1, TURNS + 1) for each in list_turn_events(turn, ref))
    await append_events(house, [opened, *turns])
    state: SessionState | None = None
    for recorded in house.list_events():
        before, state = state, fold([recorded], state)
        if state and has_crossed_interval(before, state):
            await IntervalSnapshots(CheckedSnapshotStore(house.log, house.snapshots)).save_state(
                state
            )
    return house


@pytest.fixture(scope="module")
def house() -> SessionHarness:
    return asyncio.run(build_long_session())


def fold_ordinary(house: SessionHarness, upto: int) -> SessionState:
    state = fold(house.list_events()[:upto])
    assert state
    assert state.earlier
    return state


def fold_whole(house: SessionHarness, upto: int) -> SessionState:
    state = fold_unbounded(house.list_events()[:upto])
    assert state
    return state


def count_read_events(house: SessionHarness) -> int:
    assert isinstance(house.log, PageCountingLog)
    return house.log.read


@pytest.mark.parametrize("back", [0, 1, 3, 700], ids="{} events earlier".format)
async def test_window_selects_the_same_turns_from_recent_ones_as_from_the_whole_session(
    house: SessionHarness, back: int
) -> None:
    upto = len(house.list_events()) - back
    sessions, state = house.build_command_handler("/test"), fold_ordinary(house, upto)
    before = count_read_events(house)
    loaded = await sessions.load_older_turns(state, every_turn=False)
    wanted = MAX_RECENT_TURNS * len(house.list_events()) / TURNS
    assert count_read_events(house) - before < wanted + 2 * INTERVAL_LENGTH
    whole = fold_whole(house, upto)
    assert loaded.turns == whole.turns[-MAX_RECENT_TURNS:]
    assert WINDOW.select_turns(loaded) == WINDOW.select_turns(whole)
    assert replace(loaded, turns=(), earlier=(), reach=REACH) == replace(
        state, turns=(), earlier=()
    )


async def test_loading_older_turns_again_reads_only_appended_events(
    house: SessionHarness,
) -> None:
    sessions = house.build_command_handler("/test")
    end = len(house.list_events())
    await sessions.load_older_turns(fold_ordinary(house, end), every_turn=False)
    ref = fold_ordinary(house, end).blueprint
    await append_events(
        house, [*list_turn_events(TURNS + 1, ref), *list_turn_events(TURNS + 2, ref)]
    )
    before, later = count_read_events(house), len(house.list_events())
    loaded = await sessions.load_older_turns(fold_ordinary(house, later), every_turn=False)
    assert count_read_events(house) - before == later - end
    assert loaded.turns == fold_whole(house, later).turns[-MAX_RECENT_TURNS:]
    again = await sessions.load_older_turns(fold_ordinary(house, later), every_turn=False)
    assert again == loaded
    assert count_read_events(house) - before == later - end
    earlier = await sessions.load_older_turns(fold_ordinary(house, end - 9), every_turn=False)
    assert earlier.turns == fold_whole(house, end - 9).turns[-MAX_RECENT_TURNS:]


async def test_older_turns_without_interval_snapshots_are_read_from_the_start(
    house: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "snapshots", MemorySnapshotStore())
    end, before = len(house.list_events()), count_read_events(house)
    loaded = await house.build_command_handler("/test").load_older_turns(
        fold_ordinary(house, end), every_turn=False
    )
    assert loaded.turns == fold_whole(house, end).turns[-MAX_RECENT_TURNS:]
    assert count_read_events(house) - before == end


async def test_a_view_of_the_whole_history_gets_every_turn(house: SessionHarness) -> None:
    end = len(house.list_events())
    loaded = await house.build_command_handler("/test").load_older_turns(
        fold_ordinary(house, end), every_turn=True
    )
    assert loaded.turns == fold_whole(house, end).turns
    assert replace(WINDOW, view=HistoryViewSpec(all=True)).needs_every_turn(loaded)
    assert not WINDOW.needs_every_turn(loaded)
