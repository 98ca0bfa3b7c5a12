"""The settings of tenants, for one process: read at most once a second, and set by commands.

Settings are no credentials: while the library cannot be read, those that were read last count, so
that turns go on as they do without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from turnlog.events.model.installation.access_events import INSTALLATION_TENANT
from turnlog.events.model.installation.tenant_events import TENANTS_FAMILY
from turnlog.projections.access.tenant_settings import (
    InstallationTenants,
    TenantCommandRecord,
    TenantSettings,
    create_event,
    create_installation_tenants,
    decide_tenant,
    fold_tenants,
)
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    TenantHistory,
    TenantStates,
    build_installation_command,
)


class TenantPolicies(Protocol):
    """What each tenant may use."""

    async def load_settings(self, tenant: str) -> TenantSettings:
        """Return the settings of a tenant as they were within the last second."""
        ...


class UnlimitedTenants:
    """Tenants that may use everything."""

    async def load_settings(self, tenant: str) -> TenantSettings:
        """See `TenantPolicies.load_settings`."""
        return TenantSettings(tenant=tenant)


@dataclass
class TenantService:
    """The settings of all tenants, for one process."""

    parts: LibraryParts
    monotonic: Callable[[], float] = time.monotonic
    _history: TenantHistory[InstallationTenants, TenantCommandRecord] = field(init=False)

    def __post_init__(self) -> None:
        self._history = TenantHistory(
            parts=self.parts,
            family=TENANTS_FAMILY,
            create=create_installation_tenants,
            states=TenantStates[InstallationTenants, TenantCommandRecord](
                create_installation_tenants, fold_tenants
            ),
            log_name="tenants",
            monotonic=self.monotonic,
        )

    async def load_tenants(self) -> InstallationTenants:
        """Return the settings of all tenants as they are now."""
        return await self._history.load_state(INSTALLATION_TENANT)

    async def load_settings(self, tenant: str) -> TenantSettings:
        """Return the settings of a tenant; raises `Unavailable` where none were ever read."""
        tenants = await self._history.load_recent_state(INSTALLATION_TENANT, survives_outage=True)
        return tenants.get_settings(tenant)

    async def list_names(self) -> Collection[str]:
        """Return the tenants that had settings within the last second."""
        tenants = await self._history.load_recent_state(INSTALLATION_TENANT, survives_outage=True)
        return tenants.by_name.keys()

    async def configure_tenant(
        self,
        caller: Caller,
        tenant: str,
        change: Callable[[TenantSettings], TenantSettings],
    ) -> TenantSettings:
        """Set what `change` returns for the settings that a tenant has; return what it has then.

        A command that was carried out before returns what it set.
        """
        outcome = await self._history.handle(
            INSTALLATION_TENANT,
            lambda state: decide_tenant(state, create_event(change(state.get_settings(tenant)))),
            caller.metadata,
            build_installation_command(caller),
        )
        if outcome.record is not None:
            return outcome.record.settings
        return outcome.state.get_settings(tenant)
