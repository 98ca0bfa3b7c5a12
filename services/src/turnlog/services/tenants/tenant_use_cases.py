"""Listing tenants and changing what each may use.

Whoever has the root key sees all tenants and changes their settings; anybody else sees the own one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from turnlog.contract.installation.tenant_payloads import (
    ConfigureTenantRequest,
    TenantPage,
    TenantResult,
    TenantView,
)
from turnlog.events.errors import Refused
from turnlog.projections.access.tenant_settings import TenantSettings
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.services.command_handling.callers import Caller
from turnlog.services.identity.access_key_service import AccessKeyService
from turnlog.services.identity.permissions import has_permission
from turnlog.services.identity.principals import Principal
from turnlog.services.identity.tenant_service import TenantService

_PROVIDER: Final = re.compile(r"[a-z0-9_]{1,64}")
"""What a model's name begins with, before the slash."""

_OWN_KEY: Final = "own"
"""What a tenant sees of the place of its key, which is a matter of the installation."""


@dataclass(frozen=True, slots=True)
class TenantUseCases:
    """What can be asked of tenants."""

    service: TenantService
    keys: AccessKeyService

    async def list_tenants(self, principal: Principal) -> TenantPage:
        """Return the tenants that have settings or keys; of others than root, the own one."""
        found, keys = await self.service.load_tenants(), await self._count_keys()
        names, is_above = {principal.tenant}, _is_above_tenants(principal)
        if is_above:
            names |= {*found.by_name, *keys}
        views = [_create_view(found.get_settings(each), keys) for each in sorted(names)]
        shown = tuple(_hide_places(principal, each) for each in views)
        sequence = found.sequence if is_above else found.get_settings(principal.tenant).changes
        return TenantPage(sequence=sequence, tenants=shown)

    async def load_tenant(self, principal: Principal, tenant: str) -> TenantResult:
        """Return a tenant; raises `Refused` for one that is not the principal's."""
        if tenant != principal.tenant and not _is_above_tenants(principal):
            detail = "there is no such tenant"
            raise Refused("unknown-tenant", detail, field="tenant", fix="name your own")
        found, keys = await self.service.load_tenants(), await self._count_keys()
        settings = found.get_settings(tenant)
        view = _hide_places(principal, _create_view(settings, keys))
        return TenantResult(sequence=settings.changes, tenant=view)

    async def configure_tenant(
        self, caller: Caller, tenant: str, form: ConfigureTenantRequest
    ) -> TenantResult:
        """Change the settings that a request names; those that are null are removed."""
        if not form.model_fields_set:
            detail = "the request changes nothing"
            raise Refused("invalid", detail, field="models", fix="name what is to change")
        changes: dict[str, Any] = {name: _read_value(form, name) for name in form.model_fields_set}
        done = await self.service.configure_tenant(
            caller, tenant, lambda before: replace(before, **changes)
        )
        view = _create_view(done, await self._count_keys())
        return TenantResult(sequence=done.changes, tenant=view)

    async def _count_keys(self) -> Mapping[str, int]:
        now = self.service.parts.clock()
        keys = (await self.keys.load_keys()).list_keys(None)
        return Counter(each.tenant for each in keys if each.list_hashes(now))


def _is_above_tenants(principal: Principal) -> bool:
    return has_permission(principal, "tenants:write")


def _hide_places(principal: Principal, view: TenantView) -> TenantView:
    if _is_above_tenants(principal):
        return view
    return view.model_copy(update={"provider_keys": dict.fromkeys(view.provider_keys, _OWN_KEY)})


def _read_value(form: ConfigureTenantRequest, name: str) -> object:
    match name:
        case "provider_keys":
            return _check_places(form.provider_keys or {})
        case "models":
            return None if form.models is None else tuple(form.models)
        case _:
            return getattr(form, name)


def _check_places(places: Mapping[str, str]) -> Mapping[str, str]:
    """Refuse the variables that Turnlog reads itself: no provider is to be sent their secrets."""
    for provider, place in places.items():
        if _PROVIDER.fullmatch(provider) is None:
            detail = f"{format_sent_name(provider)} is no provider"
            fix = "name what the names of its models begin with, such as `openai`"
            raise Refused("invalid", detail, field="provider_keys", fix=fix)
        if place.upper().startswith("ENV:TURNLOG_"):
            detail = f"the key of {provider} would be a setting of Turnlog's own"
            fix = "name another variable"
            raise Refused("invalid", detail, field=f"provider_keys.{provider}", fix=fix)
    return dict(places)


def _create_view(settings: TenantSettings, keys: Mapping[str, int]) -> TenantView:
    names = TenantView.model_fields.keys() - {"keys"}
    return TenantView.model_validate(
        {**{name: getattr(settings, name) for name in names}, "keys": keys.get(settings.tenant, 0)}
    )
