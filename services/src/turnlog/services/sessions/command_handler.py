"""The command handler of sessions, which appends every event of the gateway and of the worker.

It binds the core of `idempotent_commands` to the rules and the fold of sessions, and reads
sessions for whoever explains or copies them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from turnlog.events import codec
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Conflict, Corrupt, Refused
from turnlog.events.store.ports import EventLog
from turnlog.events.subjects import SESSION_HISTORY
from turnlog.projections.session.commands import Command
from turnlog.projections.session.decide import decide, refuse_unknown_session
from turnlog.projections.session.evolve import fold_unbounded
from turnlog.projections.session.fold.settled_turns import build_unknown_turn, find_settled_turn
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.state import IdempotencyRecord, SessionState, SettledTurnRef
from turnlog.projections.session.text_refs import InputsRef, TextRef
from turnlog.services.caches.session_snapshots import CheckedSnapshotStore
from turnlog.services.caches.state_cache import (
    OlderCommandLookup,
    StateCache,
)
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    HandledCommand,
    IdempotentCommandHandler,
)
from turnlog.services.integrity.rollback_confirmation import CONFIRM_SECONDS
from turnlog.services.platform.clock import Clock, CreateId
from turnlog.services.quotas.quota_reservations import TurnQuotas
from turnlog.services.seals.session_sealing import SessionSealing
from turnlog.services.sessions.older_turns import OlderTurnsLoader

ChooseCommand = Callable[[SessionState | None], Awaitable[Command | None]]
"""Return the command for the current state, or None when nothing is left to do."""


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The result of a command."""

    state: SessionState
    events: tuple[RecordedEvent, ...]
    """The appended events; empty when the command was recorded before or had nothing to do."""
    memo: IdempotencyRecord | None = None
    """The record of the first run, when the same command was carried out before."""


