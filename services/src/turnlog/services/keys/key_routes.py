"""Routes for keys: create, list, rotate and revoke them, and see who one is to the service."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.installation.key_payloads import (
    CreateBrowserTokenRequest,
    CreatedBrowserToken,
    CreatedKey,
    CreateKeyRequest,
    KeyPage,
    KeyResult,
    PrincipalView,
    RotateKeyRequest,
)
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestPrincipal
from turnlog.services.keys.key_use_cases import KeyUseCases, create_principal_view

router = APIRouter()


async def get_keys(request: Request) -> KeyUseCases:
    """Return the use cases of this application."""
    keys: KeyUseCases = request.app.state.use_cases.access_keys
    return keys


Keys = Annotated[KeyUseCases, Depends(get_keys)]

NamePath = Annotated[str, Path(description="The name or the id of the key")]

TenantQuery = Annotated[
    str | None,
    Query(
        pattern=r"^(\*|[A-Za-z0-9-][A-Za-z0-9_-]{0,63})$",
        description="The tenant of the key, by default one's own; for the root key",
    ),
]


@router.get(api_paths.KEYS, summary="List keys")
async def list_keys(
    principal: RequestPrincipal, keys: Keys, response: Response, for_tenant: TenantQuery = None
) -> KeyPage:
    """List the keys of a tenant, `*` those of all, without their secret parts."""
    return tag_body(response, await keys.list_keys(principal, for_tenant))


@router.post(api_paths.KEYS, status_code=201, summary="Create a key")
async def create_key(
    caller: CallerIdentity, keys: Keys, form: CreateKeyRequest, response: Response
) -> CreatedKey:
    """Create a key; only this answer has the whole of it."""
    response.headers["Cache-Control"] = "no-store"
    created = await keys.create_key(caller.principal, caller.create_caller(form), form)
    return tag_body(response, created)


@router.post(api_paths.ROTATE_KEY, summary="Rotate a key")
async def rotate_key(
    name: NamePath,
    caller: CallerIdentity,
    keys: Keys,
    form: RotateKeyRequest,
    response: Response,
    for_tenant: TenantQuery = None,
) -> CreatedKey:
    """Replace the secret part of a key; only this answer has the whole of it."""
    response.headers["Cache-Control"] = "no-store"
    rotated = await keys.rotate_key(
        principal=caller.principal,
        caller=caller.create_caller(form),
        name=name,
        form=form,
        tenant=for_tenant,
    )
    return tag_body(response, rotated)


@router.delete(api_paths.KEY, summary="Revoke a key")
async def revoke_key(
    name: NamePath,
    caller: CallerIdentity,
    keys: Keys,
    response: Response,
    for_tenant: TenantQuery = None,
) -> KeyResult:
    """Let a key sign in no more: every gateway refuses it within a second."""
    revoked = await keys.revoke_key(caller.principal, caller.create_caller(), name, for_tenant)
    return tag_body(response, revoked)


@router.post(api_paths.BROWSER_TOKENS, status_code=201, summary="Create a token for a browser")
async def create_browser_token(
    session: str,
    principal: RequestPrincipal,
    keys: Keys,
    form: CreateBrowserTokenRequest,
    response: Response,
) -> CreatedBrowserToken:
    """Create a token that lets a browser at this session for some minutes; nothing is stored."""
    response.headers["Cache-Control"] = "no-store"
    return await keys.create_browser_token(principal, session, form)


@router.get(api_paths.PRINCIPAL, summary="Show who sends a request")
async def show_principal(principal: RequestPrincipal) -> PrincipalView:
    """Return who the sender is to the service, and what it may do."""
    return create_principal_view(principal)
