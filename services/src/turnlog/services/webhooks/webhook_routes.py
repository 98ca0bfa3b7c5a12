"""Routes for webhooks: add, list, pause, resume and remove them, and see their deliveries."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.webhook_payloads import (
    AddedWebhook,
    AddWebhookRequest,
    RedeliverWebhookRequest,
    WebhookDeliveries,
    WebhookPage,
    WebhookResult,
)
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.webhooks.webhook_use_cases import WebhookUseCases

router = APIRouter()


async def get_webhooks(request: Request) -> WebhookUseCases:
    """Return the use cases of this application."""
    webhooks: WebhookUseCases = request.app.state.use_cases.webhooks
    return webhooks


Webhooks = Annotated[WebhookUseCases, Depends(get_webhooks)]

NamePath = Annotated[str, Path(description="The name of the webhook")]


@router.get(api_paths.WEBHOOKS, summary="List webhooks")
async def list_webhooks(
    tenant: RequestTenant, webhooks: Webhooks, response: Response
) -> WebhookPage:
    """List the webhooks with how far each has got."""
    return tag_body(response, await webhooks.list_webhooks(tenant))


@router.post(api_paths.WEBHOOKS, status_code=201, summary="Add a webhook")
async def add_webhook(
    caller: CallerIdentity, webhooks: Webhooks, form: AddWebhookRequest, response: Response
) -> AddedWebhook:
    """Deliver events to an address from now on; only this answer has the secret."""
    response.headers["Cache-Control"] = "no-store"
    return tag_body(response, await webhooks.add_webhook(caller.create_caller(form), form))


@router.delete(api_paths.WEBHOOK, summary="Remove a webhook")
async def remove_webhook(
    name: NamePath, caller: CallerIdentity, webhooks: Webhooks, response: Response
) -> WebhookResult:
    """Remove a webhook; returns what it was, and how far it got."""
    return tag_body(response, await webhooks.remove_webhook(caller.create_caller(), name))


@router.get(api_paths.WEBHOOK_DELIVERIES, summary="Show the deliveries of a webhook")
async def show_deliveries(
    name: NamePath, tenant: RequestTenant, webhooks: Webhooks, response: Response
) -> WebhookDeliveries:
    """Return how far a webhook has got, with every session that is behind."""
    return tag_body(response, await webhooks.load_deliveries(tenant, name))


@router.post(api_paths.PAUSE_WEBHOOK, summary="Pause a webhook")
async def pause_webhook(
    name: NamePath, caller: CallerIdentity, webhooks: Webhooks, response: Response
) -> WebhookResult:
    """Deliver nothing until the webhook is resumed."""
    return tag_body(response, await webhooks.pause_webhook(caller.create_caller(), name))


@router.post(api_paths.RESUME_WEBHOOK, summary="Resume a webhook")
async def resume_webhook(
    name: NamePath, caller: CallerIdentity, webhooks: Webhooks, response: Response
) -> WebhookResult:
    """Deliver from where the webhook was, also if a deliverer stopped it by itself."""
    return tag_body(response, await webhooks.resume_webhook(caller.create_caller(), name))


@router.post(api_paths.REDELIVER_WEBHOOK, summary="Deliver again what was given up")
async def redeliver_webhook(
    name: NamePath,
    caller: CallerIdentity,
    webhooks: Webhooks,
    form: RedeliverWebhookRequest,
    response: Response,
) -> WebhookResult:
    """Deliver the sessions that were given up, from where each of them was."""
    done = await webhooks.redeliver_webhook(caller.create_caller(form), name, form)
    return tag_body(response, done)
