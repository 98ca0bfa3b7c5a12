"""Sessions: load a state, decide, append, and say what came of it.

This is the one way anything is ever added to a session, for the gateway as for the worker. A
state is held from one command to the next; the session's last event tells whether it is still
the latest, so that a turn reads a handful of events however old the session is.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, assert_never

from turnlog.events import codec
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Conflict, Refused, Unavailable
from turnlog.events.kinds import KnownEvent
from turnlog.events.log.outcomes import AlreadyThere, Appended, Conflicted, Unreachable
from turnlog.events.log.ports import Log
from turnlog.projections.session.commands import Command
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import fold, fold_whole
from turnlog.projections.session.state import Memo, SessionState
from turnlog.services.runtime.clock import Clock, Ids
from turnlog.services.runtime.continuity import check_goes_on
from turnlog.services.runtime.snapshots import EVERY, CheckedSnapshots
from turnlog.services.runtime.texts import TextReader

MOST_HELD: Final = 2_000
"""States held at once."""
MOST_TRIES: Final = 200
"""How often a command is decided again because others appended first."""

Choose = Callable[[SessionState | None], Awaitable[Command | None]]
"""Gives the command for the state as it is now; none when there is nothing left to do."""


@dataclass(frozen=True, slots=True)
class By:
    """On whose behalf something is appended, and what led to it."""

    actor: str
    causation: str | None = None
    correlation: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a command."""

    state: SessionState
    events: tuple[Recorded, ...]
    """What it appended; nothing when it was carried out before, or had nothing left to do."""
    memo: Memo | None = None
    """The first time's record, when the same command had been carried out before."""


class OlderCommands(Protocol):
    """Finds commands whose key the state has forgotten."""

    async def find(self, state: SessionState, key: str) -> Memo | None:
        """Give the record of a key; raises `Unavailable` when it cannot be told yet."""
        ...


@dataclass
class _Held:
    state: SessionState
    kept_at: int
    """Sequence of the latest snapshot."""


@dataclass
class Sessions:
    """All sessions of a process."""

    log: Log
    snapshots: CheckedSnapshots
    texts: TextReader
    older: OlderCommands
    clock: Clock
    new_id: Ids
    source: str
    """What events say wrote them, such as `/turnlog/gateway`."""
    _held: OrderedDict[tuple[str, str], _Held] = field(
        default_factory=OrderedDict[tuple[str, str], _Held]
    )
    _locks: dict[tuple[str, str], asyncio.Lock] = field(
        default_factory=dict[tuple[str, str], asyncio.Lock]
    )
    _keeping: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def load(self, tenant: str, session: str, *, leader: bool = False) -> SessionState | None:
        """Give the state of a session; `leader` is never stale.

        Raises `Corrupt` when the session was further, or otherwise, than the log now has it.
        """
        held = self._held.get((tenant, session))
        last = await self.log.last(tenant, session, leader=leader)
        if held and not leader and (last is None or last.sequence < held.state.head.sequence):
            # A follower may lag behind what is held, the leader never does.
            last = await self.log.last(tenant, session, leader=True)
        if held:
            check_goes_on(held.state, last)
        if last is None:
            return None
        state = held.state if held else await self.snapshots.load(tenant, session)
        if held is None and state is not None:
            self._hold(state, kept_at=state.head.sequence)
        if state is not None and last.sequence <= state.head.sequence:
            return state
        events = await self.log.between(tenant, session, state.head if state else None, last)
        return self._folded(events, state)

    @property
    def latest(self) -> SessionState | None:
        """Of the states held, the one that ends the latest on the log."""
        states = (held.state for held in self._held.values())
        return max(states, key=lambda state: state.head.stream_sequence, default=None)

    async def load_open(self, tenant: str, session: str) -> SessionState:
        """Give the state of a session, or refuse an unknown one."""
        state = await self.load(tenant, session)
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return state

    async def events(
        self, tenant: str, session: str, upto: int | None = None
    ) -> Sequence[Recorded]:
        """Give all events of a session from the first, or those up to a sequence."""
        last = await self.last(tenant, session)
        if upto is not None and upto < last.sequence:
            last = await self.log.find(tenant, session, upto, last)
        return await self.log.between(tenant, session, None, last)

    async def last(self, tenant: str, session: str) -> Recorded:
        """Give a session's last event."""
        last = await self.log.last(tenant, session)
        if last is None:
            raise Refused("unknown-session", "there is no such session", field="session")
        return last

    async def behind(self, last: Recorded, after: int) -> Sequence[Recorded]:
        """Give a session's events behind a sequence up to its last one, perhaps none."""
        tenant, session = last.tenant, last.session
        if after >= last.sequence:
            return ()
        known = await self.log.find(tenant, session, after, last) if after else None
        return await self.log.between(tenant, session, known.head if known else None, last)

    async def load_whole(self, tenant: str, session: str, upto: int) -> SessionState:
        """Fold a session from its first event with every turn kept, as it was at a sequence."""
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
    ) -> Done:
        """Carry out a command; decided anew for as long as others append first.

        Raises `Refused` by a rule, `Unavailable` without a certain answer from the log, and
        `Conflict` when others would not stop.
        """
        lock = self._locks.setdefault((tenant, session), asyncio.Lock())
        try:
            async with lock:
                return await self._act(tenant, session, choose, by, command)
        finally:
            if not lock.locked():
                self._locks.pop((tenant, session), None)

    async def _act(
        self,
        tenant: str,
        session: str,
        choose: Command | Choose,
        by: By,
        command: codec.Command | None,
    ) -> Done:
        state = await self.load(tenant, session)
        for _ in range(MOST_TRIES):
            if state and command and (memo := await self._done_before(state, command)):
                return Done(state, (), memo)
            chosen = await choose(state) if callable(choose) else choose
            events = decide(state, chosen, self.clock()) if chosen else ()
            if not events and state:
                return Done(state, ())
            drafts = [self._draft(event, by, command) for event in events]
            batch = codec.write(tenant, session, state.head if state else None, drafts)
            outcome = await self.log.append(batch)
            match outcome:
                case Appended(events=added) | AlreadyThere(events=added):
                    return Done(self._folded(added, state), added)
                case Conflicted():
                    state = await self.load(tenant, session, leader=True)
                case Unreachable(detail=detail):
                    raise Unavailable("log", detail)
                case _ as never:
                    assert_never(never)
        raise Conflict(session, state.head.sequence if state else 0, None)

    def _draft(self, event: KnownEvent, by: By, command: codec.Command | None) -> codec.Draft:
        return codec.Draft(
            event=event,
            id=self.new_id(),
            at=self.clock(),
            source=self.source,
            actor=by.actor,
            causation=by.causation,
            correlation=by.correlation,
            command=command,
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
        self._hold(folded)
        return folded

    def _hold(self, state: SessionState, kept_at: int | None = None) -> None:
        key = (state.tenant, state.session)
        held = self._held.get(key)
        before = held.kept_at if held else 0
        self._held[key] = _Held(state, before if kept_at is None else kept_at)
        self._held.move_to_end(key)
        if len(self._held) > MOST_HELD:
            self._held.popitem(last=False)
        if state.head.sequence - self._held[key].kept_at >= EVERY:
            self._held[key].kept_at = state.head.sequence
            keeping = asyncio.create_task(self._keep(state))
            self._keeping.add(keeping)
            keeping.add_done_callback(self._keeping.discard)

    async def _keep(self, state: SessionState) -> None:
        try:
            await self.snapshots.keep(state)
        except Unavailable:
            return  # A snapshot saves time; the next one will.
