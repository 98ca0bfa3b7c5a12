"""Moving a session to the present version of its blueprint's files, from its next call on.

The files are read from disk and not from the request. They are checked against the session and
pinned before the event is appended; the next call pins prompt files, as after opening.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pydantic import JsonValue

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.session_events import BlueprintMoved, BlueprintRef
from turnlog.projections.blueprint.loading.cartridge_source import Cartridge
from turnlog.projections.blueprint.schema.blueprint_model import (
    Blueprint,
    compute_blueprint_digest,
    compute_history_reach,
    encode_blueprint,
)
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint
from turnlog.projections.blueprint.validation.input_values import check_recorded_values
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import MoveBlueprint
from turnlog.projections.session.decide import refuse_unknown_session
from turnlog.projections.session.pinned_prompts import find_pinned_files
from turnlog.projections.session.rules.upgrade_rules import build_misfit, move_blueprint
from turnlog.projections.session.state import SessionState
from turnlog.services.api.service_payloads import BlueprintMovePreview, BlueprintMoveResult
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import (
    BlueprintStore,
    build_blueprint_ref,
    encode_cartridge,
    encode_memory_policy,
)
from turnlog.services.command_handling.callers import Caller
from turnlog.services.extensions.plugins import check_plugins_registered
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.sessions.command_handler import CommandOutcome
from turnlog.services.sessions.orphaned_children import list_children_left
from turnlog.services.sessions.time_travel import TimeTravel


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedMove:
    """A move with the texts that the session will be pinned to, which may not be stored yet."""

    command: MoveBlueprint
    texts: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class BlueprintMoves:
    """Moves sessions to other versions of their blueprints."""

    time_travel: TimeTravel
    blueprints: BlueprintStore
    blueprint_folders: BlueprintFolders

    async def move_session(
        self, caller: Caller, session: str, expected: Digest | None = None
    ) -> BlueprintMoveResult:
        """Move a session; `expected` is the digest that the present files must have."""

        async def choose(state: SessionState | None) -> MoveBlueprint:
            if state is None:
                raise refuse_unknown_session()
            planned = await self._plan_move(state, expected)
            for text in planned.texts:
                await self.blueprints.blobs.put_blob(caller.tenant, text)
            return planned.command

        outcome = await self.time_travel.command_handler.handle(
            caller.tenant, session, choose, caller.metadata, command=caller.command
        )
        sequence = outcome.memo.sequence if outcome.memo else outcome.state.head.sequence
        blueprint = await self._load_moved_blueprint(outcome, sequence)
        return BlueprintMoveResult(
            session=session,
            sequence=sequence,
            moved=bool(outcome.events or outcome.memo),
            blueprint=blueprint.name,
            version=blueprint.version,
            digest=blueprint.digest,
            children_left=await list_children_left(self.time_travel.command_handler, outcome.state),
        )

    async def preview_move(self, tenant: str, session: str) -> BlueprintMovePreview:
        """Return what `move_session` would do; raises `Refused` as it would. Nothing is written."""
        state = await self.time_travel.command_handler.require_state(tenant, session)
        planned = await self._plan_move(state)
        events = move_blueprint(state, planned.command)
        before, blueprint = state.blueprint, planned.command.blueprint
        return BlueprintMovePreview(
            session=session,
            sequence=state.head.sequence,
            moves=bool(events),
            blueprint=blueprint.name,
            version=blueprint.version,
            digest=blueprint.digest,
            version_before=before.version,
            digest_before=before.digest,
        )

    async def _load_moved_blueprint(self, done: CommandOutcome, sequence: int) -> BlueprintRef:
        """Return the version it was moved to; of the first request when it was repeated."""
        state = done.state
        if done.memo is None:
            return state.blueprint
        moved = (await self.time_travel.load_event(state.tenant, state.session, sequence)).event
        return moved.blueprint if isinstance(moved, BlueprintMoved) else state.blueprint

    async def _plan_move(self, state: SessionState, expected: Digest | None = None) -> _PlannedMove:
        folders = self.blueprint_folders.open_tenant(state.tenant)
        load = partial(folders.load_blueprint, state.blueprint.name)
        blueprint = await run_in_thread(load)
        check_plugins_registered(blueprint)
        digest = compute_blueprint_digest(blueprint)
        if expected not in {None, digest}:
            detail = f"the files are version {blueprint.version}, {digest}"
            fix = "read the blueprint, then send its digest"
            raise Refused("blueprint-changed", detail, field="digest", fix=fix)
        leaving = await self.blueprints.load_material(state)
        return await run_in_thread(lambda: self._read_move(state, leaving, blueprint))

    def _read_move(
        self, state: SessionState, leaving: SessionMaterial, blueprint: Blueprint
    ) -> _PlannedMove:
        folders = self.blueprint_folders.open_tenant(state.tenant)
        attributes, cartridge = self._convert_attributes(
            folders=folders,
            leaving=leaving.blueprint,
            blueprint=blueprint,
            attributes=state.attributes,
        )
        policy = folders.read_memory_policy(blueprint)
        missing = folders.open_files(blueprint.blueprint).check_chosen_files(blueprint, attributes)
        material = SessionMaterial(
            blueprint=blueprint, cartridge=cartridge or {}, memory=policy.policy if policy else None
        )
        cartridge_text = None if cartridge is None else encode_cartridge(cartridge)
        policy_text = encode_memory_policy(policy.policy) if policy else None
        command = MoveBlueprint(
            blueprint=build_blueprint_ref(blueprint),
            reach=compute_history_reach(blueprint),
            attributes=attributes,
            profiles=blueprint.profiles,
            allowed_models=blueprint.allowed_models,
            current_phases=leaving.phases,
            phases=material.phases,
            cartridge=None if cartridge_text is None else compute_digest(cartridge_text),
            memory=None if policy_text is None else compute_digest(policy_text),
            warnings=(*(policy.warnings if policy else ()), *missing),
            stale=self._has_stale_prompts(blueprint, state, attributes),
        )
        texts = (encode_blueprint(blueprint), cartridge_text, policy_text)
        return _PlannedMove(
            command=command, texts=tuple(text for text in texts if text is not None)
        )

    def _convert_attributes(
        self,
        folders: BlueprintFolders,
        leaving: Blueprint,
        blueprint: Blueprint,
        attributes: Mapping[str, JsonValue],
    ) -> tuple[dict[str, JsonValue], Cartridge | None]:
        """Return the converted attributes and their cartridge.

        Raises `Refused` when they do not fit.
        """
        try:
            attributes = check_recorded_values(
                leaving.attributes, blueprint.attributes, attributes, "attributes"
            )
            return attributes, folders.read_cartridge(blueprint, attributes)
        except FaultyBlueprint:
            raise
        except Refused as refused:
            field = refused.field or "attributes"
            raise build_misfit(refused.detail, field, refused.fix) from None

    def _has_stale_prompts(
        self, blueprint: Blueprint, state: SessionState, attributes: Mapping[str, JsonValue]
    ) -> bool:
        """Return whether prompt files differ from the pinned ones.

        Raises `Refused` when a required file is missing.
        """
        layers = list_prompt_layers(blueprint)
        files = self.blueprint_folders.open_tenant(state.tenant).open_files(blueprint.blueprint)
        known = files.list_providers(blueprint, layers, attributes)
        stale = False
        for provider in (*state.prompts, *(each for each in known if each not in state.prompts)):
            pinned = find_pinned_files(state.prompts, provider)
            if pinned is None:
                continue
            found = files.read_prompt_files(blueprint, layers, provider, attributes)
            now = {name: compute_digest(text) for name, (_, text) in found.items()}
            was = {
                n: file.digest for n, file in pinned.items() if not file.path.startswith("source:")
            }
            stale = stale or now != was
        return stale
