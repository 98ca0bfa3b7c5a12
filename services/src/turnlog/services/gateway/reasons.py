"""Reasons over HTTP: what a call was told, by which events, and what it led to.

It is computed from the session's events alone, and holds no text but that of the turn itself;
the prompt that the parts make up is a route of its own.
"""

from __future__ import annotations

from fastapi import APIRouter, Response

from turnlog.projections.audit.why import Why, why_call
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import stamp

router = APIRouter()


@router.get("/v1/sessions/{session}/calls/{call}/why", summary="Why a call was answered so")
async def show_why(
    session: str, call: str, tenant: Tenant, desk: AtDesk, response: Response
) -> Why:
    """Give each part of a call's prompt with the events behind it, and what came of the call."""
    events = await desk.sessions.events(tenant, session)
    stamp(response, events[-1].sequence)
    return why_call(events, call)
