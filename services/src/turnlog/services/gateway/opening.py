from __future__ import annotations

from collections.abc import Mapping

import structlog

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import suggest_word
from turnlog.projections.blueprint.keys import check_session_key, compute_session_id
from turnlog.projections.blueprint.schema import Blueprint, compute_history_reach
from turnlog.projections.blueprint.values import check_values
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import SessionMaterial
from turnlog.services.gateway.caller import RequestIdentity
from turnlog.services.gateway.desk import GatewayDependencies
from turnlog.services.gateway.payloads.asked import OpenSessionRequest
from turnlog.services.runtime.plugins import check_plugins_registered
from turnlog.services.runtime.sessions import CommandOutcome

_opening_log = structlog.get_logger("turnlog.gateway")


async def find_or_open_session(
    deps: GatewayDependencies, caller: RequestIdentity, form: OpenSessionRequest, key: Mapping[str, str]
) -> CommandOutcome:
    """Return the session with this key; open it when there is none."""
    blueprint = deps.blueprint_folders.load_blueprint(form.blueprint)
    checked = check_session_key(blueprint, key)

    async def choose(state: SessionState | None) -> OpenSession | None:
        return await create_open_command(deps, caller.tenant, form, checked) if state is None else None

    session = compute_session_id(blueprint, checked)
    return await deps.sessions.handle(caller.tenant, session, choose, caller.author)


async def create_open_command(
    deps: GatewayDependencies, tenant: str, form: OpenSessionRequest, key: Mapping[str, str] | None = None
) -> OpenSession:
    """Return the command that opens a session, with all its files read and pinned.

    Raises `Refused` when the request does not fit the blueprint.
    """
    blueprint = deps.blueprint_folders.load_blueprint(form.blueprint)
    check_plugins_registered(blueprint)
    profile = _choose_profile(blueprint, form.profile)
    attributes = check_values(blueprint.attributes, form.attributes, "attributes")
    cartridge = deps.blueprint_folders.read_cartridge(blueprint, attributes)
    read = deps.blueprint_folders.read_memory_policy(blueprint)
    material = SessionMaterial(blueprint, cartridge or {}, read.policy if read else None)
    warnings = read.warnings if read else ()
    _log_warnings(material, warnings)
    return OpenSession(
        await deps.blueprints.store_blueprint(tenant, blueprint),
        profile,
        compute_history_reach(blueprint),
        attributes,
        None if cartridge is None else await deps.blueprints.store_cartridge(tenant, cartridge),
        material.phases,
        key=dict(key or {}),
        memory=await deps.blueprints.store_memory_policy(tenant, read.policy) if read else None,
        warnings=warnings,
    )


def _log_warnings(material: SessionMaterial, warnings: tuple[str, ...]) -> None:
    blueprint = material.blueprint.blueprint
    for level in material.unknown_context_levels:
        _opening_log.warning("context-unknown", context=level, blueprint=blueprint)
    for warning in warnings:
        _opening_log.warning("memory-policy", fault=warning, blueprint=blueprint)


def _choose_profile(blueprint: Blueprint, name: str | None) -> str:
    if name is None:
        return blueprint.default_profile
    if name not in blueprint.profiles:
        fix = suggest_word(name, blueprint.profiles)
        raise Refused("unknown-profile", f"there is no {name!r}", field="profile", fix=fix)
    return name
