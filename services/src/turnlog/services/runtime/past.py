"""Time travel: a session's state at any sequence, and its calls as they were assembled.

A read costs the events from the nearest interval snapshot to the sequence, plus the events that a
prompt refers to, however long the session is. Where interval snapshots are missing, more is read
and they are saved on the way. Where the read models do not know a call, the log is searched for it.
No command may be decided on a state from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.projections.audit.calls import call_in
from turnlog.projections.audit.referring import referred_to
from turnlog.projections.audit.retelling import Made
from turnlog.projections.session.evolve import evolve
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.assemble import needs
from turnlog.projections.window.call import Call, provider_of
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.gathering import Gathering
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.waypoints import EVERY, Waypoints, for_reading, passed


class KnownCalls(Protocol):
    """Looks up the sequence of calls in the read models."""

    async def sequence_of(self, tenant: str, session: str, call: str) -> int | None:
        """Return the sequence of the event that fixed a call's prompt, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """An event, and the session's state directly before it."""

    before: SessionState | None
    """None before the first event."""
    recorded: Recorded
    near: tuple[Recorded, ...] = ()
    """The event and those directly before it, as far as they were read anyway."""

    @property
    def after(self) -> SessionState:
        """The session's state directly after the event."""
        state = evolve(self.before, self.recorded)
        if state is None:
            raise Corrupt(f"event {self.recorded.sequence}", "the session was never opened")
        return for_reading(state)

    @property
    def context(self) -> ContextAssembled:
        """The event as the context of a call; raises `Corrupt` if it is another event."""
        if not isinstance(self.recorded.event, ContextAssembled):
            raise Corrupt(f"event {self.recorded.sequence}", "it is not the context of a call")
        return self.recorded.event


@dataclass(frozen=True, slots=True)
class Past:
    """Reads sessions as they were."""

    sessions: Sessions
    blueprints: BlueprintStore
    gathering: Gathering
    calls: KnownCalls

    async def events(self, tenant: str, session: str, at: int | None) -> Sequence[Recorded]:
        """Return all events up to a sequence; refuse a sequence after the session's last event."""
        if at is not None:
            refuse_future(at, (await self.sessions.last(tenant, session, at)).sequence, "at")
        return await self.sessions.events(tenant, session, at)

    async def event(self, tenant: str, session: str, sequence: int) -> Recorded:
        """Return the event at a sequence; refuse a sequence after the session's last event."""
        last = await self.sessions.last(tenant, session, sequence)
        refuse_future(sequence, last.sequence, "sequence")
        return await self.sessions.log.find(tenant, session, sequence, last)

    async def state(self, tenant: str, session: str, at: int) -> SessionState:
        """Return the state after a sequence; refuse a sequence after the session's last event."""
        return (await self.moment(tenant, session, at)).after

    async def moment(self, tenant: str, session: str, at: int) -> Moment:
        """Return the event at a sequence with the state before it."""
        return await self._moment(await self.sessions.last(tenant, session, at), at)

    async def _moment(self, last: Recorded, at: int) -> Moment:
        refuse_future(at, last.sequence, "at")
        tenant, session = last.tenant, last.session
        state = await Waypoints(self.sessions.snapshots).before(tenant, session, at - 1)
        head, log = state.head if state else None, self.sessions.log
        count = at - (head.sequence if head else 0)
        events = await log.onward(tenant, session, head, count)
        if len(events) < count:
            upto = await log.find(tenant, session, at, last)
            events = await log.between(tenant, session, head, upto)
        self.sessions.texts.note(events)
        return Moment(await self._folded(state, events[:-1]), events[-1], tuple(events[-EVERY:]))

    async def _folded(
        self, state: SessionState | None, events: Sequence[Recorded]
    ) -> SessionState | None:
        """Fold events and save the interval snapshots that were missing among them."""
        kept = state
        for recorded in events:
            state = evolve(state, recorded)
            if state and passed(kept, state):
                with suppress(Unavailable):
                    await Waypoints(self.sessions.snapshots).keep(state)
                kept = state
        return state

    async def call(self, tenant: str, session: str, call: str) -> Moment:
        """Return the event that fixed a call's prompt, with its state; refuse an unknown call."""
        sequence, last = await asyncio.gather(
            self.calls.sequence_of(tenant, session, call), self.sessions.last(tenant, session)
        )
        if sequence is not None and sequence > last.sequence:
            last = await self.sessions.last(tenant, session, sequence)
        if sequence is not None and sequence <= last.sequence:
            moment = await self._moment(last, sequence)
            said = moment.recorded.event
            if isinstance(said, ContextAssembled) and said.call == call:
                return moment
        events = await self.sessions.events(tenant, session)
        recorded, _ = call_in(events, call)
        return Moment(await self._folded(None, events[: recorded.sequence - 1]), recorded)

    async def referred(self, moment: Moment) -> tuple[Recorded, ...]:
        """Return the events that a call's manifest refers to, in order and with gaps."""
        recorded, state = moment.recorded, moment.before
        tenant, session = recorded.tenant, recorded.session
        found = referred_to(moment.context.manifest, state) if state else None
        if found is None:
            return tuple(await self.sessions.events(tenant, session, recorded.sequence))
        near = {each.stream_sequence: each for each in moment.near}
        log, places = self.sessions.log, found.places
        events = [near[place] for place in places & near.keys()]
        events += await log.at(tenant, sorted(places - near.keys()))
        events += [await log.find(tenant, session, each, recorded) for each in found.sequences]
        self.sessions.texts.note(events)
        return tuple(sorted(events, key=lambda event: event.sequence))

    async def made(self, moment: Moment) -> Made:
        """Return every input that a call was assembled from; raise `Corrupt` when one is gone."""
        recorded, state = moment.recorded, moment.before
        said = moment.context
        manifest = said.manifest
        if state is None or state.head.sequence != manifest.sequence:
            detail = f"it was not assembled from event {manifest.sequence}"
            raise Corrupt(f"event {recorded.sequence}", detail)
        material = await self.blueprints.load(state)
        bare = Call(manifest.kind, said.model, provider_of(said.model), manifest.at)
        asked = await self.gathering.again(material, state, bare, manifest)
        wanted = needs(material, state, asked)
        if wanted.older:
            owner = (recorded.tenant, recorded.session)
            state = await self.sessions.load_whole(*owner, manifest.sequence)
            wanted = needs(material, state, asked)
        texts = await self.sessions.texts.fetch(recorded.tenant, wanted)
        return Made(recorded, said, state, material, asked, texts)


def refuse_future(sequence: int, head: int, field: str) -> None:
    """Refuse a sequence after the session's last event."""
    if sequence > head:
        detail = f"the session has come to sequence {head}"
        raise Refused("not-there-yet", detail, field=field, fix=f"ask for at most {head}")
