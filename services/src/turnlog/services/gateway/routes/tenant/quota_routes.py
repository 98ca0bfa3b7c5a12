"""Routes for quotas: set the limits of a user, and see what is left of them.

An edit is an event, and counts from the next turn on. Other gateways believe for up to a second
that a user who had no quota still has none.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from turnlog.events.ids import USER_NAME_PATTERN
from turnlog.events.model.quota_events import QuotaEdited
from turnlog.projections.quotas.quota_decisions import (
    find_refusal,
    format_period,
    list_limit_uses,
)
from turnlog.projections.quotas.quota_limits import UNLIMITED, TenantLimits
from turnlog.services.api.quota_payloads import (
    QuotaPage,
    QuotaRequest,
    QuotaView,
    create_limit_use,
    create_user_limits,
)
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_identity import CallerIdentity

router = APIRouter()

UserPath = Annotated[
    str,
    Path(
        pattern=USER_NAME_PATTERN,
        description="The user's name, 1 to 128 printable ASCII characters",
    ),
]


@router.get("/v1/quotas", summary="List quotas")
async def list_quotas(tenant: RequestTenant, deps: Dependencies, response: Response) -> QuotaPage:
    """List the users who have a limit."""
    limits = await deps.quotas.service.load_limits(tenant)
    set_etag(response, limits.sequence)
    users = sorted(limits.limits_by_user.items())
    quotas = tuple(create_user_limits(user, each) for user, each in users)
    return QuotaPage(sequence=limits.sequence, quotas=quotas)


@router.get("/v1/quotas/{user:path}", summary="Show a quota")
async def show_quota(
    user: UserPath,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
) -> QuotaView:
    """Return what is left of a user's limits, and whether a turn is allowed now."""
    limits = await deps.quotas.service.load_limits(tenant)
    set_etag(response, limits.sequence)
    return await _create_view(deps, limits, user)


@router.put("/v1/quotas/{user:path}", summary="Set a quota")
async def set_quota(
    user: UserPath,
    caller: CallerIdentity,
    deps: Dependencies,
    form: QuotaRequest,
    response: Response,
) -> QuotaView:
    """Set all limits of a user; a limit that is left out or null is unlimited."""
    edited = QuotaEdited(user=user, limits=form.create_limits())
    limits = await deps.quotas.service.edit_limits(
        caller.tenant, edited, caller.author, caller.create_command_key(form)
    )
    set_etag(response, limits.sequence)
    return await _create_view(deps, limits, user)


async def _create_view(deps: GatewayDependencies, limits: TenantLimits, user: str) -> QuotaView:
    at, own = deps.quotas.clock(), limits.get_limits(user)
    period = format_period(at)
    state = await deps.quotas.reconcile_balance(limits.tenant, user, period)
    balance = state.balance
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
