"""The history of the policies and holds of a tenant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from turnlog.events.model.installation.retention_events import (
    RETENTION_FAMILY,
    HoldPlaced,
    RetentionPolicySet,
)
from turnlog.events.registry import LibraryEvent
from turnlog.projections.retention.retention_state import (
    RetentionCommandRecord,
    TenantRetention,
    create_retention,
    decide_hold,
    decide_hold_release,
    decide_policy,
    decide_policy_removal,
    fold_retention,
)
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    TenantHistory,
    TenantStates,
)

_Decide = Callable[[TenantRetention], Sequence[LibraryEvent]]


@dataclass
class RetentionService:
    """The policies and holds of all tenants, for one process."""

    parts: LibraryParts
    _history: TenantHistory[TenantRetention, RetentionCommandRecord] = field(init=False)

    def __post_init__(self) -> None:
        self._history = TenantHistory(
            parts=self.parts,
            family=RETENTION_FAMILY,
            create=create_retention,
            states=TenantStates[TenantRetention, RetentionCommandRecord](
                create_retention, fold_retention
            ),
            log_name="retention",
        )

    async def load_retention(self, tenant: str, *, leader: bool = False) -> TenantRetention:
        """Return the policies and holds of a tenant as they are now.

        With `leader` they have every hold that was acknowledged before.
        """
        return await self._history.load_state(tenant, leader=leader)

    async def list_tenants(self) -> Sequence[str]:
        """Return the tenants that ever had a policy or a hold."""
        return await self.parts.log.list_tenants(RETENTION_FAMILY)

    async def set_policy(self, caller: Caller, policy: RetentionPolicySet) -> TenantRetention:
        """Set a policy; one that is set already costs no event."""
        return await self._change(caller, lambda state: decide_policy(state, policy))

    async def remove_policy(self, caller: Caller, name: str) -> TenantRetention:
        """Remove a policy; refuse a name that none has."""
        return await self._change(caller, lambda state: (decide_policy_removal(state, name),))

    async def place_hold(self, caller: Caller, hold: HoldPlaced) -> TenantRetention:
        """Place a hold; refuse a name that one in force has."""
        return await self._change(caller, lambda state: (decide_hold(state, hold),))

    async def release_hold(self, caller: Caller, name: str, reason: str) -> TenantRetention:
        """Release a hold; refuse a name that none in force has."""
        return await self._change(caller, lambda state: (decide_hold_release(state, name, reason),))

    async def _change(self, caller: Caller, decide: _Decide) -> TenantRetention:
        outcome = await self._history.handle(caller.tenant, decide, caller.metadata, caller.command)
        return outcome.state
