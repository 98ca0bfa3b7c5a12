"""The command handler: load a session's state, decide a command, append its events.

Every event of a session is appended here, by the gateway and by the worker alike. The handler first
decides on the cached state without reading the log, because a successful append proves that the
state was the latest. It refuses a command, or appends nothing, only on a state that the leader has
confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, assert_never
from weakref import WeakValueDictionary

from turnlog.events import codec
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Conflict, Refused, Unavailable
from turnlog.events.registry import KnownEvent
from turnlog.events.store.append_outcomes import (
    BatchAlreadyStored,
    BatchAppended,
    BatchConflict,
    LogUnreachable,
)
from turnlog.events.store.ports import EventLog
from turnlog.projections.session.commands import Command
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import fold, fold_unbounded
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.state import IdempotencyRecord, SessionState
from turnlog.services.platform.clock import Clock, CreateId
from turnlog.services.sessions.log_identity import (
    check_log_continues_state,
    is_next_event,
    read_last_event,
)
from turnlog.services.sessions.session_snapshots import CheckedSnapshotStore
from turnlog.services.sessions.state_cache import StateCache
from turnlog.services.sessions.text_cache import TextReader

MAX_DECISION_RETRIES: Final = 200
"""How often a command is decided again because another process appended first."""

_SessionKey = tuple[str, str]

_SessionLocks = WeakValueDictionary[_SessionKey, asyncio.Lock]

ChooseCommand = Callable[[SessionState | None], Awaitable[Command | None]]
"""Return the command for the current state, or None when nothing is left to do."""


@dataclass(frozen=True, slots=True)
class CommandMetadata:
    """Who caused an append, and what led to it."""

    actor: str
    causation: str | None = None
    correlation: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The result of a command."""

    state: SessionState
    events: tuple[RecordedEvent, ...]
    """The appended events; empty when the command was recorded before or had nothing to do."""
    memo: IdempotencyRecord | None = None
    """The record of the first run, when the same command was carried out before."""


class OlderCommandLookup(Protocol):
    """Finds idempotency keys that the session state no longer contains."""

    async def find_command(self, state: SessionState, key: str) -> IdempotencyRecord | None:
        """Return the record of a key; raise `Unavailable` when this is not known yet."""
        ...


@dataclass(frozen=True, slots=True)
class _CommandRequest:
    """A command, its metadata and its idempotency key."""

    tenant: str
    session: str
    choose: Command | ChooseCommand
    metadata: CommandMetadata
    command: codec.CommandRef | None


