"""The route for the forecast of a session."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from turnlog.contract import api_paths
from turnlog.contract.memory_payloads import ForecastView
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.use_cases.prompts.session_forecasts import SessionForecasts

router = APIRouter()


async def get_forecasts(request: Request) -> SessionForecasts:
    """Return the use case of this application."""
    forecasts: SessionForecasts = request.app.state.use_cases.forecasts
    return forecasts


@router.get(api_paths.FORECAST, summary="Forecast the next cut or summary of a session")
async def forecast_session(
    session: str,
    tenant: RequestTenant,
    forecasts: Annotated[SessionForecasts, Depends(get_forecasts)],
) -> ForecastView:
    """Return after how many turns a prompt is cut, summarised or refused, by which rule.

    Recorded turns of the session and of its blueprint continue it, and the assembler makes their
    prompts. No model is called, and nothing is written.
    """
    return await forecasts.forecast_session(tenant, session)
