"""The histories of a tenant's library: one state for each tenant, folded from one family of events.

A state is cached between uses, and one read of the family's last event (about 0.3 ms) shows whether
it is still the latest. So an acknowledged edit is visible to the next reader.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Never, Protocol, TypeVar

from turnlog.events import codec
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.events.registry import LibraryEvent
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.events.subjects import LIBRARY_HISTORY, HistoryKind
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    CommandRecord,
    HistoryStates,
    IdempotentCommandHandler,
    Record,
    Record_co,
    State,
    get_sequence,
)
from turnlog.services.platform.clock import Clock, CreateId
from turnlog.services.seals.library_sealing import LibrarySealing

RECENT_AGE: Final = 1.0
"""Seconds for which a user who was seen to have nothing in a state is believed to have nothing.

What another process set counts from then on at the latest.
"""

TEXT_WRITE_BATCH: Final = 64
"""Texts stored concurrently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryParts:
    """What the histories of the library are read and written with."""

    log: EventLog
    """The log of the library."""
    blobs: BlobStore
    clock: Clock
    create_id: CreateId
    source: str
    """The `source` of appended events."""
    sealing: LibrarySealing | None = None
    """Seals the families that have words; without it none are."""


class CommandRecords(Protocol[Record_co]):
    """A state that remembers the commands it was changed by."""

    @property
    def commands_by_key(self) -> Mapping[str, Record_co]:
        """The records of commands, by idempotency key."""
        ...


@dataclass(frozen=True)
class TenantStates(Generic[State, Record]):
    """Folds and caches the states of one family of events, one for each tenant."""

    create: Callable[[str], State]
    """Return the state of a tenant before the first event."""
    fold: Callable[[Sequence[RecordedEvent], State], State]
    """Apply events to a state, in order."""
    cached: dict[str, State] = field(default_factory=dict[str, State])

    def get_state(self, tenant: str, history: str) -> State | None:
        """Return the cached state, or None."""
        del history
        return self.cached.get(tenant)

    def get_presumed_state(self, tenant: str, history: str) -> State | None:
        """Return the cached state, or None; other processes are not expected to append."""
        return self.get_state(tenant, history)

    async def load_base_state(self, tenant: str, history: str) -> State:
        """Return the cached state, or else one without events."""
        return self.get_state(tenant, history) or self.create(tenant)

    def fold_events(self, events: Sequence[RecordedEvent], state: State | None) -> State:
        """Fold events onto a state and cache the result, unless a later one is cached."""
        tenant = events[0].tenant
        folded = self.fold(events, state or self.create(tenant))
        cached = self.cached.get(tenant)
        if cached is None or get_sequence(cached) < get_sequence(folded):
            self.cached[tenant] = folded
        return folded

    def fold_appended_events(self, events: Sequence[RecordedEvent], state: State | None) -> State:
        """Do the same; an append makes nothing else due."""
        return self.fold_events(events, state)

    async def find_command(self, state: CommandRecords[Record], key: str) -> Record | None:
        """Return the record of an idempotency key, or None."""
        return state.commands_by_key.get(key)


MAX_CACHED_HISTORIES: Final = 1_000


@dataclass(frozen=True)
class LastEventStates(Generic[State]):
    """The states of histories whose last event contains all of a state; the latest are cached.

    No command is remembered: one that is repeated is decided again, on what the first one left.
    """

    read: Callable[[RecordedEvent], State]
    """Return the state that an event contains."""
    cached: OrderedDict[tuple[str, str], State] = field(
        default_factory=OrderedDict[tuple[str, str], State]
    )

    def get_state(self, tenant: str, history: str) -> State | None:
        """Return the cached state, or None."""
        return self.cached.get((tenant, history))

    def get_presumed_state(self, tenant: str, history: str) -> State | None:
        """Return the cached state, or None; other processes are not expected to append."""
        return self.get_state(tenant, history)

    async def load_base_state(self, tenant: str, history: str) -> State | None:
        """Return the cached state, or None."""
        return self.get_state(tenant, history)

    def fold_events(self, events: Sequence[RecordedEvent], state: State | None) -> State:
        """Read the state and cache it, unless a later one is cached."""
        del state
        folded, key = self.read(events[-1]), (events[0].tenant, events[0].session)
        cached = self.cached.get(key)
        if cached is None or get_sequence(cached) < get_sequence(folded):
            self.cached[key] = folded
            self.cached.move_to_end(key)
        while len(self.cached) > MAX_CACHED_HISTORIES:
            self.cached.popitem(last=False)
        return folded

    def fold_appended_events(self, events: Sequence[RecordedEvent], state: State | None) -> State:
        """Do the same; an append makes nothing else due."""
        return self.fold_events(events, state)

    async def find_command(self, state: State, key: str) -> None:
        """Return None."""
        del state, key


def create_last_event_handler(
    parts: LibraryParts,
    read: Callable[[RecordedEvent], State],
    log_name: str,
    kind: HistoryKind = LIBRARY_HISTORY,
) -> IdempotentCommandHandler[State, Never]:
    """Create the handler of histories whose last event contains all of a state."""
    return IdempotentCommandHandler(
        log=parts.log,
        kind=kind,
        states=LastEventStates[State](read),
        clock=parts.clock,
        create_id=parts.create_id,
        source=parts.source,
        log_name=log_name,
        has_whole_states=True,
    )


@dataclass(frozen=True, slots=True)
class TenantOutcome(Generic[State, Record_co]):
    """The result of a command on a tenant's history."""

    state: State
    """The state after it."""
    events: tuple[RecordedEvent, ...]
    """The appended events; empty when the command was recorded before or had nothing to do."""
    record: Record_co | None
    """The record of the first run, when the same command was carried out before."""


