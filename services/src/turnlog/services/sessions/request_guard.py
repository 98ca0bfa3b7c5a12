"""Guarding what people write in requests on a session, before anything of it is stored.

The rules are those of `input_safety` in the session's blueprint. A request that is masked is
handled as if it had been sent so. The digest of an idempotency key then covers the masked request:
a digest of the original would let anybody with the log try card numbers until one fits. Every other
request has the digest that it always had.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, TypeVar

from turnlog.contract.payload_models import RequestModel
from turnlog.contract.session_requests import (
    DecideApprovalRequest,
    DisplayTurnRequest,
    FeedbackRequest,
    PhaseSignalRequest,
    RedactReplyRequest,
    SubmitTurnRequest,
)
from turnlog.events.content import compute_digest, encode_canonical
from turnlog.events.errors import Conflict, Refused
from turnlog.events.model.turn_events import InputFinding
from turnlog.projections.blueprint.input_guard import guard_values
from turnlog.projections.blueprint.schema.policy_specs import InputRule
from turnlog.projections.session.state import SessionState
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.state_cache import refuse_unknown_session
from turnlog.services.command_handling.callers import Caller
from turnlog.services.platform.concurrency import run_text_work
from turnlog.services.sessions.command_handler import CommandHandler

GUARDED_FIELDS: Final[Mapping[type[RequestModel], frozenset[str]]] = {
    DecideApprovalRequest: frozenset({"reason", "arguments"}),
    DisplayTurnRequest: frozenset({"text"}),
    FeedbackRequest: frozenset({"comment"}),
    PhaseSignalRequest: frozenset({"carry"}),
    RedactReplyRequest: frozenset({"reason", "replacement"}),
    SubmitTurnRequest: frozenset({"text", "inputs", "references", "meta"}),
}
"""The fields in which people write, by request."""

Form = TypeVar("Form", bound=RequestModel)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedRequest(Generic[Form]):
    """A request as the rules of its blueprint leave it."""

    rules: tuple[InputRule, ...]
    form: Form
    """The request as it may be recorded."""
    findings: tuple[InputFinding, ...] = ()
    """What was masked or noted."""
    refusal: Refused | None = None
    """Why it may not be recorded; a request that was recorded before is answered all the same."""
    is_masked: bool = False

    def create_caller(self, caller: Caller) -> Caller:
        """Return a caller whose key has a digest that covers nothing masked."""
        if caller.command is None or not self.is_masked:
            return caller
        masked = encode_canonical({"masked": self.form.model_dump(mode="json")})
        return replace(caller, command=replace(caller.command, hash=compute_digest(masked)))


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
        """Apply the rules of a session; in a thread if the request is long."""
        rules = await self._load_rules(state) if state else ()
        if not rules:
            return GuardedRequest(rules=rules, form=form)
        values = form.model_dump(include=set(GUARDED_FIELDS[type(form)]))
        length = len(encode_canonical(values))
        try:
            guarded = await run_text_work(partial(guard_values, rules, values), length)
        except Refused as refusal:
            return GuardedRequest(rules=rules, form=form, refusal=refusal)
        return GuardedRequest(
            rules=rules,
            form=form.model_copy(update=guarded.values),
            findings=guarded.findings,
            is_masked=guarded.is_masked,
        )

    async def _load_rules(self, state: SessionState) -> tuple[InputRule, ...]:
        material = await self.blueprints.load_material(state)
        return material.blueprint.policies.input_safety
