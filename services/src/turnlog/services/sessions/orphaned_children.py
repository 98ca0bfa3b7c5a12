"""The children of a coordinator that was closed, or that moved and asks others from then on."""

from __future__ import annotations

from turnlog.contract.turn_payloads import ClosedChild
from turnlog.events.errors import TurnlogError
from turnlog.projections.session.commands import CloseSession
from turnlog.projections.session.state import SessionState
from turnlog.services.command_handling.callers import Caller
from turnlog.services.sessions.command_handler import CommandHandler


async def close_children(
    handler: CommandHandler, caller: Caller, parent: SessionState, command: CloseSession
) -> tuple[ClosedChild, ...]:
    """Close the children of a closed session, and theirs; return what became of each.

    One that cannot be read or written is left, and closed when the request is repeated. One that is
    not open yet is opened by a worker only to withdraw its turn.
    """
    closed: list[ClosedChild] = []
    for session in parent.children:
        try:
            child = await handler.load_state(parent.tenant, session)
            if child is None:
                continue
            if not child.closed:
                place = (parent.tenant, session)
                child = (await handler.handle(*place, command, caller.metadata)).state
        except TurnlogError:
            closed.append(ClosedChild(session=session, closed=False))
            continue
        closed.append(ClosedChild(session=session, closed=True))
        closed += await close_children(handler, caller, child, command)
    return tuple(closed)


async def list_children_left(handler: CommandHandler, parent: SessionState) -> tuple[str, ...]:
    """List the open children that a session asked with another version of its blueprint.

    One that cannot be read is among them: the move that is answered is on the log already.
    """
    left: list[str] = []
    for session in parent.children:
        try:
            child = await handler.load_state(parent.tenant, session)
        except TurnlogError:
            left.append(session)
            continue
        if child and not child.closed and child.blueprint.digest != parent.blueprint.digest:
            left.append(session)
    return tuple(left)
