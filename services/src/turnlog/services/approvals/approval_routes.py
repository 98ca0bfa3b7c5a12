"""The routes of approvals: the list of all sessions, and deciding about a tool that waits."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.request_values import USER_NAME_PATTERN
from turnlog.contract.session_requests import DecideApprovalRequest
from turnlog.contract.turn_payloads import ApprovalPage, ApprovalResult
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.projections.store.read.approval_queries import (
    APPROVAL_PAGE_SIZE,
    ApprovalQuery,
    ApprovalStatus,
)
from turnlog.services.approvals.approval_listing import ApprovalListing
from turnlog.services.approvals.approval_use_cases import ApprovalUseCases
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_checks import QueryTime, TurnPath, convert_to_utc
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant

router = APIRouter()


async def get_approvals(request: Request) -> ApprovalUseCases:
    """Return the use cases of this application."""
    approvals: ApprovalUseCases = request.app.state.use_cases.approvals
    return approvals


Approvals = Annotated[ApprovalUseCases, Depends(get_approvals)]


async def get_approval_listing(request: Request) -> ApprovalListing:
    """Return the list of this application."""
    listing: ApprovalListing = request.app.state.use_cases.approval_listing
    return listing


ApprovalPath = Annotated[
    int, Path(ge=1, le=MAX_INT, description="The number of the approval within the turn")
]


@router.get(api_paths.APPROVALS, summary="List approvals of all sessions")
async def list_approvals(
    tenant: RequestTenant,
    listing: Annotated[ApprovalListing, Depends(get_approval_listing)],
    state: Annotated[
        ApprovalStatus, Query(description="Those that wait for a person, or decided ones")
    ] = "pending",
    user: Annotated[
        str | None, Query(pattern=USER_NAME_PATTERN, description="Only turns of this user")
    ] = None,
    since: Annotated[
        QueryTime | None, Query(description="Only what was requested at or after this time")
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=500, description="The maximum number of approvals in a page")
    ] = APPROVAL_PAGE_SIZE,
    before: Annotated[
        int | None, Query(ge=1, le=MAX_INT, description="The `next` of the previous page")
    ] = None,
) -> ApprovalPage:
    """Return the tools of all sessions that wait for a person, or that were decided, newest first.

    One that nobody decided while its turn was open is in no list.
    """
    sought = ApprovalQuery(state, user, convert_to_utc(since, "since") if since else None)
    return await listing.list_approvals(tenant, sought, limit=limit, before=before)


@router.post(api_paths.APPROVAL, summary="Approve or refuse a tool")
async def decide_approval(
    session: str,
    turn: TurnPath,
    approval: ApprovalPath,
    caller: CallerIdentity,
    approvals: Approvals,
    response: Response,
    form: DecideApprovalRequest,
) -> ApprovalResult:
    """Decide whether a tool may run that waits for it; the turn goes on after the last decision.

    The approvals of a turn stand with its tools in `/history`, those that wait in `open` of the
    session. The same decision again has the same answer, also after the turn; another one is
    refused. With `shown`, what runs is bound to the arguments that the person saw, and with
    `arguments` the tool runs with those instead; they are checked against its schema first.
    """
    done = await approvals.decide_approval(
        caller.create_caller(form), session, turn=turn, approval=approval, request=form
    )
    return tag_body(response, done)
