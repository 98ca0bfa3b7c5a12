"""The use cases of retention: policies, holds, and what is due."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.contract.installation.retention_payloads import (
    DueSessions,
    HoldResult,
    PlaceHoldRequest,
    PolicyResult,
    ReleaseHoldRequest,
    RetentionView,
    SetPolicyRequest,
)
from turnlog.events.errors import Refused
from turnlog.events.model.installation.retention_events import RetentionScope
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.retention.retention_state import StoredHold, StoredPolicy, TenantRetention
from turnlog.projections.store.read.erasure_queries import (
    count_covered_sessions,
    has_blueprint_sessions,
    list_erasing_sessions,
)
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.row_waits import RowWaits
from turnlog.services.retention.due_erasures import DueErasures
from turnlog.services.retention.retention_forms import (
    create_hold,
    create_hold_view,
    create_policy,
    create_policy_view,
)
from turnlog.services.retention.retention_service import RetentionService


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionUseCases:
    """Reads and changes policies and holds, and erases what is due."""

    due: DueErasures
    blueprint_folders: BlueprintFolders
    row_waits: RowWaits

    @property
    def service(self) -> RetentionService:
        """The histories of policies and holds."""
        return self.due.guard.service

    async def list_retention(self, tenant: str) -> RetentionView:
        """List the policies and holds of a tenant."""
        found = await self.service.load_retention(tenant)
        return RetentionView(
            sequence=found.sequence,
            policies=tuple(create_policy_view(each) for _, each in sorted(found.policies.items())),
            holds=tuple(create_hold_view(each) for _, each in sorted(found.holds.items())),
            released=tuple(create_hold_view(each) for each in reversed(found.released)),
        )

    async def set_policy(self, caller: Caller, form: SetPolicyRequest) -> PolicyResult:
        """Set a policy; refuse one that cannot be."""
        policy = create_policy(form)
        await self._require_known(caller.tenant, policy.where)
        after = await self.service.set_policy(caller, policy)
        return await self._build_policy_result(after, after.get_policy(policy.name))

    async def remove_policy(self, caller: Caller, name: str) -> PolicyResult:
        """Remove a policy; refuse an unknown name."""
        before = await self.service.load_retention(caller.tenant)
        policy = before.get_policy(check_text(name, "name"))
        after = await self.service.remove_policy(caller, name)
        return await self._build_policy_result(after, policy)

    async def place_hold(self, caller: Caller, form: PlaceHoldRequest) -> HoldResult:
        """Place a hold; the answer names erasures of its sessions that have begun before."""
        hold = create_hold(form)
        await self._require_known(caller.tenant, hold.where)
        after = await self.service.place_hold(caller, hold)
        # An erasure that has begun looks for holds before it removes keys. One that did so before
        # this hold was there is in the log by now, and in the rows once they have caught up.
        log = self.due.erasures.command_handler.log
        lag = await self.row_waits.measure_remaining_lag(log, caller.tenant)
        result = await self._build_hold_result(after, after.get_hold(hold.name))
        return result.model_copy(update={"erasing": None}) if lag else result

    async def release_hold(self, caller: Caller, name: str, form: ReleaseHoldRequest) -> HoldResult:
        """Release a hold; refuse a name that none in force has."""
        reason = check_text(form.reason, "reason")
        after = await self.service.release_hold(caller, check_text(name, "name"), reason)
        released = next(each for each in reversed(after.released) if each.name == name)
        return await self._build_hold_result(after, released)

    async def list_due(self, tenant: str) -> DueSessions:
        """Return which sessions are due, and what keeps each of them from being erased."""
        return await self.due.list_due(tenant)

    async def erase_due(self, caller: Caller) -> DueSessions:
        """Erase sessions that are due, as many as a round of the schedule does."""
        return await self.due.run_round(caller.tenant, caller.metadata)

    async def _require_known(self, tenant: str, where: RetentionScope) -> None:
        """Refuse a blueprint that there never was, or a session that there is not."""
        if where.session is not None:
            handler = self.due.erasures.command_handler
            if await handler.load_state(tenant, where.session) is None:
                detail, fix = "there is no such session", "see `/v1/sessions` for those there are"
                raise Refused("unknown-session", detail, field="where.session", fix=fix)
        if where.blueprint is None:
            return
        try:
            self.blueprint_folders.open_tenant(tenant).find_folder(where.blueprint)
        except Refused as refused:
            async with self.due.erasures.store.open_reader() as connection:
                if await has_blueprint_sessions(connection, tenant, where.blueprint):
                    return
            field = "where.blueprint"
            raise Refused(
                "unknown-blueprint", refused.detail, field=field, fix=refused.fix
            ) from refused

    async def _build_policy_result(
        self, after: TenantRetention, policy: StoredPolicy
    ) -> PolicyResult:
        async with self.due.erasures.store.open_reader() as connection:
            sessions = await count_covered_sessions(connection, after.tenant, policy.where)
        return PolicyResult(
            sequence=after.sequence, policy=create_policy_view(policy), sessions=sessions
        )

    async def _build_hold_result(self, after: TenantRetention, hold: StoredHold) -> HoldResult:
        async with self.due.erasures.store.open_reader() as connection:
            sessions = await count_covered_sessions(connection, after.tenant, hold.where)
            erasing = await list_erasing_sessions(connection, after.tenant, hold.where)
        return HoldResult(
            sequence=after.sequence,
            hold=create_hold_view(hold),
            sessions=sessions,
            erasing=tuple(erasing),
        )
