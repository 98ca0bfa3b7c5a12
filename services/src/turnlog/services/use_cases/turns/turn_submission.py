"""Submitting turns: a result means that the turn is on the event log; a worker answers it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from turnlog.contract.session_requests import SubmitTurnRequest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Conflict, Refused
from turnlog.projections.blueprint.storable_json import check_json
from turnlog.projections.blueprint.validation.input_values import check_values
from turnlog.projections.prompt.budget.admission_limits import check_turn_text
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.quotas.turn_bound import compute_turn_bound
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.state import IdempotencyRecord, SessionState
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.state_cache import refuse_unknown_session
from turnlog.services.command_handling.callers import Caller
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.sessions.command_handler import CommandHandler, CommandOutcome
from turnlog.services.use_cases.turns.turn_guard import GuardedTurn, guard_turn
from turnlog.services.use_cases.turns.turn_stream_events import create_cursor_refusal


@dataclass(frozen=True, slots=True)
class TurnOnLog:
    """A turn that is on the event log; that of the first request when it was repeated."""

    session: str
    turn: int
    """The turn number within the session."""
    sequence: int
    """The sequence of the event that submitted it."""
    events: tuple[RecordedEvent, ...] = ()
    """The events of its submission; empty when the request was repeated."""


class _OtherRules(Conflict):
    """The session's blueprint has other rules of `input_safety` than a turn was guarded by."""

    def __init__(self, state: SessionState) -> None:
        super().__init__(state.session, state.head.sequence, state.head.sequence)
        self.state = state


@dataclass(frozen=True, slots=True)
class TurnSubmitter:
    """Submits turns to sessions."""

    command_handler: CommandHandler
    blueprints: BlueprintStore
    overrides: OverrideService
    default_model: str
    """The model of profiles that say `default`."""

    async def submit_turn(
        self,
        caller: Caller,
        session: str,
        request: SubmitTurnRequest,
        *,
        cursor: str | None = None,
    ) -> TurnOnLog:
        """Append a turn to a session, under the idempotency key of the caller.

        `cursor` is the stream cursor of the caller; a new turn has none.
        """
        check_json(request.references, "references")
        check_json(request.meta, "meta")
        state = await self._load_any_state(caller.tenant, session)
        while True:
            guarded = await self._guard_turn(state, request)
            try:
                return await self._submit_guarded_turn(caller, session, guarded, cursor)
            except _OtherRules as other:
                state = other.state

    async def _load_any_state(self, tenant: str, session: str) -> SessionState | None:
        """Return a state of a session that may be stale; its rules are compared later."""
        handler = self.command_handler
        cached = handler.state_cache.get_state(tenant, session)
        return cached or await handler.load_state(tenant, session)

    async def _guard_turn(
        self, state: SessionState | None, request: SubmitTurnRequest
    ) -> GuardedTurn:
        """Apply the rules of a session's blueprint; those of an unknown session are none."""
        if state is None:
            return GuardedTurn(rules=(), request=request)
        material = await self.blueprints.load_material(state)
        return await guard_turn(material.blueprint.policies.input_safety, request)

    async def _submit_guarded_turn(
        self, caller: Caller, session: str, guarded: GuardedTurn, cursor: str | None
    ) -> TurnOnLog:
        """Append a turn; raises `_OtherRules` if the session has others than it was guarded by."""
        user = caller.choose_user(guarded.request.user)

        async def choose(state: SessionState | None) -> SubmitTurn:
            if state is None:
                raise refuse_unknown_session()
            if cursor is not None:
                raise create_cursor_refusal("this turn is new, and nothing of it was sent before")
            material = await self.blueprints.load_material(state)
            if material.blueprint.policies.input_safety != guarded.rules:
                raise _OtherRules(state)
            if guarded.refusal is not None:
                raise guarded.refusal
            return await self._build_command(
                tenant=caller.tenant, state=state, material=material, guarded=guarded, user=user
            )

        done = await self.command_handler.handle(
            caller.tenant,
            session,
            choose,
            caller.metadata,
            command=guarded.create_command_ref(caller.command),
        )
        turn, sequence = _find_submission(done)
        return TurnOnLog(done.state.session, turn, sequence, done.events)

    async def _build_command(
        self,
        tenant: str,
        state: SessionState,
        material: SessionMaterial,
        guarded: GuardedTurn,
        user: str | None,
    ) -> SubmitTurn:
        request = guarded.request
        blueprint, is_system = material.blueprint, request.role == "system"
        inputs = (
            _check_system_turn(request)
            if is_system
            else self._check_turn_inputs(material, state, request)
        )
        return SubmitTurn(
            text=request.text,
            policies=blueprint.policies,
            phases=material.phases,
            inputs=inputs,
            references=request.references,
            meta=request.meta,
            remembered=material.has_memory,
            role=request.role or "user",
            user=user,
            bound=None if is_system else compute_turn_bound(blueprint, state.profile, inputs),
            has_fallback=any(call.fallback for call in blueprint.calls.values()),
            overrides=await self.overrides.list_turn_overrides(
                tenant, None if is_system else user, blueprint
            ),
            findings=guarded.findings,
        )

    def _check_turn_inputs(
        self, material: SessionMaterial, state: SessionState, request: SubmitTurnRequest
    ) -> dict[str, JsonValue]:
        """Return the inputs of a user's turn, which has room in the prompts of its calls."""
        inputs = check_values(material.blueprint.inputs, request.inputs, "inputs")
        model = material.resolve_model(state, self.default_model)
        check_turn_text(
            material=material, state=state, text=request.text, inputs=inputs, model=model
        )
        return inputs


def _check_system_turn(request: SubmitTurnRequest) -> dict[str, JsonValue]:
    """Return no inputs; refuse what only a turn with calls can have."""
    for field, value in (("inputs", request.inputs), ("references", request.references)):
        if value:
            what = f"a turn of the system has no {field}"
            raise Refused("invalid", what, field=field, fix="leave it out")
    return {}


def _find_submission(done: CommandOutcome) -> tuple[int, int]:
    """Return the turn's number and the sequence of its event; of the first request if repeated."""
    match done.memo:
        case IdempotencyRecord(turn=int() as turn, sequence=sequence):
            return turn, sequence
        case _:
            return done.state.submitted, done.state.head.sequence
