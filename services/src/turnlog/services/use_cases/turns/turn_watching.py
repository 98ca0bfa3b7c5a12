"""Watching a turn: its reply as it is written, or its outcome once there is one.

A stream subscribes to the event log and the token stream before it reads either, and joins them by
the rules of `log_token_join`. The cursor is the only state of a watcher, so any process can resume
a stream that another one began. A stream waits for a queued turn. A turn that has ended costs one
read of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from turnlog.events.async_tasks import merge_watches, run_tasks, stream_watch
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.events.log_token_join import (
    ReplyRecord,
    apply_log_events,
    is_ahead_of_tokens,
    restore_received_text,
)
from turnlog.events.model.turn_events import TurnCompleted, is_end_of_turn
from turnlog.events.store.ports import TokenStream
from turnlog.projections.session.decide import refuse_unknown_session
from turnlog.projections.session.state import SessionState
from turnlog.projections.session_views.session_history import HistoryTurn, build_history
from turnlog.services.approvals.guarded_tools import GuardedTool, list_undecided
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.use_cases.turns.child_progress import ChildProgress
from turnlog.services.use_cases.turns.child_watch import open_watch_with_children
from turnlog.services.use_cases.turns.turn_stream_events import (
    TurnCursor,
    TurnStreamEvent,
    advance_by_record,
    advance_by_token,
    build_approval_event,
    build_child_event,
    create_cursor_refusal,
    parse_turn_cursor,
    resume_cursor,
)
from turnlog.services.use_cases.turns.turn_submission import TurnOnLog

TOKEN_REPLICA_TRIES: Final = 10
"""How often a lagging replica of the token stream is read before a cursor is trusted."""

TOKEN_REPLICA_RETRY_SECONDS: Final = 0.1
"""Seconds between two of those reads."""

MOST_STREAM_OPENINGS: Final = 32
"""How many streams of a process read the past of their turns at once."""

WaitForEnd = Callable[[], Coroutine[Any, Any, None]]
"""Returns once nobody waits for an outcome any more."""


@dataclass(frozen=True, slots=True)
class TurnSettlement:
    """A settled turn, and the sequence of the event that settled it."""

    turn: HistoryTurn
    sequence: int


@dataclass(frozen=True, slots=True)
class UndecidedTurn:
    """A turn that continues once a person has decided about its tools."""

    tools: tuple[GuardedTool, ...]
    """The tools that wait for approval, of the turn or of one of its children."""
    sequence: int
    """The sequence up to which the log has no decision."""


@dataclass(frozen=True, slots=True)
class TurnWatching:
    """Watches turns."""

    command_handler: CommandHandler
    tokens: TokenStream
    shutdown_event: asyncio.Event
    """Set when the process shuts down, so that callers who wait are answered at once."""
    openings: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MOST_STREAM_OPENINGS)
    )

    async def open_stream(
        self,
        tenant: str,
        session: str,
        turn: int,
        after: str | None = None,
        *,
        has_reasoning: bool = False,
    ) -> AsyncGenerator[TurnStreamEvent] | None:
        """Return the events of a turn's stream after a cursor; None if its end was sent.

        The model's reasoning is among them where `has_reasoning` asks for it.
        """
        async with self.openings:
            state = await self.command_handler.load_state(tenant, session, leader=True)
            if state is None:
                raise refuse_unknown_session()
            past = await self.command_handler.load_turn_events(state, turn)
        record = apply_log_events(ReplyRecord(turn=turn), past)
        at = resume_cursor(
            TurnCursor(turn=turn) if after is None else parse_turn_cursor(after, turn), record
        )
        if at is None:
            return None
        if not isinstance(record.end_event, TurnCompleted):
            await self._check_cursor_reached(state, at, record)
        at = await self._restore_received_text(state, at)
        at = replace(at, reasoned=(at.reasoned or 0) if has_reasoning else None)
        return self._iterate_events(past, at, record)

    async def open_submitted_stream(
        self,
        tenant: str,
        session: str,
        submitted: TurnOnLog,
        after: str | None,
        *,
        has_reasoning: bool = False,
    ) -> AsyncGenerator[TurnStreamEvent] | None:
        """Return the same for a turn that was just submitted, perhaps not for the first time."""
        if submitted.events:
            record = apply_log_events(ReplyRecord(turn=submitted.turn), submitted.events)
            at = TurnCursor(turn=submitted.turn, reasoned=0 if has_reasoning else None)
            return self._iterate_events(submitted.events, at, record, is_new=True)
        return await self.open_stream(
            tenant=tenant,
            session=session,
            turn=submitted.turn,
            after=after,
            has_reasoning=has_reasoning,
        )

    async def _check_cursor_reached(
        self, state: SessionState, at: TurnCursor, record: ReplyRecord
    ) -> None:
        """Refuse a cursor that is ahead of the text of its attempt, unless it was abandoned.

        A replica may lag behind the leader: its answer counts once it has the latest token event.
        """
        if at.attempt < record.attempt or at.offset <= len(record.partial_text):
            return
        key = (state.tenant, state.session, at.turn)
        newest = await self.tokens.read_latest_event(*key)
        for _ in range(TOKEN_REPLICA_TRIES):
            stored = await self.tokens.read_token_events(*key)
            if not is_ahead_of_tokens(at.position, (stamped.event for stamped in stored)):
                return
            if newest is None or stored[-1].at >= newest.at:
                detail = f"attempt {at.attempt} has not produced {at.offset} code points"
                raise create_cursor_refusal(detail)
            await asyncio.sleep(TOKEN_REPLICA_RETRY_SECONDS)

    async def _restore_received_text(self, state: SessionState, at: TurnCursor) -> TurnCursor:
        """Return the cursor with what its client got on earlier connections, if it is known."""
        if at.offset == 0:
            return at
        try:
            stored = await self.tokens.read_token_events(state.tenant, state.session, at.turn)
        except Unavailable:
            return at  # What was sent since is compared anyway.
        position = restore_received_text(at.position, (stamped.event for stamped in stored))
        return replace(at, received=position.received)

    async def _iterate_events(
        self,
        past: Sequence[RecordedEvent],
        at: TurnCursor,
        record: ReplyRecord,
        *,
        is_new: bool = False,
    ) -> AsyncGenerator[TurnStreamEvent]:
        at, events = advance_by_record(at, record)
        for each in events:
            yield each
        if at.end:
            return
        last, wake = past[-1], asyncio.Event()
        handler, key = self.command_handler, (last.tenant, last.session)
        # A client that reconnects gets again what waits and what children do: its cursor has
        # neither.
        async with (
            handler.log.open_session_watch(*key, last.sequence, wake) as own,
            open_watch_with_children(
                handler, own, key, at.turn, wake=wake, past=past, tokens=self.tokens
            ) as log,
            self.tokens.open_turn_watch(*key, at.turn, wake, is_new=is_new) as tokens,
            aclosing(merge_watches(wake, tokens, log)) as items,
        ):
            async for item in items:
                if isinstance(item, RecordedEvent):
                    handler.apply_observed_event(item)
                    record = apply_log_events(record, (item,))
                    at, events = advance_by_record(at, record)
                elif isinstance(item, GuardedTool):
                    events = (build_approval_event(at, item),)
                elif isinstance(item, ChildProgress):
                    events = (build_child_event(at, item),)
                else:
                    at, events = advance_by_token(at, item)
                for each in events:
                    yield each
                if at.end:
                    return

    async def wait_for_outcome(
        self,
        tenant: str,
        submitted: TurnOnLog,
        *,
        timeout: float,
        until: WaitForEnd | None = None,
    ) -> TurnSettlement | UndecidedTurn | None:
        """Wait until a turn is settled, or waits for an approval.

        Returns None after the timeout, at shutdown, or when `until` ends: nobody waits any more.
        """
        watching = self._watch_until_outcome(tenant, submitted)
        ends = [self.shutdown_event.wait(), *([until()] if until else [])]
        async with run_tasks(watching, *ends) as tasks:
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            outcome: TurnSettlement | UndecidedTurn | None = (
                tasks[0].result() if tasks[0].done() else None
            )
            return outcome

    async def _watch_until_outcome(
        self, tenant: str, submitted: TurnOnLog
    ) -> TurnSettlement | UndecidedTurn:
        handler, wake = self.command_handler, asyncio.Event()
        turn, key = submitted.turn, (tenant, submitted.session)
        seen: list[RecordedEvent] = []
        async with (
            handler.log.open_session_watch(*key, submitted.sequence - 1, wake) as own,
            open_watch_with_children(handler, own, key, turn, wake=wake) as log,
            aclosing(stream_watch(wake, log)) as items,
        ):
            async for item in items:
                if isinstance(item, RecordedEvent):
                    seen.append(item)
                    handler.apply_observed_event(item)
                    if is_end_of_turn(item.event, turn):
                        (settled,) = (each for each in build_history(seen) if each.turn == turn)
                        return TurnSettlement(settled, item.sequence)
                    continue
                if isinstance(item, ChildProgress):
                    continue
                # Other requests of the same answer, and the decisions about one that this watch
                # meets late, are on the log already.
                undecided = await list_undecided(handler, tenant, item.session, item.turn)
                if undecided:
                    return UndecidedTurn(undecided, seen[-1].sequence)
        raise AssertionError("a watch ends only with its reader")
