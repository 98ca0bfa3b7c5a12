"""Routes for retention: policies, holds, and which sessions are due."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.installation.retention_payloads import (
    DueSessions,
    HoldResult,
    PlaceHoldRequest,
    PolicyResult,
    ReleaseHoldRequest,
    RetentionView,
    SetPolicyRequest,
)
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.retention.retention_use_cases import RetentionUseCases

router = APIRouter()


async def get_retention(request: Request) -> RetentionUseCases:
    """Return the use cases of this application."""
    retention: RetentionUseCases = request.app.state.use_cases.retention
    return retention


Retention = Annotated[RetentionUseCases, Depends(get_retention)]

PolicyPath = Annotated[str, Path(description="The name of the policy")]

HoldPath = Annotated[str, Path(description="The name of the hold")]


@router.get(api_paths.RETENTION, summary="List policies and holds")
async def list_retention(
    tenant: RequestTenant, retention: Retention, response: Response
) -> RetentionView:
    """List how long sessions are kept, when they are erased, and what is held."""
    return tag_body(response, await retention.list_retention(tenant))


@router.put(api_paths.RETENTION_POLICIES, summary="Set a policy")
async def set_policy(
    caller: CallerIdentity, retention: Retention, form: SetPolicyRequest, response: Response
) -> PolicyResult:
    """Set how long sessions are kept and when they are erased, or replace that of this name."""
    return tag_body(response, await retention.set_policy(caller.create_caller(form), form))


@router.delete(api_paths.RETENTION_POLICY, summary="Remove a policy")
async def remove_policy(
    name: PolicyPath, caller: CallerIdentity, retention: Retention, response: Response
) -> PolicyResult:
    """Remove a policy: it refuses and erases nothing any more."""
    return tag_body(response, await retention.remove_policy(caller.create_caller(), name))


@router.post(api_paths.HOLDS, status_code=201, summary="Place a hold")
async def place_hold(
    caller: CallerIdentity, retention: Retention, form: PlaceHoldRequest, response: Response
) -> HoldResult:
    """Have nothing of these sessions erased, by anyone, until the hold is released.

    The answer names sessions of these of which an erasure had begun before.
    """
    return tag_body(response, await retention.place_hold(caller.create_caller(form), form))


@router.post(api_paths.RELEASE_HOLD, summary="Release a hold")
async def release_hold(
    name: HoldPath,
    caller: CallerIdentity,
    retention: Retention,
    form: ReleaseHoldRequest,
    response: Response,
) -> HoldResult:
    """End a hold; what waits for it goes on by itself."""
    return tag_body(response, await retention.release_hold(caller.create_caller(form), name, form))


@router.get(api_paths.DUE_SESSIONS, summary="List what is due")
async def list_due_sessions(tenant: RequestTenant, retention: Retention) -> DueSessions:
    """List the sessions that policies say to erase by now, and what keeps them."""
    return await retention.list_due(tenant)


@router.post(api_paths.DUE_SESSIONS, summary="Erase what is due")
async def erase_due_sessions(caller: CallerIdentity, retention: Retention) -> DueSessions:
    """Erase sessions that are due without waiting for the schedule, so many at a time."""
    return await retention.erase_due(caller.create_caller())
