"""Submitting turns: a result means that the turn is on the event log; a worker answers it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue

from turnlog.contract.session_requests import SubmitTurnRequest
from turnlog.events.content import encode_canonical
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused, TooLarge
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.manifest import RequestDialect
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.projections.blueprint.media_tokens import count_media_tokens
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.blueprint.storable_json import check_json
from turnlog.projections.blueprint.validation.input_values import check_values
from turnlog.projections.prompt.budget.admission_limits import (
    check_turn_media,
    check_turn_size,
    check_turn_text,
)
from turnlog.projections.prompt.planned_media import is_read_by
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.quotas.turn_bound import compute_turn_bound
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.open_turn import NOTHING_KEPT, CutReply
from turnlog.projections.session.rules.event_leaves import list_text_leaves
from turnlog.projections.session.state import IdempotencyRecord, SessionState
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.guarded_requests import GuardedRequest
from turnlog.services.identity.tenant_service import TenantPolicies, UnlimitedTenants
from turnlog.services.media.turn_parts import SubmittedParts, TurnPartsIntake, place_parts
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.sessions.command_handler import ChooseCommand, CommandHandler, CommandOutcome
from turnlog.services.sessions.cut_replies import CutReplyReader
from turnlog.services.sessions.request_guard import RequestGuard
from turnlog.services.tenants.model_permits import require_session_model
from turnlog.services.tenants.open_turns import OpenTurnLimits
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSubmitter:
    """Submits turns to sessions."""

    command_handler: CommandHandler
    blueprints: BlueprintStore
    overrides: OverrideService
    cut_replies: CutReplyReader
    default_model: str
    """The model of profiles that say `default`."""
    tenants: TenantPolicies = field(default_factory=UnlimitedTenants)
    """What each tenant may use."""
    open_turns: OpenTurnLimits = field(default_factory=OpenTurnLimits)
    """How many turns of each tenant may be open."""
    dialects: ModelDialects
    """What the servers of models take."""
    intake: TurnPartsIntake
    """Stores pictures, recordings and files."""
    most_bytes: int
    """Bytes of the largest request, without the bytes of its parts."""

    async def read_parts(
        self, tenant: str, request: SubmitTurnRequest, size: int
    ) -> SubmittedParts:
        """Read the parts that a request brings; `size` is that of its body.

        Raises `Refused` for a part that cannot be taken, and for a request that is too large
        without their bytes.
        """
        submitted = await self.intake.read_parts(tenant, request)
        if size > self.most_bytes:
            left = len(submitted.form.model_dump_json(exclude_defaults=True).encode())
            if left > self.most_bytes:
                raise TooLarge("body", left, self.most_bytes)
        return submitted

    async def submit_turn(
        self,
        caller: Caller,
        session: str,
        submitted: SubmittedParts,
        *,
        cursor: str | None = None,
    ) -> TurnOnLog:
        """Append a turn to a session, under the idempotency key of the caller.

        The bytes that it brings are stored right before that.
        `cursor` is the stream cursor of the caller; a new turn has none.
        """
        request = submitted.form
        check_json(request.references, "references")
        check_json(request.meta, "meta")
        check_json(request.metadata or {}, "metadata")
        user = caller.choose_user(request.user)
        guard = RequestGuard(self.command_handler, self.blueprints)

        async def submit(
            as_caller: Caller, guarded: GuardedRequest[SubmitTurnRequest]
        ) -> TurnOnLog:
            async def choose(state: SessionState | None) -> SubmitTurn:
                state = await guard.require_allowed(state, guarded)
                if cursor is not None:
                    raise create_cursor_refusal("this turn is new: nothing of it was sent before")
                if request.role != "system":
                    settings = await self.tenants.load_settings(caller.tenant)
                    await admission.require_room(settings)
                leaves = _list_part_leaves(state)
                return await self._build_command(
                    tenant=caller.tenant,
                    state=state,
                    guarded=guarded,
                    parts=await self.intake.seal_parts(caller.tenant, submitted, leaves),
                    user=user,
                )

            with self.open_turns.open_admission(caller.tenant) as admission:
                taken = await self._append_turn(as_caller, session, choose, submitted)
                admission.note_turn(taken.events)
                return taken

        return await guard.run_guarded(caller, session, request, submit)

    async def _append_turn(
        self, caller: Caller, session: str, choose: ChooseCommand, submitted: SubmittedParts
    ) -> TurnOnLog:
        async def store_parts(state: SessionState | None) -> None:
            await self.intake.store_parts(caller.tenant, submitted, _list_part_leaves(state))

        done = await self.command_handler.handle(
            caller.tenant,
            session,
            choose,
            caller.metadata,
            command=caller.command,
            before_append=store_parts,
        )
        turn, sequence = _find_submission(done)
        return TurnOnLog(done.state.session, turn, sequence, done.events)

    async def _build_command(
        self,
        tenant: str,
        state: SessionState,
        guarded: GuardedRequest[SubmitTurnRequest],
        parts: tuple[MediaPart, ...],
        user: str | None,
    ) -> SubmitTurn:
        material = await self.blueprints.load_material(state)
        request, placed = place_parts(guarded.form, parts)
        blueprint, is_system = material.blueprint, request.role == "system"
        model = material.resolve_model(state, self.default_model)
        if is_system:
            inputs = _check_system_turn(request)
        else:
            settings = await self.tenants.load_settings(tenant)
            require_session_model(settings, material, state, self.default_model)
            dialect = await self.dialects.find_request_dialect(model)
            inputs = _check_turn_inputs(
                material=material,
                state=state,
                request=request,
                parts=placed,
                model=model,
                dialect=dialect,
            )
        media_tokens = sum(count_media_tokens(each, model) for each in placed)
        return SubmitTurn(
            text=request.text,
            policies=blueprint.policies,
            phases=material.phases,
            inputs=inputs,
            references=request.references,
            meta=_choose_meta(request),
            remembered=material.has_memory,
            role=request.role or "user",
            user=user,
            bound=None
            if is_system
            else compute_turn_bound(blueprint, state.profile, inputs, media_tokens),
            has_fallback=_has_fallback(material, state, request.text),
            overrides=await self.overrides.list_turn_overrides(
                tenant, None if is_system else user, blueprint
            ),
            findings=guarded.findings,
            parts=placed,
            cut=await self._read_interrupted_reply(state, blueprint.policies),
        )

    async def _read_interrupted_reply(self, state: SessionState, policies: Policies) -> CutReply:
        if policies.second_submit != "interrupt":
            return NOTHING_KEPT
        return await self.cut_replies.read_cut_reply(state)


def _list_part_leaves(state: SessionState | None) -> LeafSets | None:
    """Return the keys of the parts of a session's next turn; None if it is not sealed."""
    return list_text_leaves(state, state.submitted + 1) if state else None


