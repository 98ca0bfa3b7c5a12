"""Opening sessions: under an id, or under a key by which a session is found or opened.

Everything that a session is made from is read, checked and pinned before its first event is
appended. Two processes that open the same key at the same time open one session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import structlog

from turnlog.contract.session_payloads import OpenedSession
from turnlog.contract.session_requests import OpenSessionRequest
from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id
from turnlog.events.model.session_events import SessionOpened
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.blueprint.validation.input_values import (
    check_session_key,
    check_values,
    compute_session_id,
)
from turnlog.projections.prompt.assembly_inputs import parse_provider
from turnlog.projections.prompt.budget.admission_limits import check_attribute_texts
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.session_description import SessionDescription
from turnlog.projections.session.state import SessionState
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.guarded_requests import GuardedRequest, guard_request
from turnlog.services.extensions.plugins import check_plugins_registered, collect_installed
from turnlog.services.extensions.tokenizers import load_vocabularies
from turnlog.services.identity.tenant_service import TenantPolicies, UnlimitedTenants
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.process_settings import MODEL_OFF
from turnlog.services.sessions.command_handler import CommandOutcome
from turnlog.services.sessions.time_travel import TimeTravel
from turnlog.services.tenants.model_permits import require_profile_models

_log = structlog.get_logger("turnlog.gateway")


@dataclass(frozen=True, slots=True)
class GuardedOpening:
    """A request to open a session, as the rules of its blueprint leave it."""

    guarded: GuardedRequest[OpenSessionRequest]
    blueprint: Blueprint | None
    """The blueprint that has those rules; None if the request is refused without it."""

    def require_allowed(self) -> tuple[Blueprint, OpenSessionRequest]:
        """Return the blueprint and the request as it may be recorded; raise its refusal."""
        if self.guarded.refusal is not None:
            raise self.guarded.refusal
        if self.blueprint is None:
            raise AssertionError("a request without a blueprint has a refusal")
        return self.blueprint, self.guarded.form


@dataclass(frozen=True, slots=True)
class OpeningCommandBuilder:
    """Builds the command that opens a session, with all its files read and pinned."""

    blueprint_folders: BlueprintFolders
    default_model: str
    """The model of profiles that say `default`."""
    tenants: TenantPolicies = field(default_factory=UnlimitedTenants)
    """What each tenant may use."""

    async def guard_opening(self, tenant: str, request: OpenSessionRequest) -> GuardedOpening:
        """Apply the rules of the blueprint to what people wrote in a request."""
        try:
            folders = self.blueprint_folders.open_tenant(tenant)
            load = partial(folders.load_offered_blueprint, request.blueprint)
            blueprint = await run_in_thread(load)
        except Refused as refusal:
            return GuardedOpening(GuardedRequest(rules=(), form=request, refusal=refusal), None)
        rules = blueprint.policies.input_safety
        return GuardedOpening(await guard_request(rules, request), blueprint)

    async def build_command(
        self,
        store: BlueprintStore,
        tenant: str,
        opening: GuardedOpening,
        key: Mapping[str, str] | None = None,
        owner: str | None = None,
    ) -> OpenSession:
        """Return the command that opens a session of a user; the files are pinned in `store`.

        Raises `Refused` when the request does not fit the blueprint.
        """
        folders = self.blueprint_folders.open_tenant(tenant)
        blueprint, request = opening.require_allowed()
        check_plugins_registered(blueprint)
        _require_known_profile(blueprint, request.profile)
        await self._require_allowed_models(tenant, blueprint, request.profile)
        attributes = check_values(blueprint.attributes, request.attributes, "attributes")
        await load_vocabularies(blueprint)
        installed = collect_installed()
        check_attribute_texts(blueprint, attributes, installed.vocabularies, self.default_model)
        provider = self._find_provider(blueprint, request.profile)
        cartridge, missing, read = await run_in_thread(
            lambda: (
                folders.read_cartridge(blueprint, attributes),
                folders.open_files(blueprint.blueprint).check_chosen_files(
                    blueprint, attributes, provider
                ),
                folders.read_memory_policy(blueprint),
            )
        )
        material = SessionMaterial(
            blueprint=blueprint, cartridge=cartridge or {}, memory=read.policy if read else None
        )
        _log_unknown_levels(material)
        faults = read.warnings if read else ()
        _log_warnings(blueprint, "memory-policy-faulty", faults)
        _log_warnings(blueprint, "prompt-file-missing", missing)
        return OpenSession(
            blueprint=await store.store_blueprint(tenant, blueprint),
            profile=blueprint.default_profile,
            reach=compute_history_reach(blueprint),
            attributes=attributes,
            cartridge=None if cartridge is None else await store.store_cartridge(tenant, cartridge),
            phases=material.phases,
            key=dict(key or {}),
            memory=await store.store_memory_policy(tenant, read.policy) if read else None,
            warnings=(*faults, *missing),
            requested_profile=request.profile,
            owner=owner,
            description=SessionDescription(
                title=request.title,
                labels=None if request.labels is None else tuple(request.labels),
                metadata=request.metadata,
            ),
        )

    async def _require_allowed_models(
        self, tenant: str, blueprint: Blueprint, profile: str | None
    ) -> None:
        settings = await self.tenants.load_settings(tenant)
        chosen = profile or blueprint.default_profile
        require_profile_models(settings, blueprint, chosen, self.default_model)

    def _find_provider(self, blueprint: Blueprint, profile: str | None) -> str | None:
        """Return whose prompt files the session begins with; None if no model is called."""
        named = blueprint.profiles[profile or blueprint.default_profile].model
        model = self.default_model if named == "default" else named
        return None if model == MODEL_OFF else parse_provider(model)


def _log_unknown_levels(material: SessionMaterial) -> None:
    for level in material.unknown_context_levels:
        _log.warning("context-level-unknown", context=level, blueprint=material.blueprint.blueprint)


def _log_warnings(blueprint: Blueprint, name: str, warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        _log.warning(name, fault=warning, blueprint=blueprint.blueprint)


def _require_known_profile(blueprint: Blueprint, name: str | None) -> None:
    if name is not None and name not in blueprint.profiles:
        fix = suggest_word(name, blueprint.profiles)
        detail = f"there is no {quote_sent_name(name)}"
        raise Refused("unknown-profile", detail, field="profile", fix=fix)


@dataclass(frozen=True, slots=True)
class OpeningOutcome:
    """A session that a request opened, or found by its key."""

    session: OpenedSession
    is_found: bool = False
    """Whether it was open already under the key of the request."""


@dataclass(frozen=True, slots=True)
class SessionOpening:
    """Opens sessions."""

    time_travel: TimeTravel
    blueprints: BlueprintStore
    commands: OpeningCommandBuilder

    async def open_session(self, caller: Caller, request: OpenSessionRequest) -> OpeningOutcome:
        """Open a session of a blueprint, or find one by a key that the blueprint declares.

        With an idempotency key and without an id, a retry finds the session of the first request.
        """
        if request.key is not None:
            return await self._open_by_key(caller, request, request.key)
        handler = self.time_travel.command_handler
        default_id = caller.derive_session_id() or handler.create_id()
        session = validate_id(default_id if request.session is None else request.session, "session")
        owner = caller.choose_user(request.user)
        opening = await self.commands.guard_opening(caller.tenant, request)
        caller = opening.guarded.create_caller(caller)

        async def choose(state: SessionState | None) -> OpenSession:
            del state
            return await self.commands.build_command(
                self.blueprints, caller.tenant, opening, owner=owner
            )

        done = await handler.handle(
            caller.tenant, session, choose, caller.metadata, command=caller.command
        )
        caller.require_reach(done.state.owner)
        return OpeningOutcome(await self._describe_opening(done.state))

    async def _open_by_key(
        self, caller: Caller, request: OpenSessionRequest, key: Mapping[str, str]
    ) -> OpeningOutcome:
        if request.session is not None:
            detail = "a session that is found by a key has the id that follows from it"
            raise Refused("bad-id", detail, field="session", fix="leave it out")
        done = await self.find_or_open_session(caller, request, key)
        return OpeningOutcome(await self._describe_opening(done.state), is_found=not done.events)

    async def find_or_open_session(
        self, caller: Caller, request: OpenSessionRequest, key: Mapping[str, str]
    ) -> CommandOutcome:
        """Return the session with this key; open it when there is none."""
        folders = self.commands.blueprint_folders.open_tenant(caller.tenant)
        load = partial(folders.load_blueprint, request.blueprint)
        blueprint = await run_in_thread(load)
        checked = check_session_key(blueprint, key)

        async def choose(state: SessionState | None) -> OpenSession | None:
            if state is not None:
                return None
            opening = await self.commands.guard_opening(caller.tenant, request)
            return await self.commands.build_command(
                store=self.blueprints,
                tenant=caller.tenant,
                opening=opening,
                key=checked,
                owner=owner,
            )

        session, owner = compute_session_id(blueprint, checked), caller.choose_user(request.user)
        done = await self.time_travel.command_handler.handle(
            caller.tenant, session, choose, caller.metadata
        )
        caller.require_reach(done.state.owner)
        return done

    async def _describe_opening(self, state: SessionState) -> OpenedSession:
        opening = await self._load_opening(state)
        blueprint = opening.blueprint if opening else state.blueprint
        return OpenedSession(
            session=state.session,
            blueprint=blueprint.name,
            digest=blueprint.digest,
            sequence=state.opened.sequence,
            warnings=opening.warnings if opening else state.warnings,
        )

    async def _load_opening(self, state: SessionState) -> SessionOpened | None:
        """Return the opening of a session that moved to another version since, otherwise None.

        So a repeated request gets the answer of the first one.
        """
        if state.attributes_in == state.opened.sequence:
            return None
        first = await self.time_travel.load_event(
            state.tenant, state.session, state.opened.sequence
        )
        return first.event if isinstance(first.event, SessionOpened) else None
