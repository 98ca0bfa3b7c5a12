"""The command handler: load a session's state, decide a command, append its events.

Every event of a session is appended here, by the gateway and by the worker alike. The handler first
decides on the cached state without reading the log, because a successful append proves that the
state was the latest. It refuses a command, or appends nothing, only on a state that the leader has
confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, assert_never
from weakref import WeakValueDictionary

from turnlog.events import codec
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Conflict, Refused, Unavailable
from turnlog.events.kinds import KnownEvent
from turnlog.events.log.outcomes import AlreadyThere, Appended, Conflicted, Unreachable
from turnlog.events.log.ports import Log
from turnlog.projections.session.attempts import Events
from turnlog.projections.session.commands import Command
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import fold, fold_whole
from turnlog.projections.session.state import Memo, SessionState
from turnlog.services.runtime.clock import Clock, Ids
from turnlog.services.runtime.continuity import check_goes_on, follows, last_reaching
from turnlog.services.runtime.held import HeldStates
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.texts import TextReader

MOST_TRIES: Final = 200
"""How often a command is decided again because another process appended first."""

_Key = tuple[str, str]
_Locks = WeakValueDictionary[_Key, asyncio.Lock]

Choose = Callable[[SessionState | None], Awaitable[Command | None]]
"""Return the command for the current state, or None when nothing is left to do."""


@dataclass(frozen=True, slots=True)
class By:
    """Who caused an append, and what led to it."""

    actor: str
    causation: str | None = None
    correlation: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command."""

    state: SessionState
    events: tuple[Recorded, ...]
    """The appended events; empty when the command was recorded before or had nothing to do."""
    memo: Memo | None = None
    """The record of the first run, when the same command was carried out before."""


class OlderCommands(Protocol):
    """Finds idempotency keys that the session state no longer contains."""

    async def find(self, state: SessionState, key: str) -> Memo | None:
        """Return the record of a key; raise `Unavailable` when this is not known yet."""
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """A command, its metadata and its idempotency key."""

    tenant: str
    session: str
    choose: Command | Choose
    by: By
    command: codec.Command | None


