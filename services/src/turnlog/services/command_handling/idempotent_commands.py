"""The core of every command handler: load a history's state, decide a command, append its events.

A history is a session, or a family of a tenant's library. The handler first decides on the cached
state without reading the log, because a successful append proves that the state was the latest. It
refuses a command, or appends nothing, only on a state that the leader has confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar, assert_never
from weakref import WeakValueDictionary

from turnlog.events import codec
from turnlog.events.chain_link import is_next_event
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Conflict, LogRolledBack, Refused, Unavailable
from turnlog.events.registry import AppendableEvent
from turnlog.events.store.ports import (
    BatchAlreadyStored,
    BatchAppended,
    BatchConflict,
    EventLog,
    LogUnreachable,
)
from turnlog.events.subjects import HistoryKind
from turnlog.services.integrity.rollback_confirmation import CONFIRM_SECONDS, confirm_rollback
from turnlog.services.platform.clock import Clock, CreateId

MAX_DECISION_RETRIES: Final = 200
"""How often a command is decided again because another process appended first."""

_ROLLBACK_FIX: Final = (
    "stop everything and bring the later log back; if it is lost, run `turnlog rebuild` for the "
    "read models and start again"
)

_HistoryKey = tuple[str, str]

_HistoryLocks = WeakValueDictionary[_HistoryKey, asyncio.Lock]


class HistoryState(Protocol):
    """A state that is folded from a history's events."""

    @property
    def head(self) -> ChainHead | None:
        """The last event folded; None before the first."""
        ...


class CommandRecord(Protocol):
    """The record of a command that was carried out under an idempotency key."""

    @property
    def hash(self) -> Digest:
        """The digest of the command's body."""
        ...


State = TypeVar("State", bound=HistoryState)
Record = TypeVar("Record", bound=CommandRecord)
Record_co = TypeVar("Record_co", bound=CommandRecord, covariant=True)
State_contra = TypeVar("State_contra", bound=HistoryState, contravariant=True)

DecideEvents = Callable[[State | None], Awaitable[Sequence[AppendableEvent]]]
"""Return the events to append after a state, or none; raise `Refused` when a rule rejects them."""


class HistorySealing(Protocol[State_contra]):
    """Seals the events of the histories that are sealed."""

    async def prepare_seal(
        self,
        tenant: str,
        history: str,
        state: State_contra | None,
        events: Sequence[AppendableEvent],
        /,
    ) -> tuple[Sequence[AppendableEvent], codec.SealEvent | None]:
        """Return events as they are to be appended after a state, and what seals them."""
        ...


@dataclass(frozen=True, slots=True)
class CommandMetadata:
    """Who caused an append, and what led to it."""

    actor: str
    causation: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class HandledCommand(Generic[State, Record]):
    """The result of a command."""

    state: State | None
    """The state after it; None when the history still has no events."""
    events: tuple[RecordedEvent, ...] = ()
    """The appended events; empty when the command was recorded before or had nothing to do."""
    record: Record | None = None
    """The record of the first run, when the same command was carried out before."""


