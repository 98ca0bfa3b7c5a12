"""Forecasts of sessions: what their record and that of their blueprint say of the next turns.

The work is bounded: the latest events of the session, the first ones of some other sessions, and a
number of runs. It is done in a thread, for one caller after the other, and the latest forecasts are
cached. The runs, and what is drawn in them, are in `projections.forecast`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from turnlog.contract.memory_payloads import (
    ForecastErrors,
    ForecastLimit,
    ForecastTokens,
    ForecastTurns,
    ForecastView,
)
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.record.session_replay import collect_blob_digests
from turnlog.projections.forecast.session_forecast import (
    HORIZON,
    BandWidening,
    ExpectedLimit,
    ForecastInputs,
    SessionForecast,
    forecast_session,
)
from turnlog.projections.prompt.sources.session_material import get_pins
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.tool_disclosure import list_tool_texts
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.row_types import ListedSession
from turnlog.projections.store.read.session_queries import SessionQuery, list_sessions
from turnlog.services.audit.session_record import SessionRecordLoader
from turnlog.services.extensions.plugins import collect_installed
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.sessions.time_travel import TimeTravel
from turnlog.services.use_cases.prompts.forecast_sentences import describe_forecast

MAX_OWN_EVENTS: Final = 2_000
"""Latest events of the session that are read."""

MAX_READ_EVENTS: Final = 10_000
"""Latest events that are read where a window refers to older ones."""

MAX_OTHER_EVENTS: Final = 300
"""First events of each other session that are read."""

MAX_OTHERS: Final = 8
"""Other sessions of the blueprint that are drawn from, those with the latest events."""

SLICE_EVENTS: Final = 64
"""Events that are read and decoded before other work of the event loop."""

MAX_CACHED: Final = 64
"""Forecasts that are cached."""

BACKTEST_FILE: Final = Path(__file__).with_name("forecast_backtest.json")
"""Written by `python -m benchmarks.forecast_backtest --write`."""


class BacktestFigures(BaseModel):
    """What the back-test wrote of all kinds of sessions together."""

    model_config = ConfigDict(extra="ignore")

    reached: int
    median_error: float | None
    p90_error: float | None
    coverage: float | None


class Backtest(BaseModel):
    """What the back-test wrote."""

    model_config = ConfigDict(extra="ignore")

    sessions: int
    widening: BandWidening
    all: BacktestFigures

    def create_errors(self) -> ForecastErrors:
        """Return what is shown beside each forecast."""
        return ForecastErrors(
            sessions=self.sessions,
            forecasts=self.all.reached,
            median_error=self.all.median_error,
            p90_error=self.all.p90_error,
            coverage=self.all.coverage,
        )


@cache
def read_backtest() -> Backtest:
    """Return the figures of the back-test."""
    return Backtest.model_validate_json(BACKTEST_FILE.read_bytes())


CacheKey = tuple[object, ...]


@dataclass(slots=True)
class ForecastCache:
    """The latest forecasts, by what they were made from."""

    slot: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a forecast is made."""
    forecasts: OrderedDict[CacheKey, SessionForecast] = field(
        default_factory=OrderedDict[CacheKey, SessionForecast]
    )

    def put(self, key: CacheKey, forecast: SessionForecast) -> None:
        """Add a forecast, and drop the oldest if there are too many."""
        self.forecasts[key] = forecast
        if len(self.forecasts) > MAX_CACHED:
            self.forecasts.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForecasts:
    """Forecasts sessions."""

    time_travel: TimeTravel
    store: ReadModelStore
    default_model: str
    """The model of profiles that say `default`."""
    max_own_events: int = MAX_OWN_EVENTS
    cache: ForecastCache = field(default_factory=ForecastCache)

    async def forecast_session(self, tenant: str, session: str) -> ForecastView:
        """Return when a prompt is next cut or summarised, by which rule, and how sure that is."""
        state = await self.time_travel.command_handler.require_state(tenant, session)
        rows = await self._list_other_sessions(state)
        key = (
            tenant,
            session,
            state.head.hash,
            tuple((each.session, each.sequence) for each in rows),
        )
        async with self.cache.slot:
            found = self.cache.forecasts.get(key)
            if found is None:
                inputs = await self._load_inputs(state, rows)
                found = await _compute_forecast(inputs)
                self.cache.put(key, found)
        return _create_view(state, found)

    async def _list_other_sessions(self, state: SessionState) -> Sequence[ListedSession]:
        """Return other sessions of the blueprint, those of the same version first."""
        async with self.store.open_reader() as connection:
            page = await list_sessions(
                connection,
                state.tenant,
                SessionQuery(blueprint=state.blueprint.name),
                order="last",
                limit=2 * MAX_OTHERS,
            )
        usable = [
            each
            for each in page.sessions
            if each.session != state.session and each.turns and each.stopped is None
        ]
        usable.sort(key=lambda each: each.digest != state.blueprint.digest)
        return usable[:MAX_OTHERS]

    async def _load_inputs(
        self, state: SessionState, rows: Sequence[ListedSession]
    ) -> ForecastInputs:
        before, events = await self._load_latest_events(state)
        others = [await self._load_first_events(state.tenant, each) for each in rows]
        named = await run_in_thread(lambda: collect_blob_digests(chain(events, *others)))
        digests = chain(list_state_blobs(state), named)
        records = SessionRecordLoader(self.time_travel.command_handler)
        return ForecastInputs(
            events=tuple(events),
            before=before,
            others=tuple(others),
            blobs=await records.load_blobs(state.tenant, digests),
            installed=collect_installed(),
            default_model=self.default_model,
        )

    async def _load_latest_events(
        self, state: SessionState
    ) -> tuple[SessionState | None, Sequence[RecordedEvent]]:
        """Return the latest events, those that windows refer to included, and the state before."""
        tenant, session, last = state.tenant, state.session, state.head.sequence
        start, before = last - self.max_own_events, None
        referred = [
            each for each in iterate_window_sequences(state) if each > last - MAX_READ_EVENTS
        ]
        start = min([start, *(each - 1 for each in referred)])
        if start > 0:
            before = (await self.time_travel.load_state_at(tenant, session, start)).state_after
        head = before.head if before else None
        return before, await self._read_in_slices(tenant, session, head, last)

    async def _read_in_slices(
        self, tenant: str, session: str, head: ChainHead | None, upto: int
    ) -> list[RecordedEvent]:
        """Return the events after a head; the event loop goes on between the slices."""
        handler, events = self.time_travel.command_handler, list[RecordedEvent]()
        while (after := head.sequence if head else 0) < upto:
            end = min(upto, after + SLICE_EVENTS)
            events += await handler.read_events_upto(tenant, session, head, end)
            head = events[-1].head
            await asyncio.sleep(0)
        return events

    async def _load_first_events(
        self, tenant: str, row: ListedSession
    ) -> tuple[RecordedEvent, ...]:
        """Return the first events of another session; none if it cannot be read."""
        upto = min(row.sequence, MAX_OTHER_EVENTS)
        try:
            return tuple(await self._read_in_slices(tenant, row.session, None, upto))
        except (Corrupt, Refused):
            return ()


