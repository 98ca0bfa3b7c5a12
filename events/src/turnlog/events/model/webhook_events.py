"""Events of webhooks: who subscribes to which events, and how far each has got them.

All subscriptions of a tenant share one history. How far a subscription has got has a history for
each of them; each of its events contains the whole place after it, so that a reader needs only the
last one. No event has the secret that deliveries are signed with, or the text of a delivery.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from turnlog.events.event_model import EventModel

WEBHOOK_FAMILY: Final = "webhooks"
"""The history of the subscriptions of a tenant."""

PLACE_FAMILY_FORM: Final = "webhook-place-ID"
"""How the history of a place is written where it is no subscription's in particular."""


def build_place_family(webhook_id: str) -> str:
    """Return the history of how far a subscription has got."""
    return f"webhook-place-{webhook_id}"


class WebhookFilter(EventModel):
    """Which events a subscription gets: those that meet all that is given."""

    types: tuple[str, ...] = ()
    """Names of events, such as `turn-completed`; empty for all."""
    blueprint: str | None = None
    """The name of the blueprint that the session was opened with; null for any."""
    attributes: dict[str, str] = Field(default_factory=dict)
    """Values of attributes that the session was opened with, as text."""
    alerts: bool = False
    """Whether it gets the events of alerts instead of those of sessions."""


class WebhookAdded(EventModel):
    """Events are delivered to an address from now on."""

    type: ClassVar[str] = "turnlog.webhook-added.v1"
    leaf: ClassVar[str] = "added"

    name: str
    """The name of the subscription, which no other one has."""
    id: str
    """The id of the subscription: another one that has its name later has another id."""
    url: str
    """The address."""
    filter: WebhookFilter = WebhookFilter()
    """Which events it gets."""
    after: int
    """The stream sequence in `SESSIONS`, or in `ALERTS`, after which its events begin."""
    key: str
    """A sign of the key of the installation that its secret is derived from, not the key itself."""


class WebhookPaused(EventModel):
    """Nothing is delivered until the subscription is resumed."""

    type: ClassVar[str] = "turnlog.webhook-paused.v1"
    leaf: ClassVar[str] = "paused"

    name: str
    """The name of the subscription."""
    id: str
    """The id of the subscription."""


class WebhookResumed(EventModel):
    """Deliveries go on from where the subscription was; what had failed is tried at once."""

    type: ClassVar[str] = "turnlog.webhook-resumed.v1"
    leaf: ClassVar[str] = "resumed"

    name: str
    """The name of the subscription."""
    id: str
    """The id of the subscription."""


class WebhookRedeliveryRequested(EventModel):
    """Sessions that were given up are delivered from where each of them was."""

    type: ClassVar[str] = "turnlog.webhook-redelivery-requested.v1"
    leaf: ClassVar[str] = "redelivery"

    name: str
    """The name of the subscription."""
    id: str
    """The id of the subscription."""
    session: str | None = None
    """The only session that is meant; null for all that were given up."""


class WebhookRemoved(EventModel):
    """The subscription is over."""

    type: ClassVar[str] = "turnlog.webhook-removed.v1"
    leaf: ClassVar[str] = "removed"

    name: str
    """The name of the subscription."""
    id: str
    """The id of the subscription."""


class DeliveryFailure(EventModel):
    """Why a delivery failed."""

    at: str
    """When, RFC 3339."""
    position: int
    """The stream sequence of the event; 0 where no event was delivered."""
    status: int | None = None
    """The HTTP status of the answer; null without an answer."""
    detail: str
    """What was wrong, in words; no part of an answer's body."""


class SessionPlace(EventModel):
    """A session whose deliveries are behind those of the others, because one of them failed."""

    session: str
    """The session, or the name of the alert."""
    after: int
    """The stream sequence up to which the session is delivered."""
    upto: int
    """The stream sequence of its last event that is to be delivered."""
    tries: int = 0
    """How often the next event was tried."""
    failing_since: str | None = None
    """When the first try failed, RFC 3339; null where none has."""
    next_try: str | None = None
    """When it is tried again, RFC 3339; null for at once."""
    given_up: bool = False
    """Whether it is tried no more until that is requested."""
    failure: DeliveryFailure | None = None
    """The last failure."""


class WebhookPlace(EventModel):
    """How far a subscription has got."""

    after: int
    """The stream sequence up to which everything is delivered, but for the sessions that are
    behind: the cursor of `GET /v1/events?after=`, or a place in `ALERTS`.
    """
    behind: tuple[SessionPlace, ...] = ()
    """The sessions that are behind, with a place of their own."""
    delivered: int = 0
    """How many deliveries were accepted."""
    delivered_at: str | None = None
    """When the last one was accepted, RFC 3339."""
    stopped: DeliveryFailure | None = None
    """Why nothing is delivered until the subscription is resumed; null where it is."""
    handled: int = 0
    """The sequence of the last event of the subscriptions that was taken into account."""
    claim: int = 0
    """The number of the claim under which it was written; a lower one counts no more."""


class WebhookClaimed(EventModel):
    """A process delivers from now on, and none before it any more."""

    type: ClassVar[str] = "turnlog.webhook-claimed.v1"
    leaf: ClassVar[str] = "claimed"

    name: str
    """The name of the subscription."""
    deliverer: str
    """The process."""
    place: WebhookPlace
    """The place after it."""


class WebhookAdvanced(EventModel):
    """Deliveries were accepted, or failed and are tried again."""

    type: ClassVar[str] = "turnlog.webhook-advanced.v1"
    leaf: ClassVar[str] = "advanced"

    name: str
    """The name of the subscription."""
    place: WebhookPlace
    """The place after it."""


class WebhookGaveUp(EventModel):
    """A session, or the whole subscription, is tried no more until a command says so."""

    type: ClassVar[str] = "turnlog.webhook-gave-up.v1"
    leaf: ClassVar[str] = "gave-up"

    name: str
    """The name of the subscription."""
    session: str | None = None
    """The session; null for the whole subscription."""
    failure: DeliveryFailure
    """Why."""
    place: WebhookPlace
    """The place after it."""


WebhookSubscriptionEvent = (
    WebhookAdded | WebhookPaused | WebhookResumed | WebhookRedeliveryRequested | WebhookRemoved
)
"""The events of subscriptions that this release writes and reads."""

WebhookPlaceEvent = WebhookClaimed | WebhookAdvanced | WebhookGaveUp
"""The events of how far a subscription has got."""

WebhookEvent = WebhookSubscriptionEvent | WebhookPlaceEvent
"""The events of webhooks that this release writes and reads."""
