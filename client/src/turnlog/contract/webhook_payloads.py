"""Requests and responses of webhooks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.contract.payload_models import (
    ADDED_FIELD,
    MAX_INT,
    RequestModel,
    ResponseModel,
)

WebhookName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", min_length=1, max_length=64)]

WebhookStatus = Literal["active", "paused", "stopped"]
"""`stopped` is what a deliverer does by itself, after a whole series of failed deliveries."""


class WebhookFilterFields(RequestModel):
    """Which events a webhook gets: those that meet all that is given."""

    types: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=100)] = []
    """Names of events, such as `turn-completed`; empty for all."""
    blueprint: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The name of the blueprint that the session was opened with."""
    attributes: Annotated[
        dict[str, Annotated[str, Field(max_length=1_000)]], Field(max_length=32)
    ] = {}
    """Values of attributes that the session was opened with, as text."""


class AddWebhookRequest(WebhookFilterFields):
    """Adds a webhook."""

    alerts: Annotated[Literal[True] | None, ADDED_FIELD] = None
    """True for the events of alerts instead of those of sessions: without `types` those that warn,
    are raised, remind and are cleared.
    """

    name: WebhookName
    """Its name."""
    url: Annotated[str, Field(min_length=1, max_length=2_000)]
    """The address that events are posted to; its origin is one of `TURNLOG_WEBHOOK_TARGETS`."""
    after: Annotated[int, Field(ge=0, le=MAX_INT)] | None = None
    """The position after which its events begin, as `/v1/events?after=` takes it; by default they
    begin with what comes from now on.
    """


class RedeliverWebhookRequest(RequestModel):
    """Has sessions delivered that were given up."""

    session: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """The only session that is meant; by default all that were given up."""


class DeliveryFailureView(ResponseModel):
    """Why a delivery failed."""

    at: str
    """When, RFC 3339."""
    position: int
    """The position of the event in `/v1/events`, or in the stream of alerts; 0 where no event was
    delivered.
    """
    status: int | None
    """The HTTP status of the answer; null without an answer."""
    detail: str
    """What was wrong."""


class WebhookView(ResponseModel):
    """A webhook, and how far it has got."""

    name: str
    """Its name."""
    id: str
    """Its id, which its deliveries name."""
    url: str
    """The address that events are posted to."""
    alerts: bool
    """Whether it gets events of alerts instead of those of sessions."""
    types: tuple[str, ...]
    """Names of the events that it gets; empty for all."""
    blueprint: str | None
    """The blueprint whose sessions it gets; null for any."""
    attributes: dict[str, str]
    """Values of attributes of the sessions that it gets."""
    added_at: str
    """When it was added, RFC 3339."""
    status: WebhookStatus
    """Whether events are delivered."""
    after: int
    """The position up to which everything is delivered, but for sessions that are behind."""
    waiting: int
    """Positions of the log after that one, which other events have too."""
    delivered: int
    """How many deliveries were accepted."""
    delivered_at: str | None
    """When the last one was accepted, RFC 3339."""
    behind: int
    """Sessions that are tried again."""
    given_up: int
    """Sessions that are tried no more until that is requested."""
    failure: DeliveryFailureView | None
    """Why it was stopped, or the latest failure of a session that is behind."""


class WebhookPage(ResponseModel):
    """The webhooks."""

    sequence: int
    """The sequence of the last command on any of them; 0 before the first."""
    webhooks: tuple[WebhookView, ...]
    """By name."""


class WebhookResult(ResponseModel):
    """A webhook after a command."""

    sequence: int
    """The sequence of the last command on any webhook."""
    webhook: WebhookView


class AddedWebhook(WebhookResult):
    """A webhook that was added."""

    secret: str | None
    """What its deliveries are signed with (`whsec_...`); no other answer has it. Null where the
    same request is repeated later than ten minutes after it was carried out.
    """


class SessionDeliveryView(ResponseModel):
    """A session whose deliveries are behind those of the others, because one of them failed."""

    session: str
    """The session, or the name of the alert."""
    after: int
    """The position up to which the session is delivered."""
    upto: int
    """The position of its last event that is to be delivered."""
    tries: int
    """How often the next event was tried."""
    failing_since: str | None
    """When the first try failed, RFC 3339."""
    next_try: str | None
    """When it is tried again, RFC 3339; null for at once, or for never where it was given up."""
    given_up: bool
    """Whether it is tried no more until that is requested."""
    failure: DeliveryFailureView | None
    """The last failure."""


class WebhookDeliveries(WebhookResult):
    """How far a webhook has got, with every session that is behind."""

    sessions: tuple[SessionDeliveryView, ...]
    """Those that are behind or were given up, by their position."""