def iterate_window_sequences(state: SessionState) -> Iterator[int]:
    """Yield the sequences of the events whose texts a window may include, oldest turns first."""
    for turn in state.turns:
        yield from (each.sequence for each in (turn.text, turn.reply, turn.work) if each)
    yield from (each.sequence for each in state.summaries)
    yield from (each.text.sequence for each in state.carried_before)
    if state.carried is not None:
        yield state.carried.sequence


def list_state_blobs(state: SessionState) -> Iterable[Digest]:
    """Return the digests of what a session is pinned to, whichever events pinned it."""
    yield from get_pins(state).digests
    for files in state.prompts.values():
        yield from (each.digest for each in files.values())
    for pinned in state.tools.values():
        yield from list_tool_texts(pinned)


async def _compute_forecast(inputs: ForecastInputs) -> SessionForecast:
    try:
        return await run_in_thread(lambda: forecast_session(inputs, read_backtest().widening))
    except (Corrupt, Refused):
        raise
    except Exception as error:  # an altered record may contain anything
        raise Corrupt("the record", f"it cannot be continued: {error!r}") from error


def _create_view(state: SessionState, found: SessionForecast) -> ForecastView:
    errors, turn = read_backtest().create_errors(), state.submitted
    expected = _create_limit(found.expected) if found.expected else None
    turns = ForecastTurns.model_validate(found.turns) if found.turns else None
    return ForecastView(
        session=state.session,
        sequence=state.head.sequence,
        turn=turn,
        sentence=describe_forecast(turns, found.silent, expected, HORIZON),
        turns=turns,
        silence=found.silent,
        expected=expected,
        reached_share=round(found.reached_share, 3),
        horizon=HORIZON,
        tokens_per_turn=None if found.tokens_per_turn is None else round(found.tokens_per_turn, 1),
        next_turns=tuple(
            ForecastTokens(turn=turn + ahead, p10=each.p10, p50=each.p50, p90=each.p90)
            for ahead, each in enumerate(found.next_turns, 1)
        ),
        runs=found.runs,
        own_turns=found.own_turns,
        other_turns=found.other_turns,
        other_sessions=found.other_sessions,
        measured=errors,
    )


def _create_limit(expected: ExpectedLimit) -> ForecastLimit:
    limit = expected.limit
    return ForecastLimit(
        effect=limit.effect,
        kind=limit.kind,
        rule=limit.rule,
        on=limit.on,
        component=limit.component,
        tokens=limit.tokens,
        limit=limit.limit,
        share=round(expected.share, 3),
    )
