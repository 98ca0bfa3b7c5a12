"""Explaining calls of sessions of any length: what an answer takes is read, and no more.

It begins with what is near a call, with the turns it was told of, and with the events that are rare
and hold for long; whatever an answer takes besides is read as it asks. One that takes much of a
session is given like any other, but one at a time, since all of that is held in memory.
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
"""Events that take some ten megabytes."""
ROUNDS: Final = 12
"""How often an answer may ask for more of a session before it is given all there is."""
BEHIND: Final = 24
"""Events behind a call that are read at first: what came of it."""

Knowing = Mapping[str, Known]
"""What is known of each session that an answer is about."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Explaining:
    """Explains calls of a tenant's sessions."""

    past: Past
    tenant: str
    whole: asyncio.Lock
    """Held by whoever holds more of sessions than anybody may."""
    freely: int = FREELY
    """Events that anybody may hold for an answer."""

    async def known(self, session: str, calls: Sequence[str]) -> Known:
        """Give what to begin with; refuses a call that was never made."""
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
        """Give it for whichever call answered a turn; without one it is looked for."""
        try:
            return await self.known(session, [f"{turn}.1"])
        except Refused as refused:
            if refused.code != "unknown-call":
                raise
            return await self.known(session, [])

    async def _around(self, moment: Moment, known: Known) -> Known:
        """Add what lies around a call, from the first turn that it was told of by itself."""
        near, call = moment.near or (moment.recorded,), moment.recorded
        known = known.joined(near)
        known = known.was(moment.before) if moment.before else known
        behind = range(call.sequence + 1, min(known.end, call.sequence + BEHIND) + 1)
        for wanted in (range(_begins(moment), near[0].sequence), behind):
            known = known.joined(await self._read(known, wanted)) if wanted else known
        return known

    async def explained(self, knowing: Knowing, ask: Callable[[Knowing], Answer]) -> Answer:
        """Give an answer; what it asks for is added to what it goes by."""
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
        """Read a stretch of a session."""
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
    """Give where to read from: what began the first turn that a call was told of by itself."""
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
