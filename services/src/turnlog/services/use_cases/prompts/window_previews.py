"""Previews of a call's window: for now, an earlier sequence, or a turn that does not exist yet.

A preview assembles a call without recording anything or calling a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from turnlog.contract.prompt_requests import AssembleRequest, WindowPreviewRequest
from turnlog.contract.session_requests import OpenSessionRequest, SubmitTurnRequest
from turnlog.events.codec import format_rfc3339
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.events.model.prompt_events import PromptFile
from turnlog.events.store.memory_log import MemoryBlobStore
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.blueprint.validation.input_values import check_values
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.hypothetical_turn import (
    HypotheticalTurn,
    build_hypothetical_turn,
    open_hypothetical_session,
    replace_budget,
)
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.pinned_prompts import find_pinned_files
from turnlog.projections.session.state import SessionState
from turnlog.services.api.prompt_payloads import AssembledPromptView, WindowView, describe_messages
from turnlog.services.blueprints.blueprint_files import FoundPromptFile
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.guarded_requests import guard_request
from turnlog.services.media.turn_parts import TurnPartsIntake, place_parts
from turnlog.services.model_facts.model_prices import ModelPrices, compute_cost
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.sessions.prompt_inputs import UnrecordedInputs
from turnlog.services.sessions.time_travel import TimeTravel
from turnlog.services.use_cases.prompts.prompt_assemblies import (
    create_assembly_meta,
    join_messages,
)
from turnlog.services.use_cases.sessions.session_opening import OpeningCommandBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPreviews:
    """Assembles calls that are not made."""

    time_travel: TimeTravel
    blueprints: BlueprintStore
    opening_commands: OpeningCommandBuilder
    overrides: OverrideService
    prices: ModelPrices
    intake: TurnPartsIntake
    """Reads the parts of turns; here nothing is stored."""

    async def show_window(
        self,
        tenant: str,
        session: str,
        *,
        call: str | None = None,
        at: int | None = None,
        clock: datetime | None = None,
    ) -> WindowView:
        """Assemble a call without making it, and return its prompt and manifest.

        With `at`, it is the call that would have been made at that sequence: with the clock, the
        segment library and the prompt files of that time, as far as the session has pinned them
        since. `call` is its kind, by default that of the profile; `clock` is in UTC.
        """
        state, reading = await self._load_state(tenant, session, at)
        if clock is not None:
            reading = format_rfc3339(clock)
        material = await self.blueprints.load_material(state)
        prompt_call = replace(self._create_call(state, material, call, None), at=reading)
        found = await self.assemble_call(
            state, material, prompt_call, as_recorded=at is not None or clock is not None
        )
        return await self._create_window_view(state, material, prompt_call, found)

    async def preview_turn(
        self, caller: Caller, session: str, request: WindowPreviewRequest
    ) -> WindowView:
        """Assemble a call for a hypothetical turn; nothing is written and no model is called."""
        state = await self.time_travel.command_handler.require_state(caller.tenant, session)
        material = await self.blueprints.load_material(state)
        call, found = await self._assemble_hypothetical_call(caller, state, material, request)
        return await self._create_window_view(state, material, call, found)

    async def assemble_prompt(
        self, caller: Caller, request: AssembleRequest
    ) -> AssembledPromptView:
        """Assemble the first call of a session that has one turn; no model is called.

        Nothing is written. The segments are those of the library now, the prompt files as they are
        now.
        """
        unwritten = BlueprintStore(MemoryBlobStore())
        form = OpenSessionRequest(
            blueprint=request.blueprint, attributes=request.attributes, profile=request.profile
        )
        opening = await self.opening_commands.guard_opening(caller.tenant, form)
        command = await self.opening_commands.build_command(unwritten, caller.tenant, opening)
        now = self.time_travel.command_handler.clock()
        state = open_hypothetical_session(caller.tenant, command, now)
        material = await unwritten.load_material(state)
        call, found = await self._assemble_hypothetical_call(caller, state, material, request)
        return AssembledPromptView(
            prompt=join_messages(found.request),
            meta=create_assembly_meta(found.manifest),
            call=call.kind,
            model=call.model,
            messages=describe_messages(found.request.messages),
            tools=found.request.tools,
            manifest=found.manifest,
            cost=await self._estimate_cost(call, found),
        )

    async def _assemble_hypothetical_call(
        self,
        caller: Caller,
        state: SessionState,
        material: SessionMaterial,
        request: WindowPreviewRequest,
    ) -> tuple[PromptCall, AssembledPrompt]:
        supposed = await self._create_hypothetical_turn(caller, state, material, request)
        call = self._create_call(supposed.state, material, request.call, request.model)
        if request.budget is not None:
            material = replace_budget(material, call.kind, request.budget)
        return call, await self.assemble_call(supposed.state, material, call, supposed)

    async def _create_hypothetical_turn(
        self,
        caller: Caller,
        state: SessionState,
        material: SessionMaterial,
        request: WindowPreviewRequest,
    ) -> HypotheticalTurn:
        blueprint, user = material.blueprint, caller.choose_user(request.user)
        overrides = await self.overrides.list_turn_overrides(caller.tenant, user, blueprint)
        form = SubmitTurnRequest(text=request.text, parts=request.parts, inputs=request.inputs)
        described = await self.intake.read_parts(caller.tenant, form)
        guarded = await guard_request(blueprint.policies.input_safety, described.form)
        if guarded.refusal is not None:
            raise guarded.refusal
        form, parts = place_parts(guarded.form, described.parts)
        inputs = check_values(blueprint.inputs, form.inputs, "inputs")
        command = SubmitTurn(
            text=form.text,
            policies=blueprint.policies,
            phases=material.phases,
            inputs=inputs,
            user=user,
            overrides=overrides,
            parts=parts,
        )
        now = self.time_travel.command_handler.clock()
        return build_hypothetical_turn(state, command, now)

    async def _load_state(
        self, tenant: str, session: str, at: int | None
    ) -> tuple[SessionState, str]:
        """Return a state and the clock reading that belongs to it."""
        handler = self.time_travel.command_handler
        present = await handler.require_state(tenant, session)
        if at is None:
            return present, format_rfc3339(handler.clock())
        moment = await self.time_travel.load_state_at(tenant, session, at)
        state = await self._add_later_pins(moment.state_after, present)
        return state, moment.recorded.envelope.time

    async def _add_later_pins(self, state: SessionState, later: SessionState) -> SessionState:
        """Add the prompts and tools that were pinned later, before the move to a new version."""
        while later.attributes_in > state.attributes_in:
            moved = await self.time_travel.load_state_at(
                state.tenant, state.session, later.attributes_in
            )
            if moved.state_before is None:
                return state
            later = moved.state_before
        prompts, tools = {**later.prompts, **state.prompts}, {**later.tools, **state.tools}
        return replace(state, prompts=prompts, tools=tools)

    def _create_call(
        self,
        state: SessionState,
        material: SessionMaterial,
        kind: str | None,
        model: str | None,
    ) -> PromptCall:
        blueprint = material.blueprint
        kind = kind or material.find_call_kind(state)
        if kind not in blueprint.calls:
            fix = suggest_word(kind[:80], blueprint.calls)
            detail = f"there is no call {quote_sent_name(kind)}"
            raise Refused("unknown-kind", detail, field="call", fix=fix)
        resolved = model or material.resolve_model(state, self.opening_commands.default_model)
        return PromptCall(
            kind=kind, model=resolved, at=format_rfc3339(self.time_travel.command_handler.clock())
        )

    async def assemble_call(
        self,
        state: SessionState,
        material: SessionMaterial,
        call: PromptCall,
        hypothetical: HypotheticalTurn | None = None,
        *,
        as_recorded: bool = False,
    ) -> AssembledPrompt:
        """Assemble a call; with a hypothetical turn, from the state, text and inputs of that turn.

        Prompt files that the session has not pinned yet are read as they are now, because its first
        call would pin those. With `as_recorded`, the call gets the segment library of its time.
        """
        files = await self._read_unpinned_prompts(state, material.blueprint, call.provider)
        state = _pin_prompts(state, call.provider, files)
        texts = {compute_digest(text): text for _, text in files.values()}
        inputs = await self.time_travel.prompt_inputs.load_new_call(
            material, state, call, UnrecordedInputs(hypothetical, texts), at_call_time=as_recorded
        )
        return inputs.assemble_prompt()

    async def _read_unpinned_prompts(
        self, state: SessionState, blueprint: Blueprint, provider: str
    ) -> Mapping[str, FoundPromptFile]:
        """Return the prompt files that the session's first call would pin; none after that call."""
        layers = list_prompt_layers(blueprint)
        if not layers or find_pinned_files(state.prompts, provider) is not None:
            return {}
        folders = self.opening_commands.blueprint_folders.open_tenant(state.tenant)
        attributes = state.attributes
        return await run_in_thread(
            lambda: folders.read_prompt_files(blueprint, layers, provider, attributes)
        )

    async def _create_window_view(
        self,
        state: SessionState,
        material: SessionMaterial,
        call: PromptCall,
        assembled: AssembledPrompt,
    ) -> WindowView:
        return WindowView(
            session=state.session,
            sequence=state.head.sequence,
            call=call.kind,
            model=call.model,
            messages=describe_messages(assembled.request.messages),
            tools=assembled.request.tools,
            manifest=assembled.manifest,
            cost=await self._estimate_cost(call, assembled),
            turn_calls=material.list_call_kinds(state),
        )

    async def _estimate_cost(self, call: PromptCall, assembled: AssembledPrompt) -> AttemptCost:
        """Return the cost of the prompt alone."""
        tokens = assembled.manifest.tokens
        usage = TokenUsage(known="estimated", input_tokens=tokens, output_tokens=0)
        return compute_cost(call.model, usage, await self.prices.load_table())


def _pin_prompts(
    state: SessionState, provider: str, files: Mapping[str, FoundPromptFile]
) -> SessionState:
    if not files:
        return state
    pinned = {
        name: PromptFile(digest=compute_digest(text), path=path)
        for name, (path, text) in files.items()
    }
    return replace(state, prompts={**state.prompts, provider: pinned})
