"""The overview of all sessions and what alerts measure, from read models with a day of calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from sqlalchemy import Boolean, Table, Text, insert

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from turnlog.events.async_tasks import run_tasks
from turnlog.events.codec import format_rfc3339
from turnlog.events.model.alert_events import AlertRule, AlertScope
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.store.ports import EventLog
from turnlog.events.subjects import ALERT_HISTORY, LIBRARY_HISTORY
from turnlog.projections.alerts.alert_measures import MEASURES
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.growth.hour_sums import sum_changed_hour
from turnlog.projections.store.schema import read_model_tables as tables
from turnlog.projections.store.schema.hour_tables import CHANGED_HOURS, TEN_MINUTES_CHARACTERS
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.alerts.alert_evaluator import AlertEvaluator
from turnlog.services.alerts.alert_service import AlertService
from turnlog.services.alerts.alert_use_cases import AlertUseCases
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.platform.clock import create_id
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.use_cases.overview_reading import OverviewReading

_OWNER: Final = {"build": 1, "tenant": "t"}

_SESSIONS: Final = 300

_BLUEPRINTS: Final = 7

_MODELS: Final = 3

_COMPONENTS: Final = ("system_prompt", "history", "query", "rag_context")

_NOW: Final = datetime(2026, 11, 23, 8, 59, tzinfo=UTC)
"""Nearly all of an hour is open, and nine of its last ten minutes."""


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Read it with days of different size."""
    figures = await _measure_day(terms, 5_000, (25, 150))
    if terms.long:
        figures += await _measure_day(terms, 100_000, (None, None))
    return figures


async def _measure_day(
    terms: BenchmarkTerms, calls: int, bounds: tuple[int | None, int | None]
) -> list[Figure]:
    """Measure what is read of a day: the overview, and what alerts ask."""
    store = await _fill_store(terms.folder / f"overview-{calls}.db", calls)
    try:
        return [
            await _measure_overview(terms, store, calls, bounds[0]),
            *await _measure_alerts(terms, store, calls, bounds[1]),
        ]
    finally:
        await store.close()


async def _measure_alerts(
    terms: BenchmarkTerms, store: ReadModelStore, calls: int, bound: int | None
) -> Sequence[Figure]:
    """Measure twenty rules that raise nothing, and how long one of their steps holds the loop."""
    service = _create_alert_service()
    caller = Caller(tenant="t", metadata=CommandMetadata("benchmark"))
    await service.set_rules(caller, dict(_build_rules()), removes_others=False)
    evaluator = AlertEvaluator(
        log=cast("EventLog", _LogWithoutLag()),
        store=store,
        service=service,
        clock=lambda: _NOW,
    )
    await evaluator.evaluate_alerts()
    runs, holds = list[float](), list[float]()
    for _ in range(terms.runs * 5):
        async with measure_holds() as held:
            began = time.process_time()
            await evaluator.evaluate_alerts()
            runs.append((time.process_time() - began) * 1_000)
        holds.append(max(held, default=0.0) * 1_000)
    what = f"{RULES} rules on a day of {calls:,} calls in {_SESSIONS} sessions, from SQLite"
    return [
        Figure(
            name=f"alerts, {RULES} rules, {calls:,} calls a day",
            measured=f"one measurement of {what}: processor time",
            unit="ms",
            runs=tuple(runs),
            target=require_at_most(bound) if bound else None,
        ),
        Figure(
            name=f"alerts, longest hold, {calls:,} calls a day",
            measured=f"the longest time that another task waited for the event loop during {what}",
            unit="ms",
            runs=tuple(holds),
        ),
    ]


def _create_alert_service() -> AlertService:
    parts = LibraryParts(
        log=MemoryLog(kind=LIBRARY_HISTORY),
        blobs=MemoryBlobStore(),
        clock=lambda: _NOW,
        create_id=create_id,
        source="/benchmark",
    )
    return AlertService(parts, MemoryLog(kind=ALERT_HISTORY))


RULES: Final = 20


