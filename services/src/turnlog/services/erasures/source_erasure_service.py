"""Erases texts of a tenant's library: removes them by an event, and then their keys.

An erasure begins with an event of the family's history, by which every reader removes what it
names. Then the rows are made to follow it, the keys are removed, and an event ends it. What was
made of the texts, retrievals and prompts of sessions, is under the same keys. Each step may be
repeated, so whoever finds an erasure that has not ended goes on from its beginning.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from turnlog.events import codec
from turnlog.events.codec import decode_library_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Conflict, Corrupt, KeyringMissing, TurnlogError, Unavailable
from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY
from turnlog.events.model.redaction_events import ERASURE_LEAF, SourceErased, SourceErasureBegun
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.registry import LibraryEvent
from turnlog.events.seals.key_ports import RemovedKeys, SealingKeys
from turnlog.events.seals.leaf_sets import name_library_keys
from turnlog.events.store.ports import EventLog
from turnlog.projections.library.source_erasures import (
    ERASABLE_FAMILIES,
    ErasedSource,
    list_begun_sequences,
    list_erased_digests,
    plan_source_erasure,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.knowledge.knowledge_projection import read_knowledge_sequence
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_for_sequence
from turnlog.projections.store.read.source_reach import SourceReach, list_reached_sessions
from turnlog.projections.store.write.segment_projection import read_segments_sequence
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    HistoryState,
    get_sequence,
)
from turnlog.services.command_handling.tenant_histories import TenantHistory
from turnlog.services.erasures.erasing_callers import hide_caller
from turnlog.services.erasures.erasure_guard import ErasureGuard
from turnlog.services.erasures.erasure_rounds import repeat_rounds

FOLD_SECONDS: Final = 30.0
"""Seconds that the rows of the library get to follow the beginning of an erasure."""

MAX_PLANS: Final = 8
"""How often an erasure is planned anew because somebody else changed the library meanwhile."""

_log = structlog.get_logger("turnlog.erasure")


@dataclass(frozen=True, slots=True)
class PlannedErasure:
    """What would begin an erasure, and what it was planned on."""

    events: Sequence[RecordedEvent]
    """All events of the family."""
    begun: Sequence[SourceErasureBegun]

    @property
    def sequence(self) -> int:
        """The sequence of the last event that it was planned on."""
        return self.events[-1].sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceErasureService:
    """Erases words of libraries."""

    library: EventLog
    keys: SealingKeys | None
    histories: Mapping[str, TenantHistory[Any, Any]]
    """The history of each family that has words."""
    store: ReadModelStore
    projection_signal: ProjectionSignal
    guard: ErasureGuard
    """Refuses what would take words from a session that is held, or kept by a policy."""

    async def load_events(self, tenant: str, family: str) -> Sequence[RecordedEvent]:
        """Return all events of a family."""
        last = await self.library.read_last_event(tenant, family, leader=True)
        if last is None:
            return ()
        return await self.library.read_range(tenant, family, None, last)

    async def list_erasures(self, tenant: str, family: str) -> Sequence[RecordedEvent]:
        """Return the events that begin and end the erasures of a family."""
        last = await self.library.read_last_event(tenant, family, leader=True)
        if last is None:
            return ()
        return await self.library.read_events_by_leaf(tenant, family, ERASURE_LEAF, last.head)

    async def plan_erasure(self, tenant: str, source: ErasedSource, reason: str) -> PlannedErasure:
        """Return what would begin an erasure; refuse what cannot be erased, or has to stay."""
        events = await self.load_events(tenant, source.family)
        begun = plan_source_erasure(events, source, reason)

        async def list_sessions() -> Sequence[str]:
            reached = [await self.list_reached(tenant, each, events) for each in begun]
            return sorted(frozenset[str]().union(*reached))

        await self.guard.require_erasable(tenant, list_sessions)
        return PlannedErasure(events, begun)

    async def list_reached(
        self, tenant: str, begun: SourceErasureBegun, events: Sequence[RecordedEvent]
    ) -> Sequence[str]:
        """Return the sessions that had what is erased, from all events of its family."""
        digests = list_erased_digests(events, begun)
        reach = SourceReach(
            collection=begun.collection,
            entries=begun.entries,
            segment=begun.segment,
            digests=() if begun.collection or begun.segment else digests,
        )
        async with self.store.open_reader() as connection:
            return await list_reached_sessions(connection, tenant, reach)

    async def begin_erasure(
        self, caller: Caller, source: ErasedSource, reason: str
    ) -> Sequence[int]:
        """Begin an erasure; return the sequences of its events."""
        hidden = await hide_caller(self.keys, caller)
        repeated = await self._find_command(hidden, source.family)
        if repeated:
            return repeated
        for _ in range(MAX_PLANS):
            if begun := await self._begin_planned(hidden, source, reason):
                return begun
        raise Conflict(source.family, 0, None)

    async def _begin_planned(
        self, caller: Caller, source: ErasedSource, reason: str
    ) -> Sequence[int]:
        """Append the beginning of an erasure; nothing if the library has moved since the plan."""
        planned = await self.plan_erasure(caller.tenant, source, reason)
        self._require_keys(caller.tenant)
        decide = create_decision(planned.sequence, planned.begun)
        done = await self.histories[source.family].handle(
            caller.tenant, decide, caller.metadata, caller.command
        )
        return [each.sequence for each in done.events]

    async def _find_command(self, caller: Caller, family: str) -> Sequence[int]:
        """Return what a command began that is repeated."""
        command: codec.CommandRef | None = caller.command
        if command is None:
            return ()
        return [
            each.sequence
            for each in await self.list_erasures(caller.tenant, family)
            if (each.envelope.commandkey, each.envelope.commandhash) == (command.key, command.hash)
        ]

    async def finish_erasure(self, tenant: str, family: str, begun: int) -> None:
        """Carry out an erasure that was begun; twice is as good as once."""
        events = await self.list_erasures(tenant, family)
        if find_end(events, begun) is not None:
            return
        recorded = next((each for each in events if each.sequence == begun), None)
        if recorded is None:
            raise Corrupt(f"event {begun} of {family}", "it begins no erasure")
        await self._require_folded(tenant, family, begun)
        await self._require_unheld(tenant, family, recorded)
        gone = await self._remove_keys(tenant, family, recorded)
        await self.store.discard_replaced_pages()
        await self._end_erasure(tenant, family, recorded, gone)
        _log.info("source-erased", tenant=tenant, family=family, begun=begun)

    async def _require_unheld(self, tenant: str, family: str, begun: RecordedEvent) -> None:
        """Refuse to remove keys where a session that had the text is held by now."""
        event = decode_library_event(begun)
        if isinstance(event, SourceErasureBegun):
            events = await self.load_events(tenant, family)
            reached = await self.list_reached(tenant, event, events)
            await self.guard.require_unheld(tenant, reached)

    async def _remove_keys(self, tenant: str, family: str, begun: RecordedEvent) -> RemovedKeys:
        event = decode_library_event(begun)
        if not isinstance(event, SourceErasureBegun):
            raise Corrupt(f"event {begun.sequence} of {family}", "it begins no erasure")
        return await self._require_keys(tenant).remove_leaves(
            tenant=tenant,
            session=name_library_keys(family),
            leaves=list_begun_sequences(event, family),
            last_turn=begun.sequence // 2,
        )

    async def _end_erasure(
        self, tenant: str, family: str, begun: RecordedEvent, gone: RemovedKeys
    ) -> None:
        """Record the end of an erasure, unless another process has."""
        ended = SourceErased(
            begun=begun.sequence,
            generation=gone.generation,
            record_before=gone.before,
            record_after=gone.after,
            keys_left=gone.left,
        )
        while find_end(await self.list_erasures(tenant, family), begun.sequence) is None:
            sequence = await self._read_sequence(tenant, family)
            metadata = CommandMetadata(begun.envelope.actor)
            decide = create_decision(sequence, (ended,))
            await self.histories[family].handle(tenant, decide, metadata)

    async def _read_sequence(self, tenant: str, family: str) -> int:
        last = await self.library.read_last_event(tenant, family, leader=True)
        return last.sequence if last else 0

    async def _require_folded(self, tenant: str, family: str, begun: int) -> None:
        """Wait until the rows lack what an erasure names."""
        readers = {
            KNOWLEDGE_FAMILY: read_knowledge_sequence,
            SEGMENT_FAMILY: read_segments_sequence,
        }
        if (reader := readers.get(family)) is None:
            return  # No rows have it.
        look = partial(reader, self.store, tenant)
        if not await wait_for_sequence(self.projection_signal, look, begun, within=FOLD_SECONDS):
            raise Unavailable("read models", "they are behind, and have words of it still")

    def _require_keys(self, tenant: str) -> SealingKeys:
        if self.keys is None:
            raise KeyringMissing(f"the library of tenant {tenant}")
        return self.keys

    async def read_anew(self, tenant: str, family: str) -> Sequence[RecordedEvent]:
        """Return the events of a family by the keys that are stored now."""
        await self._require_keys(tenant).compare_record(tenant, name_library_keys(family))
        return await self.load_events(tenant, family)

    @asynccontextmanager
    async def run_rounds(self) -> AsyncGenerator[None]:
        """Go on with erasures that have not ended, of any process, while the body runs."""
        if self.keys is None:  # Nothing is sealed.
            yield
            return
        async with repeat_rounds(self.finish_open_erasures):
            yield

    async def finish_open_erasures(self) -> None:
        """Go on with erasures that have not ended; those that cannot go on yet are left."""
        for family in ERASABLE_FAMILIES:
            try:
                for tenant in await self.library.list_tenants(family):
                    await self.finish_family(tenant, family)
            except TurnlogError as error:
                _log.warning("source-erasure-waits", family=family, detail=str(error))

    async def finish_family(self, tenant: str, family: str) -> None:
        """Go on with the erasures of one family of a tenant."""
        events = await self.list_erasures(tenant, family)
        for recorded in events:
            is_begun = isinstance(decode_library_event(recorded), SourceErasureBegun)
            if is_begun and find_end(events, recorded.sequence) is None:
                await self.finish_erasure(tenant, family, recorded.sequence)


def create_decision(
    sequence: int, events: Sequence[LibraryEvent]
) -> Callable[[HistoryState], Sequence[LibraryEvent]]:
    """Return what decides for these events on a state at a sequence, and for none on another."""
    return lambda state: events if get_sequence(state) == sequence else ()


def find_end(events: Sequence[RecordedEvent], begun: int) -> RecordedEvent | None:
    """Return the event that ended an erasure, or None."""
    for each in events:
        event = decode_library_event(each)
        if isinstance(event, SourceErased) and event.begun == begun:
            return each
    return None