@dataclass(kw_only=True)
class TenantHistory(Generic[State, Record]):
    """One family of events of all tenants, for one process: its commands and its states."""

    parts: LibraryParts
    family: str
    create: Callable[[str], State]
    """Return the state of a tenant before the first event."""
    states: HistoryStates[State, Record]
    log_name: str = "library"
    """What is unavailable when the log gives no definite answer."""
    has_words: bool = False
    """Whether its events and texts are sealed where sealing is on."""
    monotonic: Callable[[], float] = time.monotonic
    _handler: IdempotentCommandHandler[State, Record] = field(init=False)
    _read_times: dict[str, float] = field(init=False, default_factory=dict[str, float])
    """When the last read of each tenant began."""
    _reading: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._handler = IdempotentCommandHandler(
            log=self.parts.log,
            kind=LIBRARY_HISTORY,
            states=self.states,
            clock=self.parts.clock,
            create_id=self.parts.create_id,
            source=self.parts.source,
            log_name=self.log_name,
            sealing=self._sealer,
        )

    @property
    def _sealer(self) -> LibrarySealing | None:
        return self.parts.sealing if self.has_words else None

    async def load_state(self, tenant: str, *, leader: bool = False) -> State:
        """Return the state as it is now; see `IdempotentCommandHandler.load_state`."""
        started = self.monotonic()
        state = await self._handler.load_state(tenant, self.family, leader=leader)
        self._read_times[tenant] = started
        return state or self.create(tenant)

    def get_cached_state(self, tenant: str) -> State | None:
        """Return the cached state without reading the log, or None."""
        return self.states.get_state(tenant, self.family)

    def get_recent_state(self, tenant: str) -> State | None:
        """Return the cached state if it was read within the last `RECENT_AGE`, or None.

        A user who has nothing in a recent state costs no further read.
        """
        read_at = self._read_times.get(tenant)
        if read_at is None or self.monotonic() - read_at >= RECENT_AGE:
            return None
        return self.get_cached_state(tenant) or self.create(tenant)

    async def load_recent_state(self, tenant: str, *, survives_outage: bool = False) -> State:
        """Return the state as it was within the last `RECENT_AGE`, by one read for all who wait.

        Raises `Unavailable` while the log cannot be read; with `survives_outage` only where it
        was never read, and else the state that was read last goes on to count.
        """
        if (recent := self.get_recent_state(tenant)) is not None:
            return recent
        async with self._reading:
            if (recent := self.get_recent_state(tenant)) is not None:
                return recent
            try:
                return await self.load_state(tenant)
            except Unavailable:
                if not survives_outage or tenant not in self._read_times:
                    raise
                self._read_times[tenant] = self.monotonic()  # Nobody waits for a read until then.
                return self.get_cached_state(tenant) or self.create(tenant)

    async def handle(
        self,
        tenant: str,
        decide: Callable[[State], Sequence[LibraryEvent]],
        metadata: CommandMetadata,
        key: codec.CommandRef | None = None,
        *,
        texts: Sequence[str] = (),
    ) -> TenantOutcome[State, Record]:
        """Append what `decide` returns for the state; see `IdempotentCommandHandler.handle`.

        The texts are stored before the events that name them by their digests, so whoever reads of
        a version can read its text.
        """

        async def decide_events(state: State | None) -> Sequence[LibraryEvent]:
            before = state or self.create(tenant)
            events = decide(before)
            sealing = self._sealer
            if events and sealing and await sealing.is_sealed(tenant, self.family):
                return await sealing.seal_texts(
                    tenant=tenant, family=self.family, state=before, events=events, texts=texts
                )
            if events:
                await _store_texts(self.parts.blobs, tenant, texts)
            return events

        handled = await self._handler.handle(
            tenant, self.family, decide_events, metadata, command=key
        )
        state = handled.state or self.create(tenant)
        return TenantOutcome(state, handled.events, handled.record)


def build_installation_command(caller: Caller) -> codec.CommandRef | None:
    """Return a command on a history that all tenants share as one of the caller's tenant.

    Administrators of two tenants may choose the same idempotency key.
    """
    if caller.command is None:
        return None
    return codec.CommandRef(f"{caller.tenant} {caller.command.key}", caller.command.hash)


async def _store_texts(blobs: BlobStore, tenant: str, texts: Sequence[str]) -> None:
    """Store each distinct text; a large import is stored in batches."""
    distinct = tuple(dict.fromkeys(texts))
    for start in range(0, len(distinct), TEXT_WRITE_BATCH):
        batch = distinct[start : start + TEXT_WRITE_BATCH]
        await asyncio.gather(*(blobs.put_blob(tenant, text.encode()) for text in batch))


Changes = TypeVar("Changes")

Changes_co = TypeVar("Changes_co", covariant=True)


class ChangeRecord(CommandRecord, Protocol[Changes_co]):
    """The record of a command that keeps what the command changed."""

    @property
    def result(self) -> Changes_co:
        """What it changed."""
        ...


@dataclass(frozen=True, slots=True)
class TenantChange(Generic[State, Changes]):
    """The result of a command on the library: the state after it, and what it changed."""

    state: State
    changes: Changes


def build_change(
    outcome: TenantOutcome[State, ChangeRecord[Changes]],
    collect: Callable[[Sequence[RecordedEvent]], Changes],
    unchanged: Callable[[int], Changes],
) -> TenantChange[State, Changes]:
    """Return what a command changed: of its first run when repeated, else as its events say.

    `unchanged` returns what a command at a sequence changed that had nothing to do.
    """
    if outcome.record is not None:
        return TenantChange(outcome.state, outcome.record.result)
    if not outcome.events:
        return TenantChange(outcome.state, unchanged(get_sequence(outcome.state)))
    return TenantChange(outcome.state, collect(outcome.events))
