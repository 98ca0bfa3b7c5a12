"""The prompt of a call: pin prompt files, assemble the prompt, record the manifest.

A later attempt resends the recorded request as long as assembling it again gives the same digests.
If something that it was made from has changed, or another adapter writes the body, it becomes a new
call that names the one it supersedes. The module also loads what the call has of the previous turn
and of its own work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import structlog

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import Manifest
from turnlog.events.model.prompt_events import PromptFile, ProviderPrompts
from turnlog.events.store.ports import TurnBlobStore
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.layer_specs import (
    FileLayer,
    PinnedLayer,
    ResultsLayer,
    SourceLayer,
)
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.prompt.assemble import PlannedPrompt, fit_prompt
from turnlog.projections.prompt.assembly_inputs import (
    AssembledPrompt,
    PromptCall,
    parse_provider,
)
from turnlog.projections.prompt.budget.admission_limits import keep_fixed_parts
from turnlog.projections.prompt.budget.call_limits import find_call_limits
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.message_media import NO_BYTES, MediaBytes
from turnlog.projections.prompt.sources.prior_results import find_prior_results, label_results
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.prompt.sources.tool_sources import find_tool_snapshot
from turnlog.projections.session.commands import AttemptRef, FixContext, SnapshotPrompts
from turnlog.projections.session.open_turn import (
    OpenTurn,
    PromptedCall,
    is_before_first_call,
)
from turnlog.projections.session.pinned_prompts import ANY_PROVIDER, find_pinned_files
from turnlog.projections.session.rules.attempt_events import find_claimed_turn
from turnlog.projections.session.rules.steps.summary_rules import WITHDRAWN_DETAIL
from turnlog.projections.session.state import SessionState
from turnlog.projections.tools.result_condensation import format_turn_work
from turnlog.projections.tools.step_tools import StepToolRoom
from turnlog.services.blueprints.blueprint_files import FoundPromptFile, is_provider_specific
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.text_cache import TextReader, read_event
from turnlog.services.extensions.plugins import load_source
from turnlog.services.identity.tenant_service import TenantPolicies, UnlimitedTenants
from turnlog.services.platform.concurrency import run_in_thread, run_text_work
from turnlog.services.platform.process_settings import MODEL_OFF
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import PromptInputLoader, PromptInputs
from turnlog.services.tenants.model_permits import require_session_model
from turnlog.services.worker.media_room import MediaRoom, MediaShare
from turnlog.services.worker.model.model_types import ModelFailure
from turnlog.services.worker.turn_context import (
    AttemptSuperseded,
    TurnContext,
    append_command,
)

_log = structlog.get_logger("turnlog.worker")

JOINT_TOKENS: Final = 16
"""Tokens kept free where the goal of a step joins the other texts of its message."""


@dataclass(frozen=True, slots=True)
class _FirstFiles:
    """The prompt files that a session pins at its first call."""

    common: dict[str, FoundPromptFile]
    """Those that every provider has."""
    own: dict[str, FoundPromptFile]
    """Those of the call's provider."""
    providers: tuple[str, ...]
    """The providers that have files of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A call that is on the log and may be made."""

    attempt: AttemptRef
    request: ChatRequest
    manifest: Manifest
    body: bytes | None
    """The body whose digest was recorded; None where litellm writes it."""
    media: MediaBytes
    """The bytes of its pictures, recordings and files; empty where they are in the body."""

    @property
    def media_size(self) -> int:
        """Number of these bytes."""
        return sum(map(len, self.media.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContextBuilder:
    """Prepares the prompts of calls."""

    sessions: CommandHandler
    blueprints: BlueprintStore
    blobs: TurnBlobStore
    library: BlueprintFolders
    prompt_inputs: PromptInputLoader
    default_model: str
    tenants: TenantPolicies = field(default_factory=UnlimitedTenants)
    """What each tenant may use."""
    sends_body: Callable[[str], bool] = lambda _: False
    """Returns whether the server of a model is sent the recorded request byte for byte."""
    media_room: MediaRoom = field(default_factory=MediaRoom)
    """Room for what all calls of the process send."""
    answer_room: MediaRoom = field(default_factory=MediaRoom)
    result_room: MediaRoom = field(default_factory=MediaRoom)
    """Room for results of tools that have arrived."""
    """Room for what comes with their answers."""

    async def prepare_call(
        self, context: TurnContext, planned: PlannedPrompt | None, share: MediaShare
    ) -> PreparedCall:
        """Pin prompt files if needed, assemble the prompt and record it.

        `planned` is the prompt if it was planned before; it is used while nothing else was
        appended. Waits until there is room for the prompt's media, which `share` takes. Raises
        `AttemptSuperseded` if the attempt lost its lease. Before anything is recorded, raises
        `ModelFailure` if there is no model, and `Refused`: with `model-not-allowed` if the tenant
        may not use it, with `withdrawn` if the call is for a summary of turns of which one was
        taken back.
        """
        model = self.resolve_model(context)
        if model == MODEL_OFF:
            raise ModelFailure("model_off", "there is no model to ask")
        settings = await self.tenants.load_settings(context.tenant)
        require_session_model(settings, context.material, context.state, self.default_model)
        call = self._create_call(context.material.find_call_kind(context.state), model)
        context = await self._pin_prompts(context, call.provider)
        prepared = await self._record_context(context, call, planned, share)
        while prepared is None:
            # Outside of the command, which keeps other commands of the session waiting.
            _log.info("call-waits-for-room", session=context.session, bytes=share.missing)
            await share.wait_for_room()
            prepared = await self._record_context(context, call, planned, share)
        return prepared

    async def check_room(self, context: TurnContext) -> TurnContext:
        """Refuse a turn of several calls, before the first, if what is fixed in one cannot fit.

        Prompt files are pinned then. Raises `BudgetExceeded` with the sizes.
        """
        opened, kinds = context.state.open, context.material.list_call_kinds(context.state)
        model = self.resolve_model(context)
        is_at_start = opened is not None and is_before_first_call(opened)
        if not is_at_start or len(kinds) == 1 or model == MODEL_OFF:
            return context
        context = await self._pin_prompts(context, parse_provider(model))
        for kind in kinds:
            await self._assemble_fixed_parts(context, kind, model)
        return context

    async def _assemble_fixed_parts(
        self, context: TurnContext, kind: str, model: str
    ) -> AssembledPrompt:
        """Assemble a later call of the turn from what it must contain."""
        call = replace(self._create_call(kind, model), is_foreseen=True)
        bare = keep_fixed_parts(context.material, kind)
        return (await self.prompt_inputs.load_new_call(bare, context.state, call)).assemble_prompt()

    async def plan_next_call(self, context: TurnContext) -> tuple[TurnContext, PlannedPrompt]:
        """Return the next call before it is fitted to its budget, after pinning prompt files."""
        kind = context.material.find_call_kind(context.state)
        call = self._create_call(kind, self.resolve_model(context))
        context = await self._pin_prompts(context, call.provider)
        inputs = await self.prompt_inputs.load_new_call(context.material, context.state, call)
        return context, inputs.fill_prompt()

    def resolve_model(self, context: TurnContext) -> str:
        """Return the model of the session, as litellm spells it."""
        return context.material.resolve_model(context.state, self.default_model)

    async def find_context_tokens(self, context: TurnContext) -> int | None:
        """Return what that model takes by a file of dialects; None if none says so."""
        model = self.resolve_model(context)
        return None if model == MODEL_OFF else await self.prompt_inputs.find_context_tokens(model)

    def _create_call(self, kind: str, model: str) -> PromptCall:
        return PromptCall(kind=kind, model=model, at=format_rfc3339(self.sessions.clock()))

    async def measure_tool_room(self, context: TurnContext) -> StepToolRoom | None:
        """Return what the steps of a plan have room for; None if nothing limits their tools."""
        material, state = context.material, context.state
        blueprint, taken = material.blueprint, find_tool_snapshot(material, state)
        kind = blueprint.profiles[state.profile].act
        spec = blueprint.calls.get(kind or "")
        model = self.resolve_model(context)
        if kind is None or spec is None or spec.budget is None or taken is None:
            return None
        if "for_step" not in spec.tools or model == MODEL_OFF:
            return None
        context = await self._pin_prompts(context, parse_provider(model))
        manifest = (await self._assemble_fixed_parts(context, kind, model)).manifest
        room = (manifest.budget or 0) - manifest.tokens - JOINT_TOKENS
        digests = {name: pin.digest for name, pin in taken.tools.items()}
        texts = await self.sessions.texts.read_blobs(context.tenant, set(digests.values()))
        counting = find_call_limits(material, state, kind, model, context_tokens=None).counting

        def count() -> dict[str, int]:
            return {name: counting.count_tokens(texts[each]) for name, each in digests.items()}

        sizes = await run_text_work(count, sum(map(len, texts.values())))
        return StepToolRoom(room, sizes, counting)

    async def _pin_prompts(self, context: TurnContext, provider: str) -> TurnContext:
        """Pin the prompt files of a provider, once a session."""
        layers = context.material.blueprint.layers.values()
        is_pinned = find_pinned_files(context.state.prompts, provider) is not None
        if is_pinned or not any(isinstance(each, PinnedLayer) for each in layers):
            return context
        return await append_command(
            self.sessions, context, await self._read_prompts(context, provider)
        )

    async def _read_prompts(self, context: TurnContext, provider: str) -> SnapshotPrompts:
        """Read the files of the call's provider, and where those of any other one differ.

        What a session pinned for another provider stays where it does not depend on the provider.
        """
        state, blueprint = context.state, context.material.blueprint
        prompt_layers = list_prompt_layers(blueprint)
        own = {
            name: each
            for name, each in prompt_layers.items()
            if is_provider_specific(blueprint, each)
        }
        common = {name: each for name, each in prompt_layers.items() if name not in own}
        found = await self._read_first_files(
            state, blueprint, {} if state.prompts else common, own=own, provider=provider
        )
        if state.prompts:
            before = next(iter(state.prompts.values()))
            files = {name: file for name, file in before.items() if name not in own}
        else:
            files = await self._store_prompts(
                state, found.common | await _fetch_source_texts(state, blueprint)
            )
        files |= await self._store_prompts(state, found.own)
        others: dict[str, ProviderPrompts] = {}
        for name in (*found.providers, ANY_PROVIDER):
            if name == provider:
                continue
            try:
                its_own = await self._read_files(state, blueprint, own, name)
            except Refused:
                continue  # Its first call is refused, or reads what is there by then.
            stored = await self._store_prompts(state, its_own)
            others[name] = ProviderPrompts(
                layers={layer: file for layer, file in stored.items() if files.get(layer) != file},
                without=tuple(sorted(found.own.keys() - its_own.keys())),
            )
        return SnapshotPrompts(context.attempt, provider, files, others)

    async def _read_first_files(
        self,
        state: SessionState,
        blueprint: Blueprint,
        common: Mapping[str, FileLayer],
        *,
        own: Mapping[str, FileLayer],
        provider: str,
    ) -> _FirstFiles:
        """Read what a session pins at its first call, all in one thread.

        To begin a thread for each costs more than to read the files of most blueprints.
        """
        layers, attributes = list_prompt_layers(blueprint), state.attributes
        if not layers:
            return _FirstFiles({}, {}, ())

        def read() -> _FirstFiles:
            files = self.library.open_tenant(state.tenant).open_files(blueprint.blueprint)
            return _FirstFiles(
                files.read_prompt_files(blueprint, common, provider, attributes),
                files.read_prompt_files(blueprint, own, provider, attributes),
                files.list_providers(blueprint, layers, attributes),
            )

        return await run_in_thread(read)

    async def _read_files(
        self,
        state: SessionState,
        blueprint: Blueprint,
        layers: Mapping[str, FileLayer],
        provider: str,
    ) -> dict[str, FoundPromptFile]:
        if not layers:
            return {}
        read = self.library.open_tenant(state.tenant).read_prompt_files
        attributes = state.attributes
        return await run_in_thread(lambda: read(blueprint, layers, provider, attributes))

    async def _store_prompts(
        self, state: SessionState, found: Mapping[str, FoundPromptFile]
    ) -> dict[str, PromptFile]:
        stored = await asyncio.gather(
            *(self.blobs.put_blob(state.tenant, text.encode()) for _, text in found.values())
        )
        return {
            name: PromptFile(digest=digest, path=path)
            for (name, (path, _)), digest in zip(found.items(), stored, strict=True)
        }

    async def _record_context(
        self,
        context: TurnContext,
        call: PromptCall,
        planned: PlannedPrompt | None,
        share: MediaShare,
    ) -> PreparedCall | None:
        """Record the prompt; None if there is no room for its media, of which nothing is read."""
        attempt = context.attempt
        prepared: PreparedCall | None = None

        async def choose(state: SessionState | None) -> FixContext | None:
            nonlocal prepared
            prepared = None
            opened = find_claimed_turn(state, attempt) if state else None
            if state is None or opened is None:
                raise AttemptSuperseded
            if opened.summing and opened.summing.withdrawn:
                # Nothing may be left of what it was to summarise, and it would be discarded.
                raise Refused("withdrawn", WITHDRAWN_DETAIL)
            recorded = await self._read_recorded_context(state, opened)
            if planned and recorded is None and _is_planned_from(planned, state):
                assembled = fit_prompt(planned)
            else:
                inputs = await self._load_inputs(state, recorded, context.material, call)
                assembled = inputs.assemble_prompt()
            if not share.try_reserve(sum(each.size for each in assembled.request.media)):
                return None
            media = await self._read_media(state.tenant, assembled.request)
            body = await self._write_body(assembled.request, media)
            body_digest = None if body is None else compute_digest(body)
            digests = (assembled.manifest.digest, body_digest)
            is_same = recorded and (recorded.manifest.digest, recorded.body_digest) == digests
            is_other = recorded is not None and not is_same
            number = opened.call.next_number if is_other else opened.call.number
            named = replace(attempt, call=f"{opened.turn}.{number}")
            prepared = PreparedCall(
                attempt=named,
                request=assembled.request,
                manifest=assembled.manifest,
                body=body,
                media=media if body is None else NO_BYTES,
            )
            if is_same:
                return None
            return FixContext(
                attempt=named,
                model=call.model,
                parameters=dict(assembled.request.parameters),
                manifest=assembled.manifest,
                supersedes=attempt.call if recorded else None,
                body_digest=body_digest,
            )

        await self.sessions.handle(context.tenant, context.session, choose, context.by)
        if prepared is None and not share.missing:
            raise AttemptSuperseded
        return prepared

    async def _read_media(self, tenant: str, request: ChatRequest) -> MediaBytes:
        digests = [each.digest for each in request.media]
        return await self.sessions.texts.media.read_media(tenant, digests) if digests else NO_BYTES

    async def _write_body(self, request: ChatRequest, media: MediaBytes) -> bytes | None:
        """Return the body that is sent as it is, or None where litellm writes it."""
        if not self.sends_body(request.model):
            return None
        length = sum(map(len, media.values()))
        return await run_text_work(partial(request.build_chat_body, media), length)

    async def _read_recorded_context(
        self, state: SessionState, opened: OpenTurn
    ) -> ContextAssembled | None:
        if not isinstance(opened.call, PromptedCall):
            return None
        place, log = opened.call.manifest.place, self.sessions.log
        return await read_event(log, state.tenant, place, ContextAssembled)

    async def _load_inputs(
        self,
        state: SessionState,
        recorded: ContextAssembled | None,
        material: SessionMaterial,
        call: PromptCall,
    ) -> PromptInputs:
        """Load what the call is recorded with, or the present inputs if it is new."""
        if recorded is None:
            return await self.prompt_inputs.load_new_call(material, state, call)
        return await self.prompt_inputs.load_recorded_call(material, state, call, recorded.manifest)


def _is_planned_from(planned: PlannedPrompt, state: SessionState) -> bool:
    """Return whether a prompt was planned from this state, older turns perhaps folded again."""
    return planned.unfilled.state.head == state.head


async def _fetch_source_texts(
    state: SessionState, blueprint: Blueprint
) -> dict[str, FoundPromptFile]:
    """Return the texts of registered sources by layer, each with the name of its source."""
    found: dict[str, FoundPromptFile] = {}
    for name, layer in blueprint.layers.items():
        if isinstance(layer, SourceLayer):
            # The import of its package may take any time.
            source = await run_in_thread(partial(load_source, layer.source))
            text = await source(state.session, state.attributes)
            found |= {name: (f"source:{layer.source}", text)} if text else {}
    return found


def list_prior_results(material: SessionMaterial, state: SessionState) -> dict[str, int]:
    """Return the results that the next call may reuse, each with its event sequence."""
    blueprint = material.blueprint
    layers = blueprint.calls[material.find_call_kind(state)].layers
    if not any(isinstance(blueprint.layers.get(name), ResultsLayer) for name in layers):
        return {}
    results = find_prior_results(material, state).results
    return {name: result.said.sequence for name, result in label_results(results)}


async def describe_turn_work(
    texts: TextReader, tenant: str, opened: OpenTurn, blueprint: Blueprint
) -> str | None:
    """Describe how a turn was worked out; None if no later prompt shows it."""
    has_steps = opened.plan is not None and opened.plan.steps
    if not (has_steps or opened.tools) or not any(
        blueprint.resolve_view(name).of == "work" for name in blueprint.history
    ):
        return None
    goals = [step.goal for step in opened.plan.steps] if opened.plan else []
    result_refs = [use.result.summary for use in opened.tools if use.result]
    found = await texts.read_texts(tenant, (*goals, *result_refs))
    return format_turn_work([found[goal] for goal in goals], [found[ref] for ref in result_refs])