def _check_turn_inputs(
    material: SessionMaterial,
    state: SessionState,
    request: SubmitTurnRequest,
    parts: tuple[MediaPart, ...],
    model: str,
    dialect: RequestDialect,
) -> dict[str, JsonValue]:
    """Return the inputs of a user's turn, which has room in the prompts of its calls."""
    inputs = check_values(material.blueprint.inputs, request.inputs, "inputs")
    text, context_tokens = request.text, dialect.context_tokens
    check_turn_text(
        material=material,
        state=state,
        text=text,
        inputs=inputs,
        model=model,
        context_tokens=context_tokens,
    )
    read = (each for each in parts if is_read_by(each, dialect))
    media_tokens = sum(count_media_tokens(each, model) for each in read)
    check_turn_media(material, state, media_tokens, inputs)
    check_turn_size(
        material=material,
        state=state,
        text=text,
        media_tokens=media_tokens,
        inputs=inputs,
        model=model,
        context_tokens=context_tokens,
    )
    return inputs


def _choose_meta(request: SubmitTurnRequest) -> dict[str, JsonValue]:
    """Return what was sent as `meta` or as `metadata`; refuse two values that differ."""
    if request.metadata is None:
        return request.meta
    if request.meta and encode_canonical(request.meta) != encode_canonical(request.metadata):
        detail = "`meta` and `metadata` are the same field, and their values differ"
        raise Refused("invalid", detail, field="metadata", fix="send one of them")
    return request.metadata


def _has_fallback(material: SessionMaterial, state: SessionState, text: str | None) -> bool:
    """Return whether the resolver's answer may stand for that of the turn's first call."""
    first = material.blueprint.calls[material.list_call_kinds(state)[0]]
    return text is not None and first.fallback is not None


def _check_system_turn(request: SubmitTurnRequest) -> dict[str, JsonValue]:
    """Return no inputs; refuse what only a turn with calls can have."""
    others = {"inputs": request.inputs, "references": request.references, "parts": request.parts}
    for name, value in others.items():
        if value:
            what = f"a turn of the system has no {name}"
            raise Refused("invalid", what, field=name, fix="leave it out")
    return {}


def _find_submission(done: CommandOutcome) -> tuple[int, int]:
    """Return the turn's number and the sequence of its event; of the first request if repeated."""
    match done.memo:
        case IdempotencyRecord(turn=int() as turn, sequence=sequence):
            return turn, sequence
        case _:
            return done.state.submitted, done.state.head.sequence