@dataclass
class CommandHandler:
    """Handles commands and loads states for all sessions of a process."""

    log: EventLog
    snapshots: CheckedSnapshotStore
    texts: TextReader
    older_commands: OlderCommandLookup
    clock: Clock
    create_id: CreateId
    source: str
    """The `source` of appended events, such as `/turnlog/gateway`."""
    state_cache: StateCache = field(init=False)
    _write_locks: _SessionLocks = field(
        default_factory=WeakValueDictionary[_SessionKey, asyncio.Lock]
    )
    _read_locks: _SessionLocks = field(
        default_factory=WeakValueDictionary[_SessionKey, asyncio.Lock]
    )

    def __post_init__(self) -> None:
        self.state_cache = StateCache(self.snapshots)

    async def load_state(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> SessionState | None:
        """Return the state of a session, or None when it has no events.

        With `leader` the state is read from the stream leader: it is never stale and never lies
        within a batch of events that were appended as one. Raises `Corrupt` when the log
        contradicts the cached state, because it ends earlier or holds other events.
        """
        while (last := await self._read_last_event(tenant, session, leader=leader)) is not None:
            state = await self._fold_up_to(last)
            if not leader or state.head.sequence == last.sequence:
                return state
            # Events that arrived while the leader answered may be only the first of a batch.
        return None

    async def _read_last_event(
        self, tenant: str, session: str, *, leader: bool
    ) -> RecordedEvent | None:
        """Return a session's last event, which is never older than the cached state."""
        held = self.state_cache.get_state(tenant, session)
        if leader:
            last = await self.log.read_last_event(tenant, session, leader=True)
        else:
            least = held.head.sequence if held else 0
            last = await read_last_event(self.log, tenant, session, least)
        if held:
            check_log_continues_state(held, last)
        return last

    async def _fold_up_to(self, last: RecordedEvent) -> SessionState:
        """Return the state after an event; concurrent callers read the missing events once."""
        async with _get_lock(self._read_locks, last.tenant, last.session):
            state = await self.state_cache.load_base_state(last.tenant, last.session)
            if state is not None and last.sequence <= state.head.sequence:
                return state
            after = state.head if state else None
            events = await self.log.read_range(last.tenant, last.session, after, last)
            return self._fold_and_cache(events, state)

    def apply_observed_event(self, recorded: RecordedEvent) -> None:
        """Fold an event that this process received anyway, if it follows the cached state."""
        state = self.state_cache.get_state(recorded.tenant, recorded.session)
        if state is not None and is_next_event(recorded, state):
            self._fold_and_cache((recorded,), state)

    async def require_state(self, tenant: str, session: str) -> SessionState:
        """Return the state of a session; refuse an unknown session."""
        state = await self.load_state(tenant, session)
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return state

    async def load_events(
        self, tenant: str, session: str, upto: int | None = None
    ) -> Sequence[RecordedEvent]:
        """Return a session's events from the first one, up to `upto` if it is given."""
        last = await self.load_last_event(tenant, session, upto or 0)
        if upto is not None and upto < last.sequence:
            last = await self.log.find_event(tenant, session, upto, last)
        return await self.log.read_range(tenant, session, None, last)

    async def load_last_event(
        self, tenant: str, session: str, min_sequence: int = 0
    ) -> RecordedEvent:
        """Return a session's last event; ask the leader if a replica lacks `min_sequence`."""
        last = await read_last_event(self.log, tenant, session, min_sequence)
        if last is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return last

    async def load_events_after(self, last: RecordedEvent, after: int) -> Sequence[RecordedEvent]:
        """Return a session's events after a sequence, up to and including `last`."""
        tenant, session = last.tenant, last.session
        if after >= last.sequence:
            return ()
        known = await self.log.find_event(tenant, session, after, last) if after else None
        return await self.log.read_range(tenant, session, known.head if known else None, last)

    async def load_older_turns(
        self, state: SessionState, recorded_sequence: int | None = None
    ) -> SessionState:
        """Return the state with every turn in it, including those that it kept only as runs.

        The turns are folded from the log up to the state's head, or up to `recorded_sequence` where
        the state contains events that are not recorded. Everything else stays as the state has it.
        """
        upto = state.head.sequence if recorded_sequence is None else recorded_sequence
        full = fold_unbounded(await self.load_events(state.tenant, state.session, upto))
        if full is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return replace(state, turns=full.turns, earlier=full.earlier, reach=full.reach)

    async def handle(
        self,
        tenant: str,
        session: str,
        choose: Command | ChooseCommand,
        metadata: CommandMetadata,
        command: codec.CommandRef | None = None,
        *,
        expected_state: SessionState | None = None,
    ) -> CommandOutcome:
        """Carry out a command; decide it again when another process appends first.

        `expected_state` is a state that the caller believes to be the latest. Raises `Refused` when
        a rule rejects the command, `Unavailable` when the log gives no definite answer, and
        `Conflict` when others keep appending first.
        """
        asked = _CommandRequest(tenant, session, choose, metadata, command)
        async with _get_lock(self._write_locks, tenant, session):
            known = expected_state or self._get_idle_state(tenant, session)
            done = await self._handle_optimistically(known, asked) if known else None
            return done or await self._handle_on_leader_state(asked)

    def _get_idle_state(self, tenant: str, session: str) -> SessionState | None:
        """Return the cached state, or None while a worker is about to claim the open turn."""
        held = self.state_cache.get_state(tenant, session)
        return held if held and (held.open is None or held.open.running) else None

    async def _handle_optimistically(
        self, state: SessionState, request: _CommandRequest
    ) -> CommandOutcome | None:
        """Decide on a state that may be stale; only a successful append proves that it was not."""
        try:
            decided = await self._decide_events(state, request)
        except Exception:  # noqa: BLE001 - whatever speaks against it may no longer be so
            return None
        return (
            None
            if isinstance(decided, CommandOutcome)
            else await self._append_events(state, decided, request)
        )

    async def _handle_on_leader_state(self, request: _CommandRequest) -> CommandOutcome:
        """Decide on the leader's state, because no append would prove a refusal to be current."""
        state = await self.load_state(request.tenant, request.session, leader=True)
        for _ in range(MAX_DECISION_RETRIES):
            decided = await self._decide_events(state, request)
            if isinstance(decided, CommandOutcome):
                return decided
            if done := await self._append_events(state, decided, request):
                return done
            state = await self.load_state(request.tenant, request.session, leader=True)
        raise Conflict(request.session, state.head.sequence if state else 0, None)

    async def _decide_events(
        self, state: SessionState | None, request: _CommandRequest
    ) -> NewEvents | CommandOutcome:
        """Return the events to append, or the outcome when there are none."""
        if (
            state
            and request.command
            and (memo := await self._find_recorded_command(state, request.command))
        ):
            return CommandOutcome(state, (), memo)
        chosen = await request.choose(state) if callable(request.choose) else request.choose
        events = decide(state, chosen, self.clock()) if chosen else ()
        return CommandOutcome(state, ()) if state and not events else events

    async def _append_events(
        self, state: SessionState | None, events: NewEvents, request: _CommandRequest
    ) -> CommandOutcome | None:
        """Append events after a state; return None when another process appended first."""
        drafts = [self._build_draft(event, request) for event in events]
        head = state.head if state else None
        return await self.append_batch(
            state, codec.encode_batch(request.tenant, request.session, head, drafts)
        )

    async def append_batch(
        self, state: SessionState | None, batch: codec.EventBatch
    ) -> CommandOutcome | None:
        """Append a batch after a state; return None when another process appended first.

        Raises `Unavailable` when the log gives no definite answer.
        """
        outcome = await self.log.append_batch(batch)
        match outcome:
            case BatchAppended(events=added) | BatchAlreadyStored(events=added):
                grown = self._fold_and_cache(added, state)
                self.state_cache.save_interval_snapshot(state, grown)
                return CommandOutcome(grown, added)
            case BatchConflict():
                return None
            case LogUnreachable(detail=detail):
                raise Unavailable("log", detail)
            case _ as never:
                assert_never(never)

    def _build_draft(self, event: KnownEvent, request: _CommandRequest) -> codec.EventDraft:
        by = request.metadata
        return codec.EventDraft(
            event=event,
            id=self.create_id(),
            at=self.clock(),
            source=self.source,
            actor=by.actor,
            causation=by.causation,
            correlation=by.correlation,
            command=request.command,
            traceparent=by.traceparent,
        )

    async def _find_recorded_command(
        self, state: SessionState, command: codec.CommandRef
    ) -> IdempotencyRecord | None:
        memo = next((memo for memo in state.commands if memo.key == command.key), None)
        if memo is None and state.forgotten_commands:
            memo = await self.older_commands.find_command(state, command.key)
        if memo is not None and memo.hash != command.hash:
            raise Refused(
                "key-reused",
                "this key was used before with a different body",
                field="Idempotency-Key",
                fix="use a new key for a new request",
            )
        return memo

    def _fold_and_cache(
        self, events: Sequence[RecordedEvent], state: SessionState | None
    ) -> SessionState:
        self.texts.cache_events(events)
        folded = fold(events, state)
        if folded is None:
            raise Refused("unknown-session", "the session was never opened", field="session")
        self.state_cache.put_state(folded)
        return folded


def _get_lock(locks: _SessionLocks, tenant: str, session: str) -> asyncio.Lock:
    """Return the lock of a session, which exists as long as a task holds or awaits it."""
    return locks.setdefault((tenant, session), asyncio.Lock())
