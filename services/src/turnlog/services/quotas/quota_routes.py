"""Routes for quotas: set the limits of a user or of stored media, and see what is left of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.request_values import USER_NAME_PATTERN
from turnlog.contract.usage_payloads import (
    MediaLimitRequest,
    MediaLimitView,
    QuotaPage,
    QuotaRequest,
    QuotaView,
)
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.quotas.quota_use_cases import QuotaUseCases

router = APIRouter()


async def get_quotas(request: Request) -> QuotaUseCases:
    """Return the use cases of this application."""
    quotas: QuotaUseCases = request.app.state.use_cases.quotas
    return quotas


Quotas = Annotated[QuotaUseCases, Depends(get_quotas)]

UserPath = Annotated[
    str,
    Path(
        pattern=USER_NAME_PATTERN,
        description="The user's name, 1 to 128 printable ASCII characters",
    ),
]


@router.get(api_paths.QUOTAS, summary="List quotas")
async def list_quotas(tenant: RequestTenant, quotas: Quotas, response: Response) -> QuotaPage:
    """List the users who have a limit; `media` is what the tenant may store."""
    return tag_body(response, await quotas.list_quotas(tenant))


@router.get(api_paths.QUOTA, summary="Show a quota")
async def show_quota(
    user: UserPath, tenant: RequestTenant, quotas: Quotas, response: Response
) -> QuotaView:
    """Return what is left of a user's limits, and whether a turn is allowed now."""
    return tag_body(response, await quotas.load_quota(tenant, user))


@router.put(api_paths.QUOTA, summary="Set a quota")
async def set_quota(
    user: UserPath,
    caller: CallerIdentity,
    quotas: Quotas,
    form: QuotaRequest,
    response: Response,
) -> QuotaView:
    """Set all limits of a user; a limit that is left out or null is unlimited."""
    return tag_body(response, await quotas.set_quota(caller.create_caller(form), user, form))


@router.get(api_paths.MEDIA_LIMIT, summary="Show the limit of stored media")
async def show_media_limit(
    tenant: RequestTenant, quotas: Quotas, response: Response
) -> MediaLimitView:
    """Return how many bytes the media of the tenant may have together, and how many they have."""
    return tag_body(response, await quotas.load_media_limit(tenant))


@router.put(api_paths.MEDIA_LIMIT, summary="Set the limit of stored media")
async def set_media_limit(
    caller: CallerIdentity, quotas: Quotas, form: MediaLimitRequest, response: Response
) -> MediaLimitView:
    """Set how many bytes the media of the tenant may have together; null is unlimited."""
    return tag_body(response, await quotas.set_media_limit(caller.create_caller(form), form))
