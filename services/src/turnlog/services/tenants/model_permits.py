"""Which models a session would call, checked against what its tenant may use.

The gateway checks when a session is opened, switched or given a turn, so that who asks is told. The
worker checks before each call: settings may have changed since, and a session is pinned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnlog.projections.access.tenant_settings import TenantSettings
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState
from turnlog.services.platform.process_settings import MODEL_OFF

DEFAULT_NAME: Final = "default"
"""What a profile calls the model that the service was started with."""


def require_profile_models(
    settings: TenantSettings, blueprint: Blueprint, profile: str, default_model: str
) -> None:
    """Refuse a profile if it, its children or its phases name a model that may not be used."""
    for name in _list_reached_profiles(blueprint, profile):
        named = blueprint.profiles[name].model
        model = default_model if named == DEFAULT_NAME else named
        _require_model(settings, model, f"profile `{name}`", f"profiles.{name}.model")


def require_switched_model(
    settings: TenantSettings,
    blueprint: Blueprint,
    profile: str,
    *,
    model: str | None,
    default_model: str,
) -> None:
    """Refuse a switch to a profile, or to a model of its own, that may not be used."""
    if model is not None:
        chosen = default_model if model == DEFAULT_NAME else model
        _require_model(settings, chosen, "the request", "model")
    elif profile in blueprint.profiles:
        require_profile_models(settings, blueprint, profile, default_model)


def require_session_model(
    settings: TenantSettings, material: SessionMaterial, state: SessionState, default_model: str
) -> None:
    """Refuse the model that the next call of a session has, if it may not be used."""
    model = material.resolve_model(state, default_model)
    if state.model is not None:
        _require_model(settings, model, "the session", "model")
        return
    field = f"profiles.{state.profile}.model"
    _require_model(settings, model, f"profile `{state.profile}`", field)


def _require_model(settings: TenantSettings, model: str, named_by: str, field: str) -> None:
    if model != MODEL_OFF:
        settings.require_model(model, named_by, field)


def _list_reached_profiles(blueprint: Blueprint, profile: str) -> tuple[str, ...]:
    """Return a profile with those that its sessions come to without anybody asking for them."""
    reached = dict.fromkeys(_iterate_followers(blueprint, profile), None)
    pending = [*reached]
    while pending:
        for each in _iterate_followers(blueprint, pending.pop()):
            if each not in reached:
                reached[each] = None
                pending.append(each)
    return tuple(reached)


def _iterate_followers(blueprint: Blueprint, profile: str) -> Iterator[str]:
    yield profile
    yield from blueprint.profiles[profile].children
    if blueprint.phases is not None:
        yield from blueprint.phases.profiles.values()
