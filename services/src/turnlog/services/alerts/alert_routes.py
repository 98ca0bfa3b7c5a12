"""Routes for alerts: list them, set and remove their rules, and read what became of one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.alert_payloads import (
    AlertChangeResult,
    AlertHistory,
    AlertPage,
    AlertResult,
    ApplyAlertsRequest,
)
from turnlog.services.alerts.alert_use_cases import MAX_HISTORY, AlertUseCases
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant

router = APIRouter()


async def get_alerts(request: Request) -> AlertUseCases:
    """Return the use cases of this application."""
    alerts: AlertUseCases = request.app.state.use_cases.alerts
    return alerts


Alerts = Annotated[AlertUseCases, Depends(get_alerts)]

NamePath = Annotated[str, Path(description="The name of the alert")]


@router.get(api_paths.ALERTS, summary="List alerts")
async def list_alerts(tenant: RequestTenant, alerts: Alerts, response: Response) -> AlertPage:
    """List the alerts with their rules and their state now."""
    return tag_body(response, await alerts.list_alerts(tenant))


@router.put(api_paths.ALERTS, summary="Set the rules of alerts")
async def apply_alerts(
    caller: CallerIdentity, alerts: Alerts, form: ApplyAlertsRequest, response: Response
) -> AlertChangeResult:
    """Set rules, all of them or none; a raised alert whose rule changes is cleared."""
    return tag_body(response, await alerts.apply_alerts(caller.create_caller(form), form))


@router.get(api_paths.ALERT, summary="Show an alert")
async def show_alert(
    name: NamePath, tenant: RequestTenant, alerts: Alerts, response: Response
) -> AlertResult:
    """Return an alert with its rule and its state now."""
    return tag_body(response, await alerts.show_alert(tenant, name))


@router.delete(api_paths.ALERT, summary="Remove an alert")
async def remove_alert(
    name: NamePath, caller: CallerIdentity, alerts: Alerts, response: Response
) -> AlertChangeResult:
    """Remove a rule; its alert is cleared if it is raised."""
    return tag_body(response, await alerts.remove_alert(caller.create_caller(), name))


@router.get(api_paths.ALERT_HISTORY, summary="Show the history of an alert")
async def show_alert_history(
    name: NamePath,
    tenant: RequestTenant,
    alerts: Alerts,
    response: Response,
    limit: Annotated[int, Query(ge=1, le=MAX_HISTORY, description="Most events to return")] = 50,
) -> AlertHistory:
    """Return when an alert was raised, cleared and so on, the newest first."""
    return tag_body(response, await alerts.load_history(tenant, name, limit))
