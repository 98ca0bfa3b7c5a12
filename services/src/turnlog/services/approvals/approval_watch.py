"""The tools of a turn that wait for a person, also those of its child sessions.

A coordinator's own log does not record what its children wait for. So a watch of its turn also
watches the pending turns of its children, and of their children.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from turnlog.events.async_tasks import Watch, cancel_tasks
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.tool_events import ApprovalDecided, ApprovalRequested
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.projections.session_views.turn_activity import (
    NO_ACTIVITY,
    ActivityByTurn,
    ToolActivity,
    TurnActivity,
    collect_activity,
    is_undecided,
    update_activity,
)
from turnlog.services.sessions.command_handler import CommandHandler


@dataclass(frozen=True, slots=True)
class GuardedTool:
    """A tool that waits for approval, or about which it was decided, and where that is done."""

    session: str
    """The session of the turn, or one of its child sessions."""
    turn: int
    """The number of the turn in that session."""
    use: ToolActivity


async def list_undecided(
    command_handler: CommandHandler, tenant: str, session: str, turn: int
) -> tuple[GuardedTool, ...]:
    """Return the tools of a turn that wait for approval now; none of a turn that is not there."""
    state = await command_handler.load_state(tenant, session, leader=True)
    if state is None or state.submitted < turn:
        return ()
    events = await command_handler.load_turn_events(state, turn)
    return _filter_undecided(session, turn, events)


def _filter_undecided(
    session: str, turn: int, events: Sequence[RecordedEvent]
) -> tuple[GuardedTool, ...]:
    uses = collect_activity(events).get(turn, NO_ACTIVITY).uses
    return tuple(GuardedTool(session, turn, use) for use in uses if is_undecided(use))


@dataclass(kw_only=True)
class ApprovalWatch:
    """A watch of a session's events, with the tools of one of its turns that need approval."""

    command_handler: CommandHandler
    log: Watch[RecordedEvent]
    tenant: str
    session: str
    turn: int
    wake: asyncio.Event
    activity: ActivityByTurn = field(default_factory=dict[int, TurnActivity])
    found: deque[GuardedTool] = field(default_factory=deque[GuardedTool])
    children: dict[tuple[str, int], asyncio.Task[None]] = field(
        default_factory=dict[tuple[str, int], asyncio.Task[None]]
    )
    """The tasks that watch the turns of children."""

    async def take_next(self) -> RecordedEvent | GuardedTool | None:
        """See `Watch.take_next`; raises what ended the watch of a child."""
        for task in self.children.values():
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise error
        if self.found:
            return self.found.popleft()
        recorded = await self.log.take_next()
        if recorded is not None:
            self.apply_event(self.session, self.turn, self.activity, recorded)
        return recorded

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
                self._watch_child(event.session, event.child_turn)
            case ChildSettled() as event:
                if task := self.children.get((event.session, event.child_turn)):
                    task.cancel()
            case _:
                pass

    def begin(self, session: str, turn: int, past: Sequence[RecordedEvent]) -> ActivityByTurn:
        """Note what waits already, and watch the children that a turn waits for."""
        activity = collect_activity(past)
        self.found += _filter_undecided(session, turn, past)
        for use in activity.get(turn, NO_ACTIVITY).uses:
            if use.child is not None and use.child.outcome is None:
                self._watch_child(use.child.session, use.child.turn)
        self.wake.set()
        return activity

    def _watch_child(self, session: str, turn: int) -> None:
        if (session, turn) not in self.children:
            task = asyncio.create_task(self._run_child_watch(session, turn))
            task.add_done_callback(lambda _: self.wake.set())
            self.children[session, turn] = task

    async def _run_child_watch(self, session: str, turn: int) -> None:
        """Watch the turn of a child until it ends; it may not be submitted yet."""
        handler = self.command_handler
        state = await handler.load_state(self.tenant, session, leader=True)
        is_submitted = state is not None and state.submitted >= turn
        past = await handler.load_turn_events(state, turn) if state and is_submitted else ()
        if any(is_end_of_turn(each.event, turn) for each in past):
            return
        activity = self.begin(session, turn, past)
        after = past[-1].sequence if past else state.head.sequence if state else 0
        async with aclosing(handler.log.watch_session(self.tenant, session, after)) as events:
            async for recorded in events:
                self.apply_event(session, turn, activity, recorded)
                if is_end_of_turn(recorded.event, turn):
                    return


@asynccontextmanager
async def open_approval_watch(
    command_handler: CommandHandler,
    log: Watch[RecordedEvent],
    key: tuple[str, str],
    turn: int,
    *,
    wake: asyncio.Event,
    past: Sequence[RecordedEvent] = (),
) -> AsyncGenerator[Watch[RecordedEvent | GuardedTool]]:
    """Watch a turn of the session `key`: `past` has its events so far, `log` the later ones."""
    tenant, session = key
    watch = ApprovalWatch(
        command_handler=command_handler,
        log=log,
        tenant=tenant,
        session=session,
        turn=turn,
        wake=wake,
    )
    watch.activity = watch.begin(session, turn, past)
    try:
        yield watch
    finally:
        await cancel_tasks(*watch.children.values())
