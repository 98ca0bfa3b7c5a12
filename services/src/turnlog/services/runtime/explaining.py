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

from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.events.manifest import FromTurns
from turnlog.projections.audit.grounds import left_out_as_one
from turnlog.projections.audit.known import LASTING, Further, Known, Unfolded
from turnlog.services.runtime.aside import aside
from turnlog.services.runtime.past import Moment, Past

FREELY: Final = 4_000
"""Events that need about ten megabytes."""
ROUNDS: Final = 12
"""How often an answer may ask for more events before it gets the whole session."""
BEHIND: Final = 24
"""Events after a call that are loaded at first, for what came of it."""

Knowing = Mapping[str, Known]
"""The loaded events and states of each session that an answer is about."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Explaining:
    """Explains calls of a tenant's sessions."""

    past: Past
    tenant: str
    whole: asyncio.Lock
    """Serialises answers that load more than `unlocked_event_limit` events."""
    freely: int = FREELY
    """Events that an answer may hold without the lock."""

    async def known(self, session: str, calls: Sequence[str]) -> Known:
        """Return the evidence to begin with; refuse an unknown call."""
        log = self.past.sessions.log
        state = await self.past.sessions.load_open(self.tenant, session)
        leaves = (log.all_under(self.tenant, session, leaf, state.head) for leaf in LASTING)
        end, *rare = await asyncio.gather(
            log.at(self.tenant, [state.head.stream_sequence]), *leaves
        )
        lasting = sorted((each for found in rare for each in found), key=_sequence)
        known = Known(session, lasting, (), state.head.sequence).joined(end).was(state)
        for call in calls:
            known = await self._around(await self.past.call(self.tenant, session, call), known)
        return known

    async def of_turn(self, session: str, turn: int) -> Known:
        """Return the evidence about a turn's first call, or about the session if there is none."""
        try:
            return await self.known(session, [f"{turn}.1"])
        except Refused as refused:
            if refused.code != "unknown-call":
                raise
            return await self.known(session, [])

    async def _around(self, moment: Moment, known: Known) -> Known:
        """Add the events around a call, from the first turn that its prompt names by itself."""
        near, call = moment.near or (moment.recorded,), moment.recorded
        known = known.joined(near)
        known = known.was(moment.before) if moment.before else known
        behind = range(call.sequence + 1, min(known.end, call.sequence + BEHIND) + 1)
        for wanted in (range(_begins(moment), near[0].sequence), behind):
            known = known.joined(await self._read(known, wanted)) if wanted else known
        return known

    async def explained(self, knowing: Knowing, ask: Callable[[Knowing], Answer]) -> Answer:
        """Return the computed answer; load the events that it asks for and compute it again."""
        rounds, locked = 0, False
        async with AsyncExitStack() as alone:
            while True:
                rounds += 1
                try:
                    return await aside(partial(ask, knowing))
                except Unfolded as unfolded:
                    known = knowing[unfolded.session]
                    state = await self.past.state(self.tenant, known.session, unfolded.sequence)
                    known = known.was(state)
                except Further as further:
                    known = knowing[further.session]
                    wanted = further.wanted if rounds < ROUNDS else range(1, known.end + 1)
                    held = sum(len(each.events) for each in knowing.values())
                    if held + len(wanted) > self.freely and not locked:
                        await alone.enter_async_context(self.whole)
                        locked = True
                    known = known.joined(await self._read(known, wanted))
                knowing = {**knowing, known.session: known}

    async def _read(self, known: Known, wanted: range) -> Sequence[Recorded]:
        log, head = self.past.sessions.log, None
        if wanted.start > 1:
            head = (await self._event(known, wanted.start - 1)).head
        events = await log.onward(self.tenant, known.session, head, len(wanted))
        if len(events) < len(wanted):
            upto = await self._event(known, wanted[-1])
            events = await log.between(self.tenant, known.session, head, upto)
        return events

    async def _event(self, known: Known, sequence: int) -> Recorded:
        place = bisect_left(known.events, sequence, key=_sequence)
        later = known.events[place]
        if later.sequence == sequence:
            return later
        return await self.past.sessions.log.find(self.tenant, known.session, sequence, later)


def _begins(moment: Moment) -> int:
    """Return the sequence to read from: before the first turn that a prompt names by itself."""
    runs = (each for each in moment.context.manifest.parts if not left_out_as_one(each))
    told = [run.first for each in runs if isinstance(run := each.source, FromTurns)]
    state = moment.before
    first = min(told, default=moment.context.turn)
    texts = [ref.text for ref in state.turns if ref.turn >= first] if state else []
    opened = [state.open.text] if state and state.open else []
    begun = [text.sequence for text in (*texts, *opened) if text]
    return max(1, min(begun, default=2) - 1)


def _sequence(recorded: Recorded) -> int:
    return recorded.sequence
