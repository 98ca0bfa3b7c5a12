from __future__ import annotations

from collections.abc import Mapping

import structlog

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.keys import checked_key, keyed_id
from turnlog.projections.blueprint.schema import Blueprint, reach
from turnlog.projections.blueprint.values import checked_values
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import Material
from turnlog.services.gateway.caller import Caller
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.payloads.asked import OpenForm
from turnlog.services.runtime.plugins import check_plugins
from turnlog.services.runtime.sessions import Done

_log = structlog.get_logger("turnlog.gateway")


async def found_or_opened(
    desk: Desk, asked: Caller, form: OpenForm, key: Mapping[str, str]
) -> Done:
    """Return the session with this key; open it when there is none."""
    blueprint = desk.library.get(form.blueprint)
    checked = checked_key(blueprint, key)

    async def choose(state: SessionState | None) -> OpenSession | None:
        return await chosen(desk, asked.tenant, form, checked) if state is None else None

    session = keyed_id(blueprint, checked)
    return await desk.sessions.act(asked.tenant, session, choose, asked.by)


async def chosen(
    desk: Desk, tenant: str, form: OpenForm, key: Mapping[str, str] | None = None
) -> OpenSession:
    """Return the command that opens a session, with all its files read and pinned.

    Raises `Refused` when the request does not fit the blueprint.
    """
    blueprint = desk.library.get(form.blueprint)
    check_plugins(blueprint)
    profile = _profile(blueprint, form.profile)
    attributes = checked_values(blueprint.attributes, form.attributes, "attributes")
    cartridge = desk.library.cartridge(blueprint, attributes)
    read = desk.library.memory_policy(blueprint)
    material = Material(blueprint, cartridge or {}, read.policy if read else None)
    warnings = read.warnings if read else ()
    _warn(material, warnings)
    return OpenSession(
        await desk.blueprints.pin(tenant, blueprint),
        profile,
        reach(blueprint),
        attributes,
        None if cartridge is None else await desk.blueprints.pin_cartridge(tenant, cartridge),
        material.phases,
        key=dict(key or {}),
        memory=await desk.blueprints.pin_memory(tenant, read.policy) if read else None,
        warnings=warnings,
    )


def _warn(material: Material, warnings: tuple[str, ...]) -> None:
    blueprint = material.blueprint.blueprint
    for level in material.unknown_context:
        _log.warning("context-unknown", context=level, blueprint=blueprint)
    for warning in warnings:
        _log.warning("memory-policy", fault=warning, blueprint=blueprint)


def _profile(blueprint: Blueprint, name: str | None) -> str:
    if name is None:
        return blueprint.default_profile
    if name not in blueprint.profiles:
        fix = instead_of(name, blueprint.profiles)
        raise Refused("unknown-profile", f"there is no {name!r}", field="profile", fix=fix)
    return name