@dataclass(kw_only=True)
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
    quotas: TurnQuotas | None = None
    """The quotas of users; without them every turn is allowed."""
    sealing: SessionSealing | None = None
    """Seals what is appended; without it every session is plain."""
    confirm_seconds: float = CONFIRM_SECONDS
    """Seconds for which the log must contradict a cached state to count as rolled back."""
    state_cache: StateCache = field(init=False)
    _older_turns: OlderTurnsLoader = field(init=False)
    _handler: IdempotentCommandHandler[SessionState, IdempotencyRecord] = field(init=False)

    def __post_init__(self) -> None:
        self.state_cache = StateCache(
            snapshots=self.snapshots, texts=self.texts, older_commands=self.older_commands
        )
        self._older_turns = OlderTurnsLoader(self.snapshots, self.texts, self.read_events_upto)
        self._handler = IdempotentCommandHandler(
            log=self.log,
            kind=SESSION_HISTORY,
            states=self.state_cache,
            clock=self.clock,
            create_id=self.create_id,
            source=self.source,
            confirm_seconds=self.confirm_seconds,
            sealing=self.sealing,
        )

    async def load_state(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> SessionState | None:
        """Return the state of a session, or None; see `IdempotentCommandHandler.load_state`."""
        return await self._handler.load_state(tenant, session, leader=leader)

    def apply_observed_event(self, recorded: RecordedEvent) -> None:
        """Fold an event that this process received anyway, if it follows the cached state."""
        self._handler.apply_observed_event(recorded)

    async def require_state(self, tenant: str, session: str) -> SessionState:
        """Return the state of a session; refuse an unknown session."""
        state = await self.load_state(tenant, session)
        if state is None:
            raise refuse_unknown_session()
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
        last = await self._handler.read_last_event(tenant, session, min_sequence)
        if last is None:
            raise refuse_unknown_session()
        return last

    async def load_whole_end(
        self, tenant: str, session: str, min_sequence: int = 0
    ) -> RecordedEvent:
        """Do the same for an audit: raise `Corrupt` if not all that is stored leads there."""
        last = await self.load_last_event(tenant, session, min_sequence)
        if unreadable := await self.log.find_unreadable_end(tenant, session):
            raise unreadable
        if await self.log.has_stray_messages(tenant, session):
            raise Corrupt(f"session {session}", "messages that are no events are stored in it")
        return last

    async def load_events_after(self, last: RecordedEvent, after: int) -> Sequence[RecordedEvent]:
        """Return a session's events after a sequence, up to and including `last`."""
        tenant, session = last.tenant, last.session
        if after >= last.sequence:
            return ()
        before = await self.log.find_event(tenant, session, after, last) if after else None
        return await self.log.read_range(tenant, session, before.head if before else None, last)

    async def read_events_upto(
        self, tenant: str, session: str, after: ChainHead | None, upto: int
    ) -> Sequence[RecordedEvent]:
        """Return a session's events after a head up to a sequence, at once if no replica lags."""
        count = upto - (after.sequence if after else 0)
        events = await self.log.read_next_events(tenant, session, after, count)
        if len(events) == count:
            return events
        last = await self.load_last_event(tenant, session, upto)
        end = await self.log.find_event(tenant, session, upto, last)
        return await self.log.read_range(tenant, session, after, end)

    async def load_turn_events(self, state: SessionState, turn: int) -> Sequence[RecordedEvent]:
        """Return the session's events from the turn's text to the head; all if it has no text.

        Raises `Refused` if there is no such turn.
        """
        first_ref = _find_submission(state, turn)
        places = [state.head.stream_sequence, *([first_ref.place] if first_ref else [])]
        last, *first = await self.log.read_events_at(state.tenant, places)
        before = first[0].head if first else None
        return (*first, *await self.log.read_range(state.tenant, state.session, before, last))

    async def load_older_turns(
        self,
        state: SessionState,
        recorded_sequence: int | None = None,
        *,
        every_turn: bool,
    ) -> SessionState:
        """Return the state with turns that it kept only as runs: with every turn, or the latest.

        The turns are folded from the log up to the state's head, or up to `recorded_sequence` where
        the state contains events that are not recorded. Everything else stays as the state has it.
        """
        upto = state.head.sequence if recorded_sequence is None else recorded_sequence
        if every_turn:
            events = await self.load_events(state.tenant, state.session, upto)
            farther = fold_unbounded(events)
        else:
            farther = await self._older_turns.load_state(state, upto)
        if farther is None:
            raise refuse_unknown_session()
        return replace(state, turns=farther.turns, earlier=farther.earlier, reach=farther.reach)

    async def handle(
        self,
        tenant: str,
        session: str,
        choose: Command | ChooseCommand,
        metadata: CommandMetadata,
        command: codec.CommandRef | None = None,
        *,
        expected_state: SessionState | None = None,
        before_append: Callable[[SessionState | None], Awaitable[None]] | None = None,
    ) -> CommandOutcome:
        """Carry out a command, or the one that `choose` returns, at most once for each key.

        `before_append` gets the state that the events are decided on. It runs once rules and
        quotas allow these, perhaps more than once.
        """
        quota = self.quotas.start_command(tenant, session, metadata) if self.quotas else None

        async def decide_events(state: SessionState | None) -> NewEvents:
            chosen = await choose(state) if callable(choose) else choose
            events = decide(state, chosen, self.clock()) if chosen else ()
            if quota:
                events = await quota.reserve_events(state, chosen, events)
            if events and before_append:
                await before_append(state)
            return events

        try:
            handled = await self._handler.handle(
                tenant,
                session,
                decide_events,
                metadata,
                command=command,
                expected_state=expected_state,
            )
        except (Refused, Conflict):
            # After any other error the turn may be on the log.
            if quota:
                await quota.release_turn()
            raise
        if quota:
            await quota.settle_turns(handled.events, handled.state)
        return _create_outcome(handled)

    async def append_batch(
        self, state: SessionState | None, batch: codec.EventBatch
    ) -> CommandOutcome | None:
        """Append a batch after a state; return None when another process appended first.

        Raises `Unavailable` when the log gives no definite answer.
        """
        handled = await self._handler.append_batch(state, batch)
        return _create_outcome(handled) if handled else None


def _find_submission(state: SessionState, turn: int) -> TextRef | InputsRef | None:
    """Return a reference to a turn's first event, which has its text; None when unknown."""
    unsettled = [each for each in state.unsettled_turns if each.turn == turn]
    if unsettled:
        return unsettled[0].text
    settled = find_settled_turn(state, turn)
    if settled is None:
        raise build_unknown_turn(turn)
    return settled.submission or settled.text if isinstance(settled, SettledTurnRef) else None


def _create_outcome(handled: HandledCommand[SessionState, IdempotencyRecord]) -> CommandOutcome:
    if handled.state is None:
        raise refuse_unknown_session()
    return CommandOutcome(handled.state, handled.events, handled.record)