def _build_rules() -> Iterator[tuple[str, AlertRule]]:
    """Build rules of every measure, with the longest windows that this day has."""
    for number in range(RULES):
        measure, terms = [*MEASURES.items()][number % len(MEASURES)]
        scope = AlertScope(blueprint=f"b{number % _BLUEPRINTS}" if number >= RULES // 2 else None)
        longest = terms.longest_window
        seconds = None if longest is None else int(min(longest, timedelta(days=1)).total_seconds())
        yield (
            f"{measure}-{number}",
            AlertRule(
                measure=measure,
                where=scope if "blueprint" in terms.scope else AlertScope(),
                window_seconds=seconds,
                above=1e12,
            ),
        )


@asynccontextmanager
async def measure_holds() -> AsyncGenerator[list[float]]:
    """Collect how long the event loop kept a task waiting that is always ready."""
    held = list[float]()

    async def run_ticks() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            held.append(now - last)
            last = now

    async with run_tasks(run_ticks()):
        yield held


async def _measure_overview(
    terms: BenchmarkTerms, store: ReadModelStore, calls: int, bound: int | None
) -> Figure:
    handler = cast("CommandHandler", SimpleNamespace(clock=lambda: _NOW, log=_LogWithoutLag()))
    reading = OverviewReading(handler, store, AlertUseCases(_create_alert_service()))
    await reading.load_overview("t")
    runs = [await _measure_reading(reading) for _ in range(terms.runs * 5)]
    return Figure(
        name=f"overview, {calls:,} calls a day",
        measured=f"`GET /v1/overview` of a day of {calls:,} calls in {_SESSIONS} sessions, without"
        " HTTP, from SQLite, at the end of an hour: processor time",
        unit="ms",
        runs=tuple(runs),
        target=require_at_most(bound) if bound else None,
    )


async def _measure_reading(reading: OverviewReading) -> float:
    began = time.process_time()
    await reading.load_overview("t")
    return (time.process_time() - began) * 1_000


class _LogWithoutLag:
    async def get_last_stream_sequence(self, tenant: str) -> int:
        del tenant
        return 1


async def _fill_store(path: Path, calls: int) -> ReadModelStore:
    store = open_store(f"sqlite:///{path}")
    await prepare_schema(store)
    times = [_NOW - timedelta(days=1) * (1 - place / calls) for place in range(calls)]
    drawn = [_DrawnCall(place, format_rfc3339(at)) for place, at in enumerate(times)]
    changed = {each.at[:TEN_MINUTES_CHARACTERS] for each in drawn}
    position = {"name": "sessions", "version": 1, "stream": "s", "position": 1, "active": True}
    rows: dict[Table, list[dict[str, Any]]] = {
        tables.PROJECTIONS: [{"build": 1, "created": "", "hash": None, **position}],
        tables.SESSIONS: list(_draw_sessions()),
        tables.PINNED_BLUEPRINTS: [
            _complete_row(tables.PINNED_BLUEPRINTS, {"session": f"s{place}", "version": 1})
            for place in range(_SESSIONS)
        ],
        tables.TURNS: [each.build_turn() for each in drawn],
        tables.CALLS: [each.build_call() for each in drawn],
        tables.ATTEMPTS: [each.build_attempt() for each in drawn],
        tables.WINDOW_PARTS: [row for each in drawn for row in each.build_parts()],
        CHANGED_HOURS: [{**_OWNER, "hour": hour} for hour in changed],
    }
    async with store.open_writer() as connection:
        for table, of_table in rows.items():
            await connection.execute(insert(table), of_table)
    is_summed = True
    while is_summed:
        async with store.open_writer() as connection:
            is_summed = await sum_changed_hour(connection)
    return store


def _draw_sessions() -> Iterator[dict[str, Any]]:
    for place in range(_SESSIONS):
        values = {
            "session": f"s{place}",
            "blueprint": f"b{place % _BLUEPRINTS}",
            "opened_position": place,
            "attributes": "{}",
            "budget_share": place * 1_000 // _SESSIONS,
        }
        yield _complete_row(tables.SESSIONS, values)


@dataclass(frozen=True, slots=True)
class _DrawnCall:
    """A turn with one call and one attempt."""

    place: int
    at: str

    @property
    def _key(self) -> Mapping[str, Any]:
        return {"session": f"s{self.place % _SESSIONS}", "turn": self.place // _SESSIONS + 1}

    def build_turn(self) -> dict[str, Any]:
        failure = "timeout" if self.place % 97 == 0 else None
        status = "failed" if failure else "completed"
        values = {"submitted_at": self.at, "counted": True, "status": status, "failure": failure}
        return _complete_row(tables.TURNS, {**self._key, **values})

    def build_call(self) -> dict[str, Any]:
        turn = self._key["turn"]
        is_cut = self.place % 3 == 0
        values = {
            "call": f"{turn}.1",
            "sequence": turn * 5,
            "at": self.at,
            "kind": "reply",
            "model": f"m{self.place % _MODELS}",
            "tokens": 2_000,
            "optimizations": '{"drop_oldest_pairs":100}' if is_cut else "{}",
            "savings": 100,
            "prefix_call": f"{turn - 1}.1" if turn > 1 else None,
            "prefix_tokens": 1_500,
            "prefix_ended_by": "history" if is_cut else None,
        }
        return _complete_row(tables.CALLS, {**self._key, **values})

    def build_attempt(self) -> dict[str, Any]:
        values = {
            "attempt": 1,
            "call": f"{self._key['turn']}.1",
            "started_at": self.at,
            "ended_at": self.at,
            "outcome": "completed",
            "known": "reported",
            "input_tokens": 2_000,
            "output_tokens": 100,
            "cached_tokens": 1_024,
            "micro_dollars": 300,
            "price": "exact",
            "total_ms": self.place * 7 % 9_000,
            "cache_minimum": 1_024,
            "cache_step": 128,
            "cache_spared": 1_250_000,
            "cached_until": format_rfc3339(_NOW),
        }
        return _complete_row(tables.ATTEMPTS, {**self._key, **values})

    def build_parts(self) -> Iterator[dict[str, Any]]:
        for place, component in enumerate(_COMPONENTS):
            values = {"call": f"{self._key['turn']}.1", "component": component, "place": place}
            figures = {"session": self._key["session"], "parts": 1, "tokens": 500}
            yield _complete_row(tables.WINDOW_PARTS, {**values, **figures})


def _complete_row(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the build with these values, and the least where a column needs one."""
    row: dict[str, Any] = {}
    for column in table.columns:
        is_text = isinstance(column.type, Text)
        least = False if isinstance(column.type, Boolean) else "" if is_text else 0
        row[column.name] = None if column.nullable else least
    return {**row, **values, **_OWNER}
