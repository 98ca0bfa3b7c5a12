"""Explanations of calls: load only the events that an answer needs, however long the session is.

It starts from the events near a call, the turns that its prompt names one by one, and the rare
events with a lasting effect. Whatever else an answer needs is loaded when it asks for it. Answers
that need a large part of a session are computed one at a time, because they hold it in memory.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.manifest import HistorySource
from turnlog.projections.audit.explain.provenance_events import is_left_out_as_run
from turnlog.projections.audit.record.partial_log import (
    LASTING_LEAVES,
    MissingEvents,
    MissingState,
    PartialLog,
)
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.sessions.time_travel import StateAt, TimeTravel

UNLOCKED_EVENT_LIMIT: Final = 4_000
"""Events that need about ten megabytes."""

MAX_LOAD_ROUNDS: Final = 12
"""How often an answer may ask for more events before it gets the whole session."""

EVENTS_AFTER_CALL: Final = 24
"""Number of events after a call that are loaded first, to find its effects."""

EvidenceBySession = Mapping[str, PartialLog]
"""The loaded events and states of each session that an answer is about."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ExplainService:
    """Explains calls of a tenant's sessions."""

    time_travel: TimeTravel
    tenant: str
    large_load_lock: asyncio.Lock
    """Serialises answers that load more than `unlocked_event_limit` events."""
    unlocked_event_limit: int = UNLOCKED_EVENT_LIMIT
    """Events that an answer may hold without the lock."""

    async def load_evidence(self, session: str, calls: Sequence[str]) -> PartialLog:
        """Return the evidence to begin with; refuse an unknown call."""
        find_call = partial(self.time_travel.find_call, self.tenant, session)
        known, states_at = await asyncio.gather(
            self._load_lasting_events(session), asyncio.gather(*map(find_call, calls))
        )
        for state_at in states_at:
            known = await self._add_call_surroundings(state_at, known)
        return known

    async def _load_lasting_events(self, session: str) -> PartialLog:
        """Return the session's last event and state, and the events with a lasting effect."""
        log = self.time_travel.command_handler.log
        state = await self.time_travel.command_handler.require_state(self.tenant, session)
        leaves = (
            log.read_events_by_leaf(self.tenant, session, leaf, state.head)
            for leaf in LASTING_LEAVES
        )
        end, *rare = await asyncio.gather(
            log.read_events_at(self.tenant, [state.head.stream_sequence]), *leaves
        )
        lasting = sorted((each for found in rare for each in found), key=_get_sequence)
        known = PartialLog(session=session, events=lasting, stretches=(), end=state.head.sequence)
        return known.add_events(end).add_state(state)

    async def load_turn_evidence(self, session: str, turn: int) -> PartialLog:
        """Return the evidence about a turn's first call, or about the session if there is none."""
        try:
            return await self.load_evidence(session, [f"{turn}.1"])
        except Refused as refused:
            if refused.code != "unknown-call":
                raise
            return await self.load_evidence(session, [])

    async def _add_call_surroundings(self, state_at: StateAt, known: PartialLog) -> PartialLog:
        """Add the events around a call, from the first turn that its prompt names by itself."""
        near, call = state_at.nearby_events or (state_at.recorded,), state_at.recorded
        known = known.add_events(near)
        known = known.add_state(state_at.state_before) if state_at.state_before else known
        behind = range(call.sequence + 1, min(known.end, call.sequence + EVENTS_AFTER_CALL) + 1)
        for sequences in (range(_find_first_sequence(state_at), near[0].sequence), behind):
            if missing := known.trim_range(sequences):
                known = known.add_events(await self._read_range(known, missing))
        return known

    async def compute_answer(
        self, evidence: EvidenceBySession, compute: Callable[[EvidenceBySession], Answer]
    ) -> Answer:
        """Return the computed answer; load the events that it asks for and compute it again."""
        rounds, locked = 0, False
        async with AsyncExitStack() as alone:
            while True:
                rounds += 1
                try:
                    return await run_in_thread(partial(compute, evidence))
                except MissingState as unfolded:
                    known = evidence[unfolded.session]
                    state = await self.time_travel.load_state(
                        self.tenant, known.session, unfolded.sequence
                    )
                    known = known.add_state(state)
                except MissingEvents as missing:
                    known = evidence[missing.session]
                    sequences = (
                        missing.wanted if rounds < MAX_LOAD_ROUNDS else range(1, known.end + 1)
                    )
                    loaded_count = sum(len(each.events) for each in evidence.values())
                    if loaded_count + len(sequences) > self.unlocked_event_limit and not locked:
                        await alone.enter_async_context(self.large_load_lock)
                        locked = True
                    known = known.add_events(await self._read_range(known, sequences))
                evidence = {**evidence, known.session: known}

    async def _read_range(self, known: PartialLog, sequences: range) -> Sequence[RecordedEvent]:
        log, head = self.time_travel.command_handler.log, None
        if sequences.start > 1:
            head = (await self._read_event(known, sequences.start - 1)).head
        events = await log.read_next_events(self.tenant, known.session, head, len(sequences))
        if len(events) < len(sequences):
            upto = await self._read_event(known, sequences[-1])
            events = await log.read_range(self.tenant, known.session, head, upto)
        return events

    async def _read_event(self, known: PartialLog, sequence: int) -> RecordedEvent:
        place = bisect_left(known.events, sequence, key=_get_sequence)
        later = known.events[place]
        if later.sequence == sequence:
            return later
        return await self.time_travel.command_handler.log.find_event(
            self.tenant, known.session, sequence, later
        )


def _find_first_sequence(state_at: StateAt) -> int:
    """Return the sequence to read from: before the first turn that a prompt names by itself."""
    runs = (each for each in state_at.call_context.manifest.parts if not is_left_out_as_run(each))
    run_starts = [run.first for each in runs if isinstance(run := each.source, HistorySource)]
    state = state_at.state_before
    first = min(run_starts, default=state_at.call_context.turn)
    texts = [ref.text for ref in state.turns if ref.turn >= first] if state else []
    opened = [state.open.submission.text] if state and state.open else []
    begun = [text.sequence for text in (*texts, *opened) if text]
    return max(1, min(begun, default=2) - 1)


def _get_sequence(recorded: RecordedEvent) -> int:
    return recorded.sequence