@dataclass
class Sessions:
    """Handles commands and loads states for all sessions of a process."""

    log: Log
    snapshots: CheckedSnapshots
    texts: TextReader
    older: OlderCommands
    clock: Clock
    new_id: Ids
    source: str
    """The `source` of appended events, such as `/turnlog/gateway`."""
    held: HeldStates = field(init=False)
    _acting: _Locks = field(default_factory=WeakValueDictionary[_Key, asyncio.Lock])
    _reading: _Locks = field(default_factory=WeakValueDictionary[_Key, asyncio.Lock])

    def __post_init__(self) -> None:
        self.held = HeldStates(self.snapshots)

    async def load(self, tenant: str, session: str, *, leader: bool = False) -> SessionState | None:
        """Return the state of a session, or None when it has no events.

        With `leader` the state is read from the stream leader: it is never stale and never lies
        within a batch of events that were appended as one. Raises `Corrupt` when the log
        contradicts the cached state, because it ends earlier or holds other events.
        """
        while (last := await self._end(tenant, session, leader=leader)) is not None:
            state = await self._upto(last)
            if not leader or state.head.sequence == last.sequence:
                return state
            # Events that arrived while the leader answered may be only the first of a batch.
        return None

    async def _end(self, tenant: str, session: str, *, leader: bool) -> Recorded | None:
        """Return a session's last event, which is never older than the cached state."""
        held = self.held.get(tenant, session)
        if leader:
            last = await self.log.last(tenant, session, leader=True)
        else:
            least = held.head.sequence if held else 0
            last = await last_reaching(self.log, tenant, session, least)
        if held:
            check_goes_on(held, last)
        return last

    async def _upto(self, last: Recorded) -> SessionState:
        """Return the state after an event; concurrent callers read the missing events once."""
        async with _lock(self._reading, last.tenant, last.session):
            state = await self.held.begun(last.tenant, last.session)
            if state is not None and last.sequence <= state.head.sequence:
                return state
            after = state.head if state else None
            events = await self.log.between(last.tenant, last.session, after, last)
            return self._folded(events, state)

    def note(self, recorded: Recorded) -> None:
        """Fold an event that this process received anyway, if it follows the cached state."""
        state = self.held.get(recorded.tenant, recorded.session)
        if state is not None and follows(recorded, state):
            self._folded((recorded,), state)

    async def load_open(self, tenant: str, session: str) -> SessionState:
        """Return the state of a session; refuse an unknown session."""
        state = await self.load(tenant, session)
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return state

    async def events(
        self, tenant: str, session: str, upto: int | None = None
    ) -> Sequence[Recorded]:
        """Return a session's events from the first one, up to `upto` if it is given."""
        last = await self.last(tenant, session, upto or 0)
        if upto is not None and upto < last.sequence:
            last = await self.log.find(tenant, session, upto, last)
        return await self.log.between(tenant, session, None, last)

    async def last(self, tenant: str, session: str, least: int = 0) -> Recorded:
        """Return a session's last event; ask the leader if a replica lacks `min_sequence`."""
        last = await last_reaching(self.log, tenant, session, least)
        if last is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return last

    async def behind(self, last: Recorded, after: int) -> Sequence[Recorded]:
        """Return a session's events after a sequence, up to and including `last`."""
        tenant, session = last.tenant, last.session
        if after >= last.sequence:
            return ()
        known = await self.log.find(tenant, session, after, last) if after else None
        return await self.log.between(tenant, session, known.head if known else None, last)

    async def load_whole(self, tenant: str, session: str, upto: int) -> SessionState:
        """Fold a session from its first event up to a sequence, with every turn in the state."""
        state = fold_whole(await self.events(tenant, session, upto))
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return state

    async def act(
        self,
        tenant: str,
        session: str,
        choose: Command | Choose,
        by: By,
        command: codec.Command | None = None,
        *,
        presumed: SessionState | None = None,
    ) -> Done:
        """Carry out a command; decide it again when another process appends first.

        `expected_state` is a state that the caller believes to be the latest. Raises `Refused` when
        a rule rejects the command, `Unavailable` when the log gives no definite answer, and
        `Conflict` when others keep appending first.
        """
        asked = _Asked(tenant, session, choose, by, command)
        async with _lock(self._acting, tenant, session):
            known = presumed or self._resting(tenant, session)
            done = await self._presuming(known, asked) if known else None
            return done or await self._surely(asked)

    def _resting(self, tenant: str, session: str) -> SessionState | None:
        """Return the cached state, or None while a worker is about to claim the open turn."""
        held = self.held.get(tenant, session)
        return held if held and (held.open is None or held.open.running) else None

    async def _presuming(self, state: SessionState, asked: _Asked) -> Done | None:
        """Decide on a state that may be stale; only a successful append proves that it was not."""
        try:
            decided = await self._decided(state, asked)
        except Exception:  # noqa: BLE001 - whatever speaks against it may no longer be so
            return None
        return None if isinstance(decided, Done) else await self._appended(state, decided, asked)

    async def _surely(self, asked: _Asked) -> Done:
        """Decide on the leader's state, because no append would prove a refusal to be current."""
        state = await self.load(asked.tenant, asked.session, leader=True)
        for _ in range(MOST_TRIES):
            decided = await self._decided(state, asked)
            if isinstance(decided, Done):
                return decided
            if done := await self._appended(state, decided, asked):
                return done
            state = await self.load(asked.tenant, asked.session, leader=True)
        raise Conflict(asked.session, state.head.sequence if state else 0, None)

    async def _decided(self, state: SessionState | None, asked: _Asked) -> Events | Done:
        """Return the events to append, or the outcome when there are none."""
        if state and asked.command and (memo := await self._done_before(state, asked.command)):
            return Done(state, (), memo)
        chosen = await asked.choose(state) if callable(asked.choose) else asked.choose
        events = decide(state, chosen, self.clock()) if chosen else ()
        return Done(state, ()) if state and not events else events

    async def _appended(
        self, state: SessionState | None, events: Events, asked: _Asked
    ) -> Done | None:
        """Append events after a state; return None when another process appended first."""
        drafts = [self._draft(event, asked) for event in events]
        head = state.head if state else None
        return await self.put(state, codec.write(asked.tenant, asked.session, head, drafts))

    async def put(self, state: SessionState | None, batch: codec.Batch) -> Done | None:
        """Append a batch after a state; return None when another process appended first.

        Raises `Unavailable` when the log gives no definite answer.
        """
        outcome = await self.log.append(batch)
        match outcome:
            case Appended(events=added) | AlreadyThere(events=added):
                grown = self._folded(added, state)
                self.held.appended(state, grown)
                return Done(grown, added)
            case Conflicted():
                return None
            case Unreachable(detail=detail):
                raise Unavailable("log", detail)
            case _ as never:
                assert_never(never)

    def _draft(self, event: KnownEvent, asked: _Asked) -> codec.Draft:
        by = asked.by
        return codec.Draft(
            event=event,
            id=self.new_id(),
            at=self.clock(),
            source=self.source,
            actor=by.actor,
            causation=by.causation,
            correlation=by.correlation,
            command=asked.command,
            traceparent=by.traceparent,
        )

    async def _done_before(self, state: SessionState, command: codec.Command) -> Memo | None:
        memo = next((memo for memo in state.commands if memo.key == command.key), None)
        if memo is None and state.forgotten_commands:
            memo = await self.older.find(state, command.key)
        if memo is not None and memo.hash != command.hash:
            raise Refused(
                "key-reused",
                "this key came with another body before",
                field="Idempotency-Key",
                fix="use a new key for a new request",
            )
        return memo

    def _folded(self, events: Sequence[Recorded], state: SessionState | None) -> SessionState:
        self.texts.note(events)
        folded = fold(events, state)
        if folded is None:
            raise Refused("unknown-session", "the session was never opened", field="session")
        self.held.hold(folded)
        return folded


def _lock(locks: _Locks, tenant: str, session: str) -> asyncio.Lock:
    """Return the lock of a session, which exists as long as a task holds or awaits it."""
    return locks.setdefault((tenant, session), asyncio.Lock())
