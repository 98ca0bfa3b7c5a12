"""Guarding what people write in requests on a session, by the rules of the session's blueprint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from turnlog.contract.payload_models import RequestModel
from turnlog.events.errors import Conflict
from turnlog.projections.blueprint.schema.policy_specs import InputRule
from turnlog.projections.session.decide import refuse_unknown_session
from turnlog.projections.session.state import SessionState
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.guarded_requests import GuardedRequest, guard_request
from turnlog.services.sessions.command_handler import CommandHandler

Form = TypeVar("Form", bound=RequestModel)

Result = TypeVar("Result")


class _OtherRules(Conflict):
    """The session's blueprint has other rules than a request was guarded by."""

    def __init__(self, state: SessionState) -> None:
        super().__init__(state.session, state.head.sequence, state.head.sequence)
        self.state = state


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """Guards requests by the rules of their sessions."""

    command_handler: CommandHandler
    blueprints: BlueprintStore

    async def run_guarded(
        self,
        caller: Caller,
        session: str,
        form: Form,
        run: Callable[[Caller, GuardedRequest[Form]], Awaitable[Result]],
    ) -> Result:
        """Run a command with its guarded request, again if the session has moved to other rules.

        `run` calls `require_allowed` with the state that it decides on.
        """
        handler = self.command_handler
        # It may be stale: its rules are compared with those of the state that is decided on.
        state = handler.state_cache.get_state(caller.tenant, session)
        state = state or await handler.load_state(caller.tenant, session)
        while True:
            guarded = await self._guard_request(state, form)
            try:
                return await run(guarded.create_caller(caller), guarded)
            except _OtherRules as other:
                state = other.state

    async def require_allowed(
        self, state: SessionState | None, guarded: GuardedRequest[Form]
    ) -> SessionState:
        """Return the state; refuse an unknown session, and what its rules do not accept."""
        if state is None:
            raise refuse_unknown_session()
        if await self._load_rules(state) != guarded.rules:
            raise _OtherRules(state)
        if guarded.refusal is not None:
            raise guarded.refusal
        return state

    async def _guard_request(self, state: SessionState | None, form: Form) -> GuardedRequest[Form]:
        return await guard_request(await self._load_rules(state) if state else (), form)

    async def _load_rules(self, state: SessionState) -> tuple[InputRule, ...]:
        material = await self.blueprints.load_material(state)
        return material.blueprint.policies.input_safety
