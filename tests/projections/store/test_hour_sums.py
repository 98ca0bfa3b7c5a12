"""Sums over the calls of each hour: what is read from them equals what the events say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tests.faults.suite_extent import choose_examples
from tests.projections.store.row_fold import (
    fold_events,
    fold_log,
    start_live_build,
    sum_all_hours,
    sum_changed_hours,
)
from tests.projections.store.session_histories import (
    StoredSession,
    build_assembled,
    build_ended,
    build_opened,
    build_part,
    build_started,
    build_submitted,
    read_all_events,
)
from turnlog.events import codec
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.attempt_figures import CacheTerms
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted, ContextAssembled
from turnlog.events.model.manifest import CachePrefix
from turnlog.events.model.session_events import BlueprintMoved, BlueprintRef, SessionOpened
from turnlog.events.registry import KnownEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth.group_growth import (
    GrowthBucket,
    GrowthGrouping,
    list_group_growth,
)
from turnlog.projections.store.growth.hour_sums import sum_changed_hour
from turnlog.projections.store.growth.token_ledger import GrowthFilter
from turnlog.projections.store.read.row_types import GroupGrowth
from turnlog.projections.store.schema.hour_tables import CALL_HOURS, HOUR_TABLES
from turnlog.projections.store.write.projection_positions import clear_hidden_builds

BEGIN = datetime(2026, 3, 1, 22, tzinfo=UTC)


async def read_groups(
    store: ReadModelStore,
    by: Sequence[GrowthGrouping] = (),
    bucket: GrowthBucket | None = None,
    sought: GrowthFilter | None = None,
) -> tuple[GroupGrowth, ...]:
    async with store.open_reader() as connection:
        return await list_group_growth(connection, "t", by, sought or GrowthFilter(), bucket)


async def list_summed_hours(store: ReadModelStore) -> list[str]:
    async with store.open_reader() as connection:
        hours = select(CALL_HOURS.c.hour).distinct().order_by(CALL_HOURS.c.hour)
        return list((await connection.scalars(hours)).all())


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """What happens next in a session, some minutes later."""

    session: str
    minutes: int
    kind: str
    tokens: int
    share: int
    """Percent of the prompt before that is repeated, and of the input that was in a cache."""


_STEPS = st.lists(
    st.builds(
        DrawnStep,
        session=st.sampled_from(["s1", "s2"]),
        minutes=st.sampled_from([0, 7, 11, 59, 60, 1_500]),
        kind=st.sampled_from(["call", "call", "plan", "attempt", "end", "move"]),
        tokens=st.integers(1, 500),
        share=st.sampled_from([0, 40, 97, 100]),
    ),
    max_size=25,
)


@dataclass
class DrawnSession:
    """A session that follows drawn steps by the rules of the log."""

    stored: StoredSession
    calls: list[str] = field(default_factory=list[str])
    running: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    attempts: int = 0
    version: int = 1
    latest: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """The last call of each kind, with the tokens of its prompt."""

    async def append_step(self, step: DrawnStep) -> None:
        self.stored.at += timedelta(minutes=step.minutes)
        await self.stored.append_events(*self._build_events(step))

    def _build_events(self, step: DrawnStep) -> Iterator[KnownEvent]:
        if not self.stored.last_event:
            yield build_opened(f"of-{self.stored.session}")
            yield build_submitted(1, "one")
        match step.kind:
            case "move":
                self.version += 1
                pinned = BlueprintRef(
                    name=f"of-{self.stored.session}",
                    version=self.version,
                    digest=compute_digest(str(self.version)),
                )
                yield BlueprintMoved(before=pinned, blueprint=pinned, attributes={}, reach=0)
            case "attempt" if self.calls:
                self.attempts += 1
                self.running.append((self.calls[-1], self.attempts))
                yield build_started(1, self.attempts, self.calls[-1])
            case "end" if self.running:
                call, attempt = self.running.pop(0)
                paid = None if step.tokens % 3 == 0 else step.tokens
                yield build_ended(
                    1,
                    attempt,
                    tokens=step.tokens,
                    micro_dollars=paid,
                    call=call,
                    cached=step.tokens * step.share // 100,
                    terms=TERMS if step.tokens % 7 else None,
                )
            case kind:
                self.calls.append(f"1.{len(self.calls) + 1}")
                parts = [build_part("system", tokens=step.tokens), build_part("history", tokens=2)]
                named = "plan" if kind == "plan" else "reply"
                prefix = self._build_prefix(named, step.share)
                self.latest[named] = (self.calls[-1], step.tokens + 2)
                yield build_assembled(1, self.calls[-1], *parts, kind=named, prefix=prefix)

    def _build_prefix(self, kind: str, share: int) -> CachePrefix | None:
        if kind not in self.latest:
            return None
        call, tokens = self.latest[kind]
        ended_by = None if share == 100 else "history"
        repeated = tokens * share // 100
        return CachePrefix(call=call, messages=1, tokens=repeated, ended_by=ended_by)


TERMS = CacheTerms(minimum=50, step=10, lifetime=1_800, spared=3_000_000)


@dataclass
class CacheOutcomes:
    """What became of the cache at each call of a session, as its events say in the end."""

    calls: dict[str, ContextAssembled] = field(default_factory=dict[str, ContextAssembled])
    started: dict[int, datetime] = field(default_factory=dict[int, datetime])
    ends: list[tuple[AttemptEnded, datetime]] = field(
        default_factory=list[tuple[AttemptEnded, datetime]]
    )

    def find_outcome(self, call: str) -> tuple[str, int]:
        """Return the outcome and the tokens that were lost."""
        prefix = self.calls[call].manifest.prefix
        if prefix is None:
            return "first", 0
        of_call = [end for end, _ in self.ends if end.call == call]
        before = [(end, at) for end, at in self.ends if end.call == prefix.call]
        if not of_call or not before:
            return "unknown", 0
        sent = min(of_call, key=lambda end: end.attempt)
        earlier, at = max(before, key=lambda found: found[0].attempt)
        if sent.cost.cache is None or earlier.usage.input_tokens is None:
            return "unknown", 0
        whole = self._count_cached(earlier.usage.input_tokens)
        if not whole:
            return "small", 0
        read, allowed = sent.usage.cached_tokens, max(10, whole // 50)
        if read + allowed >= whole:
            return "kept", 0
        lost = whole - read
        if earlier.cost.cache and self.started[sent.attempt] > at + timedelta(minutes=30):
            return "missed", lost
        counted = self.calls[prefix.call].manifest.tokens
        repeated = self._count_cached(earlier.usage.input_tokens * prefix.tokens // counted)
        is_broken = prefix.ended_by and repeated < whole and read + allowed >= repeated
        return "broken" if is_broken else "missed", lost

    @staticmethod
    def _count_cached(tokens: int) -> int:
        return tokens - (tokens - 50) % 10 if tokens >= 50 else 0


Figures = Counter[str]


def sum_events(
    events: Sequence[RecordedEvent], bucket: int, by: Sequence[str]
) -> dict[tuple[str, ...], Figures]:
    """Sum what events say of calls, by the first characters of their time and by these values."""
    blueprints: dict[str, str] = {}
    keys: dict[tuple[str, str], tuple[str, ...]] = {}
    unpriced: set[tuple[str, str]] = set()
    caches: defaultdict[str, CacheOutcomes] = defaultdict(CacheOutcomes)
    found: defaultdict[tuple[str, ...], Figures] = defaultdict(Counter)
    for recorded in events:
        match recorded.event:
            case SessionOpened() | BlueprintMoved() as event:
                pinned = event.blueprint
                blueprints[recorded.session] = f"{pinned.name} v{pinned.version}"
            case ContextAssembled() as event:
                version = blueprints[recorded.session]
                values = {"version": version, "kind": event.manifest.kind}
                values["blueprint"] = version.partition(" ")[0]
                key = (recorded.envelope.time[:bucket], *(values[name] for name in by))
                keys[recorded.session, event.call] = key
                found[key]["calls"] += 1
                found[key]["tokens"] += event.manifest.tokens
                caches[recorded.session].calls[event.call] = event
            case AttemptStarted(attempt=attempt):
                caches[recorded.session].started[attempt] = read_time(recorded)
            case AttemptEnded() as event:
                caches[recorded.session].ends.append((event, read_time(recorded)))
                figures = found[keys[recorded.session, event.call]]
                figures["input_tokens"] += event.usage.input_tokens or 0
                figures["micro_dollars"] += event.cost.micro_dollars or 0
                if event.cost.micro_dollars is None:
                    if (recorded.session, event.call) not in unpriced:
                        figures["unpriced"] += 1
                    unpriced.add((recorded.session, event.call))
            case _:
                pass
    for (session, call), key in keys.items():
        outcome, lost = caches[session].find_outcome(call)
        found[key][outcome] += 1
        found[key]["lost"] += lost
        found[key]["lost_micro_dollars"] += 3 * lost
    return {key: +figures for key, figures in found.items()}


def collect_sizes(
    events: Sequence[RecordedEvent], bucket: int, by: Sequence[str]
) -> dict[tuple[str, ...], list[int]]:
    """Collect the sizes of prompts, in their order, by the same keys."""
    blueprints: dict[str, str] = {}
    found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for recorded in events:
        match recorded.event:
            case SessionOpened() | BlueprintMoved() as event:
                blueprints[recorded.session] = f"{event.blueprint.name} v{event.blueprint.version}"
            case ContextAssembled(manifest=manifest):
                version = blueprints[recorded.session]
                values = {"version": version, "kind": manifest.kind}
                values["blueprint"] = version.partition(" ")[0]
                key = (recorded.envelope.time[:bucket], *(values[name] for name in by))
                found[key].append(manifest.tokens)
            case _:
                pass
    return {key: sorted(sizes) for key, sizes in found.items()}


def check_sizes(
    groups: Sequence[GroupGrowth], expected: Mapping[tuple[str, ...], list[int]], bucket: int
) -> None:
    """Require the nearest ranks of each group, as far as sizes are rounded."""
    for each in groups:
        assert each.prompt_sizes
        sizes = expected.get(((each.at or "")[:bucket], *(key or "" for key in each.key.values())))
        for percent, found in (
            (10, each.prompt_sizes.p10),
            (50, each.prompt_sizes.p50),
            (95, each.prompt_sizes.p95),
        ):
            rank = -(-percent * len(sizes or ()) // 100)
            assert found == pytest.approx(sizes[rank - 1] if sizes else 0, rel=1 / 64)


def read_time(recorded: RecordedEvent) -> datetime:
    return datetime.fromisoformat(recorded.envelope.time)


def collect_figures(
    groups: Sequence[GroupGrowth], bucket: int, by: Sequence[str]
) -> dict[tuple[str, ...], Figures]:
    return {
        ((each.at or "")[:bucket], *(each.key[name] or "" for name in by)): +Counter(
            {
                "calls": each.calls,
                "tokens": each.tokens,
                "input_tokens": each.input_tokens,
                "micro_dollars": each.cost.micro_dollars or 0,
                "unpriced": each.cost.unpriced_calls,
                "lost": sum(use.tokens for use in each.caches),
                "lost_micro_dollars": sum(use.cost.micro_dollars or 0 for use in each.caches),
            }
        )
        + sum_outcomes(each)
        for each in groups
    }


def sum_outcomes(group: GroupGrowth) -> Figures:
    sums = Figures()
    for use in group.caches:
        sums[use.outcome] += use.calls
    return sums


_QUESTIONS: tuple[tuple[GrowthBucket | None, int, tuple[GrowthGrouping, ...]], ...] = (
    (None, 0, ()),
    (None, 0, ("version",)),
    ("hour", len("2026-03-01T22"), ("kind",)),
    ("day", len("2026-03-01"), ("blueprint", "kind")),
)


@pytest.mark.slow("rows are built many times over, on both databases")
@settings(
    max_examples=choose_examples(12),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=_STEPS,
    sizes=st.lists(st.integers(1, 6), min_size=1),
    places=st.tuples(st.integers(0, 99), st.integers(0, 99)),
)
async def test_ledger_equals_rows(
    store: ReadModelStore,
    steps: Sequence[DrawnStep],
    sizes: list[int],
    places: tuple[int, int],
) -> None:
    log = MemoryLog()
    sessions = {
        name: DrawnSession(StoredSession(log=log, session=name, at=BEGIN)) for name in ("s1", "s2")
    }
    for step in steps:
        await sessions[step.session].append_step(step)
    at, rest = await start_live_build(store), await read_all_events(log)
    events = [codec.decode_event(raw.stored, raw.stream_sequence) for raw in rest]
    while rest:
        size = sizes[len(rest) % len(sizes)]
        at, _ = await fold_events(store, at, rest[:size])
        rest = rest[size:]
        # Sums are computed in between, so that later events change hours that have some.
        if size % 2:
            await sum_all_hours(store)
        elif size > 2:
            await sum_changed_hours(store)
    for bucket, characters, by in _QUESTIONS:
        groups = await read_groups(store, by, bucket)
        assert collect_figures(groups, characters, by) == sum_events(events, characters, by)
        check_sizes(groups, collect_sizes(events, characters, by), characters)
    # Times of events are within hours.
    times = [read_time(each) for each in events] or [BEGIN]
    since, until = sorted(times[place % len(times)] for place in places)
    within = sum(
        since <= time < until
        for each, time in zip(events, times, strict=False)
        if isinstance(each.event, ContextAssembled)
    )
    groups = await read_groups(store, sought=GrowthFilter(since=since, until=until))
    assert sum(each.calls for each in groups) == within


@pytest.fixture
def story() -> StoredSession:
    return StoredSession(log=MemoryLog(), at=BEGIN)


async def append_calls(story: StoredSession, first: int, last: int) -> None:
    """Make a call in each of so many hours."""
    if not story.last_event:
        await story.append_events(build_opened(), build_submitted(1, "one"))
    for number in range(first, last + 1):
        await story.append_events(build_assembled(1, f"1.{number}", build_part("system", tokens=9)))
        story.at += timedelta(hours=1)


async def test_hours_but_the_latest_are_summed(store: ReadModelStore, story: StoredSession) -> None:
    await append_calls(story, 1, 3)
    await fold_log(store, story.log)
    await sum_changed_hours(store)
    assert await list_summed_hours(store) == ["2026-03-01T22", "2026-03-01T23"]
    assert [each.calls for each in await read_groups(store, bucket="hour")] == [1, 1, 1]


async def append_call(story: StoredSession, number: int, at: datetime) -> None:
    story.at = at
    await story.append_events(build_assembled(1, f"1.{number}", build_part("system", tokens=9)))


async def test_ten_minutes_of_the_latest_hour_are_summed(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"))
    for number, minutes in enumerate((1, 9, 10, 25), start=1):
        await append_call(story, number, BEGIN + timedelta(minutes=minutes))
    await fold_log(store, story.log)
    await sum_changed_hours(store)
    assert await list_summed_hours(store) == ["2026-03-01T22:0", "2026-03-01T22:1"]
    assert [each.calls for each in await read_groups(store, bucket="hour")] == [4]
    await append_call(story, 5, BEGIN + timedelta(minutes=60))
    await fold_log(store, story.log)
    await sum_changed_hours(store)
    assert await list_summed_hours(store) == ["2026-03-01T22"]
    assert [each.calls for each in await read_groups(store, bucket="hour")] == [4, 1]


async def test_call_by_a_late_clock_counts_once_in_an_hour_that_was_summed(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await append_call(story, 1, BEGIN + timedelta(minutes=58))
    await append_call(story, 2, BEGIN + timedelta(minutes=60))
    await fold_log(store, story.log)
    await sum_changed_hours(store)
    await append_call(story, 3, BEGIN + timedelta(minutes=59))
    await fold_log(store, story.log)
    assert [each.calls for each in await read_groups(store, bucket="hour")] == [2, 1]
    await sum_changed_hours(store)
    assert await list_summed_hours(store) == ["2026-03-01T22"]
    assert [each.calls for each in await read_groups(store, bucket="hour")] == [2, 1]


async def test_attempt_that_ends_in_a_later_hour_counts_in_the_hour_of_its_call(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await story.append_events(build_assembled(1, "1.1"), build_started(1, 1))
    story.at += timedelta(hours=1)
    await story.append_events(build_assembled(1, "1.2"))
    await fold_log(store, story.log)
    await sum_changed_hours(store)
    assert [each.input_tokens for each in await read_groups(store, bucket="hour")] == [0, 0]
    await story.append_events(build_ended(1, 1, tokens=7, micro_dollars=21))
    await fold_log(store, story.log)
    assert [each.input_tokens for each in await read_groups(store, bucket="hour")] == [7, 0]
    await sum_changed_hours(store)
    assert [each.input_tokens for each in await read_groups(store, bucket="hour")] == [7, 0]


async def test_attempt_that_ends_late_changes_the_hour_of_the_call_after_its_own(
    store: ReadModelStore, story: StoredSession
) -> None:
    """Whether that could have read a cache is known only now."""
    system = build_part("system", tokens=100)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await story.append_events(build_assembled(1, "1.1", system), build_started(1, 1))
    story.at += timedelta(hours=1)
    prefix = CachePrefix(call="1.1", messages=1, tokens=100)
    await story.append_events(
        build_assembled(1, "1.2", system, prefix=prefix),
        build_started(1, 2, "1.2"),
        build_ended(1, 2, tokens=100, micro_dollars=1, call="1.2", terms=TERMS),
    )
    story.at += timedelta(hours=1)
    await story.append_events(build_assembled(1, "1.3", system))
    await fold_log(store, story.log)
    await sum_changed_hours(store)

    async def list_outcomes() -> list[list[str]]:
        groups = await read_groups(store, bucket="hour")
        return [[use.outcome for use in each.caches] for each in groups]

    assert await list_outcomes() == [["first"], ["unknown"], ["first"]]
    await story.append_events(build_ended(1, 1, tokens=100, micro_dollars=1, terms=TERMS))
    await fold_log(store, story.log)
    assert await list_outcomes() == [["first"], ["missed"], ["first"]]
    await sum_changed_hours(store)
    assert await list_outcomes() == [["first"], ["missed"], ["first"]]


async def test_sums_of_a_build_that_readers_left_are_cleared_with_its_rows(
    store: ReadModelStore, story: StoredSession
) -> None:
    await append_calls(story, 1, 3)
    await fold_log(store, story.log)
    await sum_changed_hours(store)
    await start_live_build(store)
    await clear_hidden_builds(store)
    async with store.open_reader() as connection:
        for table in HOUR_TABLES:
            assert (await connection.execute(select(table))).all() == []
    await fold_log(store, story.log)
    await sum_changed_hours(store)
    assert await list_summed_hours(store) == ["2026-03-01T22", "2026-03-01T23"]


async def test_earliest_hour_of_all_tenants_is_summed_first(store: ReadModelStore) -> None:
    """A tenant whose clock is ahead has an hour to sum at any time."""
    log = MemoryLog()
    ahead = StoredSession(log=log, tenant="a", at=BEGIN + timedelta(days=1))
    behind = StoredSession(log=log, tenant="t", at=BEGIN)
    for story in (ahead, behind):
        await append_calls(story, 1, 2)
    await fold_log(store, log)
    async with store.open_writer() as connection:
        assert await sum_changed_hour(connection)
    assert await list_summed_hours(store) == ["2026-03-01T22"]
