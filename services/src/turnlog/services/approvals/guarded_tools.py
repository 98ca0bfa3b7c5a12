"""The tools of a turn that need a person's approval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent
from turnlog.projections.session_views.turn_activity import (
    NO_ACTIVITY,
    ToolActivity,
    collect_activity,
    is_undecided,
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
    return filter_undecided(session, turn, events)


def filter_undecided(
    session: str, turn: int, events: Sequence[RecordedEvent]
) -> tuple[GuardedTool, ...]:
    """Return the tools among the events of a turn that wait for approval."""
    uses = collect_activity(events).get(turn, NO_ACTIVITY).uses
    return tuple(GuardedTool(session, turn, use) for use in uses if is_undecided(use))
