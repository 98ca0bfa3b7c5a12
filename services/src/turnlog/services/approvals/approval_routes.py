"""The route by which a person approves or refuses a tool."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.session_requests import DecideApprovalRequest
from turnlog.contract.turn_payloads import CommandResult
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.services.approvals.approval_use_cases import ApprovalUseCases
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_checks import TurnPath
from turnlog.services.http.request_identity import CallerIdentity

router = APIRouter()


async def get_approvals(request: Request) -> ApprovalUseCases:
    """Return the use cases of this application."""
    approvals: ApprovalUseCases = request.app.state.use_cases.approvals
    return approvals


Approvals = Annotated[ApprovalUseCases, Depends(get_approvals)]

ApprovalPath = Annotated[
    int, Path(ge=1, le=MAX_INT, description="The number of the approval within the turn")
]


@router.post(api_paths.APPROVAL, summary="Approve or refuse a tool")
async def decide_approval(
    session: str,
    turn: TurnPath,
    approval: ApprovalPath,
    caller: CallerIdentity,
    approvals: Approvals,
    response: Response,
    form: DecideApprovalRequest,
) -> CommandResult:
    """Decide whether a tool may run that waits for it; the turn goes on after the last decision.

    The approvals of a turn stand with its tools in `/history`, those that wait in `open` of the
    session. The same decision again changes nothing, another one is refused.
    """
    done = await approvals.decide_approval(
        caller.create_caller(form),
        session,
        turn,
        approval,
        decision=form.decision,
        reason=form.reason,
    )
    return tag_body(response, done)
