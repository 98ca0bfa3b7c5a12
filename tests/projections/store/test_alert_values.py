"""What the rules of alerts measure, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.projections.store.row_fold import fold_log, sum_all_hours
from tests.projections.store.session_histories import (
    StoredSession,
    append_raw,
    build_assembled,
    build_completed,
    build_ended,
    build_opened,
    build_part,
    build_started,
    build_submitted,
)
from turnlog.events.model.alert_events import AlertRule, AlertScope
from turnlog.events.model.attempt_figures import AttemptTimings, CacheTerms
from turnlog.events.model.manifest import AppliedTrimStep, CachePrefix
from turnlog.events.model.turn_events import TurnCancelled, TurnFailed
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth.alert_values import (
    AlertQuestion,
    list_alert_sessions,
    measure_alert,
)

NOW = datetime(2026, 3, 2, 12, 30, tzinfo=UTC)

TERMS = CacheTerms(minimum=1_024, step=128, spared=500_000)

CUT = AppliedTrimStep(step="trim", on="history", before=2_000, after=900)


async def ask(
    store: ReadModelStore, measure: str, *, window: int | None = 3_600, **where: object
) -> tuple[float | None, tuple[str, ...]]:
    """Return what is measured now, and the sessions with the highest values."""
    scope = AlertScope.model_validate(where)
    rule = AlertRule(measure=measure, where=scope, window_seconds=window, above=0)
    question = AlertQuestion(tenant="t", rule=rule, at=NOW)
    async with store.open_reader() as connection:
        value = await measure_alert(connection, question)
        return value, await list_alert_sessions(connection, question)


async def play_call(
    log: MemoryLog,
    session: str,
    *,
    minutes: int,
    blueprint: str = "assistant",
    tokens: int = 500,
    micro_dollars: int | None = 1_000,
    is_cut: bool = False,
    total: int = 800,
    **attributes: str,
) -> StoredSession:
    """Play a session of one call, some minutes ago."""
    story = StoredSession(log=log, session=session, at=NOW - timedelta(minutes=minutes))
    steps = (CUT,) if is_cut else ()
    ended = build_ended(1, 1, tokens=tokens, micro_dollars=micro_dollars, call="1.1")
    timed = ended.model_copy(update={"timings": AttemptTimings(total=total)})
    await story.append_events(
        build_opened(blueprint, **attributes),
        build_submitted(1, "one"),
        build_assembled(1, "1.1", build_part("history", tokens=tokens), steps=steps),
        build_started(1, 1, "1.1"),
        timed,
    )
    return story


async def fail(story: StoredSession, turn: int = 1) -> None:
    await story.append_events(TurnFailed(turn=turn, code="model_error", detail="", retryable=True))


async def test_money_and_cut_calls_are_those_of_the_window(store: ReadModelStore) -> None:
    log = MemoryLog()
    await play_call(log, "late", minutes=5, micro_dollars=3_000_000, is_cut=True)
    await play_call(log, "small", minutes=10, micro_dollars=500_000, blueprint="clerk")
    await play_call(log, "free", minutes=20, micro_dollars=None)
    await play_call(log, "old", minutes=70, micro_dollars=9_000_000, is_cut=True)
    await fold_log(store, log)
    for _ in range(2):  # From the rows, and from the sums.
        assert await ask(store, "cost") == (3.5, ("late", "small"))
        assert await ask(store, "cost", window=7_200) == (12.5, ("old", "late", "small"))
        assert await ask(store, "cost", blueprint="clerk") == (0.5, ("small",))
        assert await ask(store, "cost", model="scripted/demo", window=60) == (None, ())
        assert await ask(store, "cut_calls") == (1, ("late",))
        assert await ask(store, "cut_calls", window=86_400) == (2, ("late", "old"))
        assert await ask(store, "unpriced") == (1, ("free",))
        await sum_all_hours(store)


async def test_cost_of_lost_caches_names_the_session_that_lost(store: ReadModelStore) -> None:
    log = MemoryLog()
    story = StoredSession(log=log, session="lost", at=NOW - timedelta(minutes=9))
    prefix = CachePrefix(call="1.1", messages=1, tokens=1_100, ended_by="history")
    await story.append_events(build_opened(), build_submitted(1, "one"))
    for number, earlier, cached in ((1, None, 0), (2, prefix, 1_024)):
        call = f"1.{number}"
        await story.append_events(
            build_assembled(1, call, build_part("system", tokens=2_000), prefix=earlier),
            build_started(1, number, call),
            build_ended(
                1,
                number,
                tokens=2_000,
                micro_dollars=10,
                call=call,
                cached=cached,
                terms=TERMS,
            ),
        )
    await fold_log(store, log)
    value, sessions = await ask(store, "prefix_lost_cost")
    assert value is not None
    # 1,920 could have been read, 1,024 were, at half a dollar a million.
    assert (round(value * 1_000_000), sessions) == (448, ("lost",))


async def test_failed_turns_and_their_share_are_of_settled_turns(store: ReadModelStore) -> None:
    log = MemoryLog()
    for number in range(3):
        story = await play_call(log, f"f{number}", minutes=30 - number, locale="lt")
        await fail(story)
    twice = await play_call(log, "twice", minutes=8)
    await fail(twice)
    await twice.append_events(build_submitted(2, "again"))
    await fail(twice, 2)
    done = await play_call(log, "done", minutes=6, blueprint="clerk")
    await done.append_events(build_completed(1, "ok"))
    cancelled = await play_call(log, "cancelled", minutes=4)
    await cancelled.append_events(TurnCancelled(turn=1, reason="cancelled"))
    await play_call(log, "open", minutes=3)
    await fold_log(store, log)
    assert await ask(store, "failed_turns") == (5, ("twice", "f0", "f1", "f2"))
    assert await ask(store, "failed_turns", window=900) == (2, ("twice",))
    assert await ask(store, "failed_turns", attributes={"locale": "lt"}) == (3, ("f0", "f1", "f2"))
    assert await ask(store, "failed_turns", blueprint="clerk") == (0, ())
    share, _ = await ask(store, "failed_share")
    assert share == 5 / 7
    assert (await ask(store, "failed_share", blueprint="other"))[0] is None


async def test_latency_is_what_95_of_100_attempts_did_not_exceed(store: ReadModelStore) -> None:
    log = MemoryLog()
    for number in range(20):
        await play_call(log, f"s{number}", minutes=20, total=100 * (number + 1))
    await play_call(log, "clerk", minutes=20, total=50_000, blueprint="clerk")
    await fold_log(store, log)
    value, sessions = await ask(store, "p95_ms", blueprint="assistant")
    assert (value, sessions[:2], len(sessions)) == (1_900, ("s19", "s18"), 10)
    assert (await ask(store, "p95_ms", blueprint="none"))[0] is None


async def test_near_and_stopped_sessions_are_counted_as_they_are_now(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    await play_call(log, "near", minutes=100, tokens=950, locale="lt")
    await play_call(log, "nearest", minutes=100, tokens=990)
    await play_call(log, "far", minutes=1, tokens=100)
    append_raw(log, b"no event", session="stray")
    append_raw(log, b"no event either", session="stray")
    await fold_log(store, log)
    assert await ask(store, "near_budget", window=None) == (2, ("nearest", "near"))
    lt = {"locale": "lt"}
    assert await ask(store, "near_budget", window=None, attributes=lt) == (1, ("near",))
    assert await ask(store, "stopped_sessions", window=None) == (1, ("stray",))
