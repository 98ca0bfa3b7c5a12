"""Setting the limits of users, and reading what is left of them.

An edit is an event, and counts from the next turn on. Other gateways believe for up to a second
that a user who had no quota still has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.contract.usage_payloads import (
    MediaLimitRequest,
    MediaLimitView,
    QuotaPage,
    QuotaRequest,
    QuotaView,
)
from turnlog.events.model.quota_events import QuotaEdited, QuotaLimits
from turnlog.projections.quotas.quota_decisions import (
    find_refusal,
    format_period,
    list_limit_uses,
)
from turnlog.projections.quotas.quota_limits import UNLIMITED, TenantLimits
from turnlog.services.api.quota_answers import (
    create_limit_use,
    create_media_limit,
    create_user_limits,
)
from turnlog.services.command_handling.callers import Caller
from turnlog.services.quotas.media_limit_service import MediaLimitService
from turnlog.services.quotas.quota_reservations import TurnQuotas


@dataclass(frozen=True, slots=True)
class QuotaUseCases:
    """Reads and edits the quotas of users, and the limit of a tenant's media."""

    quotas: TurnQuotas
    media_limits: MediaLimitService

    async def list_quotas(self, tenant: str) -> QuotaPage:
        """List the users who have a limit; what the tenant may store is beside them."""
        limits = await self.quotas.service.load_limits(tenant)
        users = sorted(limits.limits_by_user.items())
        quotas = tuple(create_user_limits(user, each) for user, each in users)
        media = await self.load_media_limit(tenant)
        return QuotaPage(sequence=limits.sequence, quotas=quotas, media=media)

    async def load_media_limit(self, tenant: str) -> MediaLimitView:
        """Return what the tenant may store, and what it has stored."""
        return create_media_limit(await self.media_limits.reconcile_balance(tenant))

    async def set_media_limit(self, caller: Caller, request: MediaLimitRequest) -> MediaLimitView:
        """Set what the tenant may store, or let it store without a limit."""
        media = await self.media_limits.edit_limit(
            caller.tenant, request.limit, caller.metadata, caller.command
        )
        return create_media_limit(media)

    async def load_quota(self, tenant: str, user: str) -> QuotaView:
        """Return what is left of a user's limits, and whether a turn is allowed now."""
        return await self._create_view(await self.quotas.service.load_limits(tenant), user)

    async def set_quota(self, caller: Caller, user: str, request: QuotaRequest) -> QuotaView:
        """Set all limits of a user; a limit that is left out or null is unlimited."""
        edited = QuotaEdited(user=user, limits=QuotaLimits.model_validate(request.model_dump()))
        limits = await self.quotas.service.edit_limits(
            caller.tenant, edited, caller.metadata, caller.command
        )
        return await self._create_view(limits, user)

    async def _create_view(self, limits: TenantLimits, user: str) -> QuotaView:
        at, own = self.quotas.clock(), limits.get_limits(user)
        period = format_period(at)
        balance = (await self.quotas.reconcile_balance(limits.tenant, user, period)).balance
        refusal = None if own == UNLIMITED else find_refusal(own, balance, at)
        return QuotaView(
            sequence=limits.sequence,
            period=period,
            allowed=refusal is None,
            message=refusal.detail if refusal else "",
            limits=create_user_limits(user, own),
            uses=tuple(create_limit_use(each) for each in list_limit_uses(own, balance, at)),
            input_tokens=balance.input_tokens,
            output_tokens=balance.output_tokens,
            unsettled_turns=len(balance.reservations),
        )
