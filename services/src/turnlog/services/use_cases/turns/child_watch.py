"""A watch of a turn's events that also watches the turns of its children, and of their children.

A coordinator's own log records neither what its children do nor what they wait for. A turn without
children opens nothing here. A child whose log is damaged is reported from its parent's log only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.async_tasks import Watch, cancel_tasks, wait_for_wake
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.child_events import ChildOutcome, ChildRequested, ChildSettled
from turnlog.events.model.tool_events import ApprovalDecided, ApprovalRequested
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.events.store.ports import TokenStream
from turnlog.events.tokens import TokenEvent
from turnlog.projections.session_views.turn_activity import (
    NO_ACTIVITY,
    ActivityByTurn,
    TurnActivity,
    collect_activity,
    update_activity,
)
from turnlog.services.approvals.guarded_tools import GuardedTool, filter_undecided
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.use_cases.turns.child_progress import ChildProgress, ChildProgressFold

MOST_TOKEN_WATCHES: Final = 32
"""The number of children of one watched turn whose tokens are counted; others are watched too."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class WatchedChild:
    """What is known of a child's turn, and the task that watches it."""

    fold: ChildProgressFold
    task: asyncio.Task[None] | None = None
    """None for a child that had ended when the watch began."""


@dataclass(kw_only=True)
class TurnWatch:
    """A watch of a session's events, with what the children of one of its turns do."""

    command_handler: CommandHandler
    log: Watch[RecordedEvent]
    tokens: TokenStream | None
    """Without it children are watched for approvals only."""
    tenant: str
    session: str
    turn: int
    wake: asyncio.Event
    activity: ActivityByTurn = field(default_factory=dict[int, TurnActivity])
    found: deque[GuardedTool | ChildProgress] = field(
        default_factory=deque[GuardedTool | ChildProgress]
    )
    children: dict[tuple[str, int], WatchedChild] = field(
        default_factory=dict[tuple[str, int], WatchedChild]
    )
    token_watches: int = 0
    """The number of children whose tokens are counted now."""

    async def take_next(self) -> RecordedEvent | GuardedTool | ChildProgress | None:
        """See `Watch.take_next`; raises what ended the watch of a child."""
        for task in self.list_tasks():
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise error
        if self.found:
            return self.found.popleft()
        recorded = await self.log.take_next()
        if recorded is not None:
            self.apply_event(self.session, self.turn, self.activity, recorded)
        return recorded

    def list_tasks(self) -> tuple[asyncio.Task[None], ...]:
        """Return the tasks that watch children."""
        return tuple(child.task for child in self.children.values() if child.task)

    def apply_event(
        self, session: str, turn: int, activity: ActivityByTurn, recorded: RecordedEvent
    ) -> None:
        """Apply an event of the turn, or of a child's turn, to the approvals and the children."""
        update_activity(activity, recorded)
        match recorded.event:
            case ApprovalRequested() | ApprovalDecided() as event if event.turn == turn:
                uses = activity.get(turn, NO_ACTIVITY).uses
                named = (use for use in uses if (use.call, use.id) == (event.call, event.id))
                self.found += (GuardedTool(session, turn, use) for use in named if use.approval)
                self.wake.set()
            case ChildRequested() as event if event.turn == turn:
                self._add_child(
                    ChildProgress(
                        session=event.session,
                        turn=event.child_turn,
                        parent=session,
                        call=event.call,
                        profile=event.profile,
                    )
                )
            case ChildSettled() as event:
                if child := self.children.get((event.session, event.child_turn)):
                    child.fold.settle(event.outcome)
                    self._report(child.fold)
                    if child.task:
                        child.task.cancel()
            case _:
                pass

    def begin(self, session: str, turn: int, past: Sequence[RecordedEvent]) -> ActivityByTurn:
        """Note what waits already, and what the children do that a turn has asked."""
        activity = collect_activity(past)
        self.found += filter_undecided(session, turn, past)
        for use in activity.get(turn, NO_ACTIVITY).uses:
            if use.child is not None:
                asked = ChildProgress(
                    session=use.child.session,
                    turn=use.child.turn,
                    parent=session,
                    call=use.call,
                    profile=use.tool,
                )
                self._add_child(asked, use.child.outcome)
        self.wake.set()
        return activity

    def _add_child(self, asked: ChildProgress, outcome: ChildOutcome | None = None) -> None:
        """Watch the turn of a child, or report its outcome if it has one."""
        if asked.key in self.children:
            return
        child = self.children[asked.key] = WatchedChild(ChildProgressFold(asked))
        if outcome is not None:
            child.fold.settle(outcome)
            self._report(child.fold)
            return
        child.task = asyncio.create_task(self._run_child_watch(child.fold))
        child.task.add_done_callback(lambda _: self.wake.set())

    def _report(self, fold: ChildProgressFold) -> None:
        if self.tokens is None:
            return
        report = fold.take_report(asyncio.get_running_loop().time())
        if report is not None:
            self.found.append(report)
            self.wake.set()

    async def _run_child_watch(self, fold: ChildProgressFold) -> None:
        """Watch the turn of a child until it ends; one that is damaged has no more to report."""
        try:
            await self._watch_child(fold)
        except Corrupt as error:
            _log.warning("child-not-watched", session=fold.current.session, error=str(error))
            self._report(fold)

    async def _watch_child(self, fold: ChildProgressFold) -> None:
        """Report what the child does now, then every change; it may not be submitted yet."""
        handler, (session, turn) = self.command_handler, fold.current.key
        state = await handler.load_state(self.tenant, session, leader=True)
        is_submitted = state is not None and state.submitted >= turn
        past = await handler.load_turn_events(state, turn) if state and is_submitted else ()
        for each in past:
            fold.apply_event(each)
        if any(is_end_of_turn(each.event, turn) for each in past):
            self._report(fold)
            return
        activity = self.begin(session, turn, past)
        after = past[-1].sequence if past else state.head.sequence if state else 0
        wake = asyncio.Event()
        async with (
            handler.log.open_session_watch(self.tenant, session, after, wake) as log,
            self._open_token_watch(session, turn, wake) as tokens,
        ):
            while True:
                wake.clear()
                while tokens and (token := await tokens.take_next()) is not None:
                    fold.apply_token(token)
                while (recorded := await log.take_next()) is not None:
                    fold.apply_event(recorded)
                    self.apply_event(session, turn, activity, recorded)
                    if is_end_of_turn(recorded.event, turn):
                        return
                self._report(fold)
                await wait_for_wake(wake)

    @asynccontextmanager
    async def _open_token_watch(
        self, session: str, turn: int, wake: asyncio.Event
    ) -> AsyncGenerator[Watch[TokenEvent] | None]:
        if self.tokens is None or self.token_watches >= MOST_TOKEN_WATCHES:
            yield None
            return
        self.token_watches += 1
        try:
            async with self.tokens.open_turn_watch(self.tenant, session, turn, wake) as tokens:
                yield tokens
        finally:
            self.token_watches -= 1


@asynccontextmanager
async def open_watch_with_children(
    command_handler: CommandHandler,
    log: Watch[RecordedEvent],
    key: tuple[str, str],
    turn: int,
    *,
    wake: asyncio.Event,
    past: Sequence[RecordedEvent] = (),
    tokens: TokenStream | None = None,
) -> AsyncGenerator[Watch[RecordedEvent | GuardedTool | ChildProgress]]:
    """Watch a turn of the session `key`: `past` has its events so far, `log` the later ones.

    With `tokens` the progress of children is reported.
    """
    tenant, session = key
    watch = TurnWatch(
        command_handler=command_handler,
        log=log,
        tokens=tokens,
        tenant=tenant,
        session=session,
        turn=turn,
        wake=wake,
    )
    watch.activity = watch.begin(session, turn, past)
    try:
        yield watch
    finally:
        await cancel_tasks(*watch.list_tasks())
