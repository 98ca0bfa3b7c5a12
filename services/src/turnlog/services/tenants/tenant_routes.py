"""Routes for tenants: list them, and see and change what one may use."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.installation.tenant_payloads import (
    ConfigureTenantRequest,
    TenantPage,
    TenantResult,
)
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestPrincipal
from turnlog.services.tenants.tenant_use_cases import TenantUseCases

router = APIRouter()


async def get_tenants(request: Request) -> TenantUseCases:
    """Return the use cases of this application."""
    tenants: TenantUseCases = request.app.state.use_cases.tenants
    return tenants


Tenants = Annotated[TenantUseCases, Depends(get_tenants)]

TenantPath = Annotated[
    str,
    Path(pattern=r"^[A-Za-z0-9-][A-Za-z0-9_-]{0,63}$", description="The name of the tenant"),
]


@router.get(api_paths.TENANTS, summary="List tenants")
async def list_tenants(
    principal: RequestPrincipal, tenants: Tenants, response: Response
) -> TenantPage:
    """List the tenants that have settings or keys; without the root key, one's own."""
    return tag_body(response, await tenants.list_tenants(principal))


@router.get(api_paths.TENANT, summary="Show a tenant")
async def show_tenant(
    tenant: TenantPath, principal: RequestPrincipal, tenants: Tenants, response: Response
) -> TenantResult:
    """Return a tenant with its settings; one without any may use everything."""
    return tag_body(response, await tenants.load_tenant(principal, tenant))


@router.patch(api_paths.TENANT, summary="Change the settings of a tenant")
async def configure_tenant(
    tenant: TenantPath,
    caller: CallerIdentity,
    tenants: Tenants,
    form: ConfigureTenantRequest,
    response: Response,
) -> TenantResult:
    """Change what a tenant may use: every process goes by it within a second."""
    done = await tenants.configure_tenant(caller.create_caller(form), tenant, form)
    return tag_body(response, done)
