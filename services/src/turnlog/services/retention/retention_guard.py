"""Refuses erasures of what is held, or kept by a policy, as the log says it now.

Read models are not asked: a hold that was acknowledged counts for whatever is decided after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from turnlog.projections.retention.retention_rules import require_erasable_now, require_unheld
from turnlog.projections.retention.session_facts import SessionFacts, collect_facts
from turnlog.projections.session.state import SessionState
from turnlog.services.retention.retention_service import RetentionService
from turnlog.services.sessions.command_handler import CommandHandler


@dataclass(frozen=True, slots=True)
class RetentionGuard:
    """Asks policies and holds before something is erased."""

    command_handler: CommandHandler
    service: RetentionService

    async def require_erasable(
        self, tenant: str, list_sessions: Callable[[], Awaitable[Sequence[str]]]
    ) -> None:
        """Refuse an erasure that reaches a session which is held or kept by a policy."""
        retention = await self.service.load_retention(tenant, leader=True)
        if not retention.policies and not retention.holds:
            return
        at = self.command_handler.clock()
        for session in await list_sessions():
            for facts in await self.load_protected(tenant, session):
                require_erasable_now(retention, facts, at)

    async def require_unheld(self, tenant: str, sessions: Sequence[str]) -> None:
        """Refuse to remove keys of sessions of which one is held by now."""
        retention = await self.service.load_retention(tenant, leader=True)
        if not retention.holds:
            return
        for session in sessions:
            for facts in await self.load_protected(tenant, session):
                require_unheld(retention, facts)

    async def load_protected(self, tenant: str, session: str) -> Sequence[SessionFacts]:
        """Return what to ask of a session, and of the one that it works for, if it is a child.

        Empty where there is no sealed session.
        """
        state = await self.command_handler.load_state(tenant, session, leader=True)
        if state is None or state.sealed_under is None:
            return ()
        found = [await self._collect_facts(state)]
        while state is not None and state.is_child and state.origin is not None:
            parent = state.origin.session
            state = await self.command_handler.load_state(tenant, parent, leader=True)
            if state is not None:
                found.append(await self._collect_facts(state))
        return found

    async def _collect_facts(self, state: SessionState) -> SessionFacts:
        events = await self.command_handler.load_events(state.tenant, state.session)
        return collect_facts(events, state.blueprint.name, state.owner)
