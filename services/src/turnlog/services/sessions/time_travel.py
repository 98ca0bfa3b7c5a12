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

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.audit.record.event_queries import find_call
from turnlog.projections.audit.record.session_replay import RecordedCallInputs
from turnlog.projections.audit.verify.prompt_reproduction import collect_manifest_refs
from turnlog.projections.prompt.assembly_inputs import PromptCall
from turnlog.projections.session.evolve import evolve
from turnlog.projections.session.state import SessionState
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.session_snapshots import (
    INTERVAL_LENGTH,
    IntervalSnapshots,
    has_crossed_interval,
    remove_command_keys,
)
from turnlog.services.command_handling.row_waits import refuse_future
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import PromptInputLoader


class CallSequenceLookup(Protocol):
    """Looks up the sequence of calls in the read models."""

    async def find_call_sequence(self, tenant: str, session: str, call: str) -> int | None:
        """Return the sequence of the event that fixed a call's prompt, or None."""
        ...


@dataclass(frozen=True, slots=True)
class StateAt:
    """An event, and the session's state directly before it."""

    state_before: SessionState | None
    """None before the first event."""
    recorded: RecordedEvent
    nearby_events: tuple[RecordedEvent, ...] = ()
    """The event and those directly before it, as far as they were read anyway."""

    @property
    def state_after(self) -> SessionState:
        """The session's state directly after the event."""
        state = evolve(self.state_before, self.recorded)
        if state is None:
            raise Corrupt(f"event {self.recorded.sequence}", "the session was never opened")
        return remove_command_keys(state)

    @property
    def call_context(self) -> ContextAssembled:
        """The event as the context of a call; raises `Corrupt` if it is another event."""
        if not isinstance(self.recorded.event, ContextAssembled):
            raise Corrupt(f"event {self.recorded.sequence}", "it is not the context of a call")
        return self.recorded.event


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """Reads sessions as they were."""

    command_handler: CommandHandler
    blueprints: BlueprintStore
    prompt_inputs: PromptInputLoader
    call_sequences: CallSequenceLookup

    async def load_events(
        self, tenant: str, session: str, at: int | None
    ) -> Sequence[RecordedEvent]:
        """Return all events up to a sequence; refuse a sequence after the session's last event."""
        if at is not None:
            refuse_future(
                at, (await self.command_handler.load_last_event(tenant, session, at)).sequence, "at"
            )
        return await self.command_handler.load_events(tenant, session, at)

    async def load_event(self, tenant: str, session: str, sequence: int) -> RecordedEvent:
        """Return the event at a sequence; refuse a sequence after the session's last event."""
        last = await self.command_handler.load_last_event(tenant, session, sequence)
        refuse_future(sequence, last.sequence, "sequence")
        return await self.command_handler.log.find_event(tenant, session, sequence, last)

    async def load_state(self, tenant: str, session: str, at: int) -> SessionState:
        """Return the state after a sequence; refuse a sequence after the session's last event."""
        return (await self.load_state_at(tenant, session, at)).state_after

    async def load_state_at(self, tenant: str, session: str, at: int) -> StateAt:
        """Return the event at a sequence with the state before it."""
        return await self._read_state_at(
            await self.command_handler.load_last_event(tenant, session, at), at
        )

    async def _read_state_at(self, last: RecordedEvent, at: int) -> StateAt:
        refuse_future(at, last.sequence, "at")
        tenant, session = last.tenant, last.session
        state = await IntervalSnapshots(self.command_handler.snapshots).find_state(
            tenant, session, at - 1
        )
        head = state.head if state else None
        events = await self.command_handler.read_events_upto(tenant, session, head, at)
        self.command_handler.texts.cache_events(events)
        return StateAt(
            await self._fold_and_save_snapshots(state, events[:-1]),
            events[-1],
            tuple(events[-INTERVAL_LENGTH:]),
        )

    async def _fold_and_save_snapshots(
        self, state: SessionState | None, events: Sequence[RecordedEvent]
    ) -> SessionState | None:
        """Fold events and save the interval snapshots that were missing among them."""
        kept = state
        for recorded in events:
            state = evolve(state, recorded)
            if state and has_crossed_interval(kept, state):
                with suppress(Unavailable):
                    await IntervalSnapshots(self.command_handler.snapshots).save_state(state)
                kept = state
        return state

    async def find_call(self, tenant: str, session: str, call: str) -> StateAt:
        """Return the event that fixed a call's prompt, with its state; refuse an unknown call."""
        sequence, last = await asyncio.gather(
            self.call_sequences.find_call_sequence(tenant, session, call),
            self.command_handler.load_last_event(tenant, session),
        )
        if sequence is not None and sequence > last.sequence:
            last = await self.command_handler.load_last_event(tenant, session, sequence)
        if sequence is not None and sequence <= last.sequence:
            moment = await self._read_state_at(last, sequence)
            event = moment.recorded.event
            if isinstance(event, ContextAssembled) and event.call == call:
                return moment
        events = await self.command_handler.load_events(tenant, session)
        recorded, _ = find_call(events, call)
        return StateAt(
            await self._fold_and_save_snapshots(None, events[: recorded.sequence - 1]), recorded
        )

    async def load_referenced_events(self, state_at: StateAt) -> tuple[RecordedEvent, ...]:
        """Return the events that a call's manifest refers to, in order and with gaps."""
        recorded, state = state_at.recorded, state_at.state_before
        tenant, session = recorded.tenant, recorded.session
        manifest = state_at.call_context.manifest
        found = collect_manifest_refs(manifest, state) if state else None
        if found is None and state and state.earlier:
            state = await self.command_handler.load_older_turns(state, every_turn=False)
            found = collect_manifest_refs(manifest, state)
        if found is None:
            return tuple(await self.command_handler.load_events(tenant, session, recorded.sequence))
        near = {each.stream_sequence: each for each in state_at.nearby_events}
        log, places = self.command_handler.log, found.stream_positions
        events = [near[place] for place in places & near.keys()]
        events += await log.read_events_at(tenant, sorted(places - near.keys()))
        events += [
            await log.find_event(tenant, session, each, recorded) for each in found.sequences
        ]
        self.command_handler.texts.cache_events(events)
        return tuple(sorted(events, key=lambda event: event.sequence))

    async def load_assembly_inputs(self, state_at: StateAt) -> RecordedCallInputs:
        """Return every input that a call was assembled from; raise `Corrupt` when one is gone."""
        recorded, state = state_at.recorded, state_at.state_before
        context = state_at.call_context
        manifest = context.manifest
        if state is None or state.head.sequence != manifest.sequence:
            detail = f"it was not assembled from event {manifest.sequence}"
            raise Corrupt(f"event {recorded.sequence}", detail)
        material = await self.blueprints.load_material(state)
        bare = PromptCall(kind=manifest.kind, model=context.model, at=manifest.at)
        inputs = await self.prompt_inputs.load_recorded_call(material, state, bare, manifest)
        planned = inputs.unfilled
        return RecordedCallInputs(
            recorded=recorded,
            call=context,
            state=planned.state,
            material=material,
            call_request=planned.call,
            texts=inputs.texts,
        )
