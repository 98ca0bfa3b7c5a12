"""Health routes: `/healthz` for liveness, `/readyz` for readiness, and quarantine.

A gateway is ready when everything that it depends on answers. Quarantine has the sessions whose
read models an event stopped; they are released after a fix.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from turnlog.contract import api_paths
from turnlog.services.api.service_payloads import (
    LivenessView,
    QuarantineRelease,
    QuarantineView,
    ReadinessView,
    StoppedSessionList,
)
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.use_cases.quarantine import Quarantine
from turnlog.services.use_cases.readiness import Readiness

router = APIRouter()


async def get_readiness(request: Request) -> Readiness:
    """Return the use case of readiness."""
    readiness: Readiness = request.app.state.use_cases.readiness
    return readiness


async def get_quarantine(request: Request) -> Quarantine:
    """Return the use cases of quarantine."""
    quarantine: Quarantine = request.app.state.use_cases.quarantine
    return quarantine


StoppedSessions = Annotated[Quarantine, Depends(get_quarantine)]


@router.get("/healthz", summary="Check liveness")
async def check_liveness() -> LivenessView:
    """Return that the process runs."""
    return LivenessView()


@router.get(
    "/readyz",
    responses={503: {"model": ReadinessView}},
    summary="Check readiness",
)
async def check_readiness(
    tenant: RequestTenant,
    readiness: Annotated[Readiness, Depends(get_readiness)],
    response: Response,
) -> ReadinessView:
    """Check all components and return their health, the durability level and the lag."""
    view = await readiness.check_components(tenant)
    response.status_code = 200 if view.ready else 503
    return view


@router.get(api_paths.QUARANTINE, summary="List sessions whose read models are stopped")
async def list_quarantine(tenant: RequestTenant, quarantine: StoppedSessions) -> StoppedSessionList:
    """Return the sessions that an event stopped, with the event and the reason."""
    return await quarantine.list_stopped_sessions(tenant)


@router.get(api_paths.QUARANTINED_SESSION, summary="Show a session's quarantined events")
async def show_quarantine(
    session: str, tenant: RequestTenant, quarantine: StoppedSessions
) -> QuarantineView:
    """Return the events of a stopped session that wait, beginning with the one that stopped it."""
    return await quarantine.load_session(tenant, session)


@router.post(api_paths.RELEASE, summary="Fold a stopped session's events again")
async def release_session(
    session: str, tenant: RequestTenant, quarantine: StoppedSessions
) -> QuarantineRelease:
    """Fold the events that wait, from where the session's rows end, in one transaction.

    If an event stops the session again, the response is 409 with the new reason, and that event
    and the later ones stay in quarantine.
    """
    return await quarantine.release_session(tenant, session)
