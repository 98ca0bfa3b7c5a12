"""Closing the child sessions of a coordinator's session, which nobody can ask any more."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.contract.turn_payloads import ClosedChild
from turnlog.events.errors import TurnlogError
from turnlog.projections.session.commands import CloseSession
from turnlog.projections.session.state import SessionState
from turnlog.services.command_handling.callers import Caller
from turnlog.services.sessions.command_handler import CommandHandler


@dataclass(frozen=True, slots=True)
class ChildClosing:
    """Closes the children of sessions that are closed."""

    command_handler: CommandHandler

    async def find_child(self, parent: SessionState, session: str) -> SessionState | None:
        """Return a child of a session; None for one that is not open yet, or another's.

        A fork has asked nobody: the children in what it copied are those of its original.
        """
        child = await self.command_handler.load_state(parent.tenant, session)
        origin = child.origin if child else None
        is_own = origin is not None and (origin.kind, origin.session) == ("parent", parent.session)
        return child if is_own else None

    async def close_children(
        self, caller: Caller, parent: SessionState, command: CloseSession
    ) -> tuple[ClosedChild, ...]:
        """Close the children of a closed session, and theirs; return what became of each.

        One that cannot be read or written is left, and closed when the request is repeated.
        """
        closed: list[ClosedChild] = []
        for session in parent.children:
            try:
                child = await self.find_child(parent, session)
                if child is None:
                    continue
                if not child.closed:
                    place = (caller.tenant, session)
                    done = await self.command_handler.handle(*place, command, caller.metadata)
                    child = done.state
            except TurnlogError:
                closed.append(ClosedChild(session=session, closed=False))
                continue
            closed.append(ClosedChild(session=session, closed=True))
            closed += await self.close_children(caller, child, command)
        return tuple(closed)