class HistoryStates(Protocol[State, Record_co]):
    """How the states of one kind of history are folded and cached."""

    def get_state(self, tenant: str, history: str, /) -> State | None:
        """Return the cached state, or None."""
        ...

    def get_presumed_state(self, tenant: str, history: str, /) -> State | None:
        """Return the cached state, or None where it is probably no longer the latest."""
        ...

    async def load_base_state(self, tenant: str, history: str, /) -> State | None:
        """Return the state to fold from, or None to fold from the first event."""
        ...

    def fold_events(self, events: Sequence[RecordedEvent], state: State | None) -> State:
        """Fold events onto a state and cache the result."""
        ...

    def fold_appended_events(self, events: Sequence[RecordedEvent], state: State | None) -> State:
        """Do the same for events that this process has appended."""
        ...

    async def find_command(self, state: State, key: str) -> Record_co | None:
        """Return the record of an idempotency key, or None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommandRequest(Generic[State]):
    tenant: str
    history: str
    decide: DecideEvents[State]
    metadata: CommandMetadata
    command: codec.CommandRef | None


@dataclass(kw_only=True)
class IdempotentCommandHandler(Generic[State, Record]):
    """Handles commands and loads states for all histories of one kind."""

    log: EventLog
    kind: HistoryKind
    states: HistoryStates[State, Record]
    clock: Clock
    create_id: CreateId
    source: str
    """The `source` of appended events, such as `/turnlog/gateway`."""
    log_name: str = "log"
    """What is unavailable when the log gives no definite answer."""
    sealing: HistorySealing[State] | None = None
    """Seals events; without it none are sealed."""
    has_whole_states: bool = False
    """Whether every event contains the whole state after it, so that only the last one is read."""
    confirm_seconds: float = CONFIRM_SECONDS
    """Seconds for which the log must contradict a cached state to count as rolled back."""
    _write_locks: _HistoryLocks = field(
        default_factory=WeakValueDictionary[_HistoryKey, asyncio.Lock]
    )
    _read_locks: _HistoryLocks = field(
        default_factory=WeakValueDictionary[_HistoryKey, asyncio.Lock]
    )

    async def load_state(self, tenant: str, history: str, *, leader: bool = False) -> State | None:
        """Return the state of a history, or None when it has no events.

        With `leader` the state is read from the stream leader: it is never stale and never lies
        within a batch of events that were appended as one. Raises `Corrupt` when the log
        contradicts the cached state, because it ends earlier or holds other events.
        """
        while (last := await self._read_latest_event(tenant, history, leader=leader)) is not None:
            state = await self._fold_up_to(tenant, history, last)
            if not leader or get_sequence(state) == last.sequence:
                return state
            # Events that arrived while the leader answered may be only the first of a batch.
        return None

    async def read_last_event(
        self, tenant: str, history: str, min_sequence: int
    ) -> RecordedEvent | None:
        """Return a history's last event; ask the leader if the replica lacks `min_sequence`."""
        last = await self.log.read_last_event(tenant, history)
        if last is None or last.sequence < min_sequence:
            # A replica may lag behind; the leader never does, and knows a lost event from none.
            last = await self.log.read_last_event(tenant, history, leader=True)
        return last

    async def _read_latest_event(
        self, tenant: str, history: str, *, leader: bool
    ) -> RecordedEvent | None:
        """Return a history's last event, which is never older than the cached state."""
        cached = self.states.get_state(tenant, history)
        if leader:
            last = await self.log.read_last_event(tenant, history, leader=True)
        else:
            last = await self.read_last_event(tenant, history, get_sequence(cached))
        if cached is None or cached.head is None:
            return last
        known, place = cached.head, f"log of {self.kind.prefix} {history}"
        if _find_contradiction(known, last, place) is None:
            return last

        async def look_again() -> LogRolledBack | None:
            nonlocal last
            # Raises `Unavailable` where the leader that answers is cut off from the others.
            await self.log.get_identity(tenant)
            last = await self.log.read_last_event(tenant, history, leader=True)
            return _find_contradiction(known, last, place)

        if rolled_back := await confirm_rollback(look_again, self.confirm_seconds):
            raise rolled_back
        return last

    async def _fold_up_to(self, tenant: str, history: str, last: RecordedEvent) -> State:
        """Return the state after an event; concurrent callers read the missing events once."""
        async with _get_lock(self._read_locks, tenant, history):
            state = await self.states.load_base_state(tenant, history)
            if state is not None and last.sequence <= get_sequence(state):
                return state
            if self.has_whole_states:
                return self.states.fold_events((last,), None)
            after = state.head if state is not None else None
            events = await self.log.read_range(tenant, history, after, last)
            return self.states.fold_events(events, state)

    def apply_observed_event(self, recorded: RecordedEvent) -> None:
        """Fold an event that this process received anyway, if it follows the cached state."""
        state = self.states.get_state(recorded.tenant, recorded.session)
        if state is not None and state.head and is_next_event(recorded, state.head):
            self.states.fold_events((recorded,), state)

    async def handle(
        self,
        tenant: str,
        history: str,
        decide: DecideEvents[State],
        metadata: CommandMetadata,
        command: codec.CommandRef | None = None,
        *,
        expected_state: State | None = None,
    ) -> HandledCommand[State, Record]:
        """Carry out a command; decide it again when another process appends first.

        `expected_state` is a state that the caller believes to be the latest. Raises `Refused` when
        a rule rejects the command, `Unavailable` when the log gives no definite answer, and
        `Conflict` when others keep appending first.
        """
        request: _CommandRequest[State] = _CommandRequest(
            tenant=tenant, history=history, decide=decide, metadata=metadata, command=command
        )
        async with _get_lock(self._write_locks, tenant, history):
            state = expected_state or self.states.get_presumed_state(tenant, history)
            handled = await self._handle_optimistically(state, request) if state else None
            return handled or await self._handle_on_leader_state(request)

    async def _handle_optimistically(
        self, state: State, request: _CommandRequest[State]
    ) -> HandledCommand[State, Record] | None:
        """Decide on a state that may be stale; only a successful append proves that it was not."""
        try:
            decided = await self._decide_events(state, request)
        except Exception:  # noqa: BLE001 - the leader's state may not raise it
            return None
        if isinstance(decided, HandledCommand):
            return None
        return await self._append_events(state, decided, request)

    async def _handle_on_leader_state(
        self, request: _CommandRequest[State]
    ) -> HandledCommand[State, Record]:
        """Decide on the leader's state, because no append would prove a refusal to be current."""
        state: State | None = None
        for _ in range(MAX_DECISION_RETRIES):
            state = await self.load_state(request.tenant, request.history, leader=True)
            decided = await self._decide_events(state, request)
            if isinstance(decided, HandledCommand):
                return decided
            if handled := await self._append_events(state, decided, request):
                return handled
        raise Conflict(request.history, get_sequence(state), None)

    async def _decide_events(
        self, state: State | None, request: _CommandRequest[State]
    ) -> Sequence[AppendableEvent] | HandledCommand[State, Record]:
        """Return the events to append, or the outcome when there are none."""
        if state is not None and request.command is not None:
            record = await self._find_recorded_command(state, request.command)
            if record is not None:
                return HandledCommand(state, record=record)
        return await request.decide(state) or HandledCommand(state)

    async def _find_recorded_command(
        self, state: State, command: codec.CommandRef
    ) -> Record | None:
        record = await self.states.find_command(state, command.key)
        if record is not None and record.hash != command.hash:
            raise Refused(
                "key-reused",
                "this key was used before with a different body",
                field="Idempotency-Key",
                fix="use a new key for a new request",
            )
        return record

    async def _append_events(
        self,
        state: State | None,
        events: Sequence[AppendableEvent],
        request: _CommandRequest[State],
    ) -> HandledCommand[State, Record] | None:
        """Append events after a state; return None when another process appended first."""
        seal: codec.SealEvent | None = None
        if self.sealing:
            events, seal = await self.sealing.prepare_seal(
                request.tenant, request.history, state, events
            )
        drafts = [self._build_draft(event, request) for event in events]
        head = state.head if state is not None else None
        batch = codec.encode_batch(
            tenant=request.tenant,
            session=request.history,
            after=head,
            drafts=drafts,
            kind=self.kind,
            seal=seal,
        )
        return await self.append_batch(state, batch)

    async def append_batch(
        self, state: State | None, batch: codec.EventBatch
    ) -> HandledCommand[State, Record] | None:
        """Append a batch after a state; return None when another process appended first.

        Raises `Unavailable` when the log gives no definite answer.
        """
        outcome = await self.log.append_batch(batch)
        match outcome:
            case BatchAppended(events=events) | BatchAlreadyStored(events=events):
                return HandledCommand(self.states.fold_appended_events(events, state), events)
            case BatchConflict():
                return None
            case LogUnreachable(detail=detail):
                raise Unavailable(self.log_name, detail)
            case _ as never:
                assert_never(never)

    def _build_draft(
        self, event: AppendableEvent, request: _CommandRequest[State]
    ) -> codec.EventDraft:
        metadata = request.metadata
        return codec.EventDraft(
            event=event,
            id=self.create_id(),
            at=self.clock(),
            source=self.source,
            actor=metadata.actor,
            causation=metadata.causation,
            command=request.command,
            traceparent=metadata.traceparent,
        )


def get_sequence(state: HistoryState | None) -> int:
    """Return the sequence of a state's last event; 0 before the first."""
    return state.head.sequence if state is not None and state.head is not None else 0


def create_rollback_error(place: str, detail: str) -> LogRolledBack:
    """Return the error for a log that no longer holds what this process has read from it."""
    return LogRolledBack(place, f"rolled back or replaced: {detail}; {_ROLLBACK_FIX}")


def _find_contradiction(
    known: ChainHead, last: RecordedEvent | None, place: str
) -> LogRolledBack | None:
    """Return how the log contradicts a known event: it ends earlier or has another one there."""
    if last is None or last.sequence < known.sequence:
        end = last.sequence if last else 0
        return create_rollback_error(place, f"it ends at {end} but had reached {known.sequence}")
    if last.sequence == known.sequence and last.head != known:
        return create_rollback_error(place, f"sequence {known.sequence} has another event")
    return None


def _get_lock(locks: _HistoryLocks, tenant: str, history: str) -> asyncio.Lock:
    """Return the lock of a history, which exists as long as a task holds or awaits it."""
    return locks.setdefault((tenant, history), asyncio.Lock())
