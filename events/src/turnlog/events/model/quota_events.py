"""Events of quotas: the limits of a tenant's users, and what their turns reserve and use.

All limits of a tenant share one history. What a user's turns use has a history for each user and
month; each of its events contains the whole balance after it, so that a reader needs only the last
one, however many there were.

What a tenant may store of media has a history of its own; its events contain the whole balance too.
Nothing is recorded for a tenant without such a limit.
"""

from __future__ import annotations

from typing import ClassVar, Final

from turnlog.events.content import Digest, compute_digest
from turnlog.events.event_model import EventModel

QUOTA_LIMITS_FAMILY: Final = "quota-limits"
"""The history of the limits of all users of a tenant."""


BALANCE_FAMILY_FORM: Final = "quota-PERIOD-USER"
"""How the history of a balance is written where it is no user's in particular."""


def build_balance_family(user: str, period: str) -> str:
    """Return the history of a user's balance in a month, such as `2026-11`.

    A name may have characters that a subject cannot have, so its digest stands for it.
    """
    return f"quota-{period}-{compute_digest(user).removeprefix('sha256:')[:40]}"


class QuotaLimits(EventModel):
    """What a user may use; without a limit, as much as they like."""

    input_tokens: int | None = None
    """Tokens sent to models in a calendar month, UTC."""
    output_tokens: int | None = None
    """Tokens received from models in a calendar month, UTC."""
    requests_per_hour: int | None = None
    """Turns that may begin in a clock hour, UTC."""
    requests_per_day: int | None = None
    """Turns that may begin in a calendar day, UTC."""

    def drop_token_limits(self) -> QuotaLimits:
        """Return the limits of a turn that calls no model."""
        return self.model_copy(update={"input_tokens": None, "output_tokens": None})


class QuotaTokens(EventModel):
    """Tokens that are sent and received."""

    input_tokens: int
    """Tokens sent to models."""
    output_tokens: int
    """Tokens received from models."""


class QuotaReservation(EventModel):
    """What a turn may use at most, while it is not settled."""

    id: str
    """The id that the turn's own event names too."""
    session: str
    """The session of the turn."""
    turn: int
    """The turn number."""
    after: int
    """The sequence of the session before the turn was submitted."""
    at: str
    """When it was reserved, RFC 3339."""
    input_tokens: int
    """Tokens that its calls may send at most, or those it has sent where `paused`."""
    output_tokens: int
    """Tokens that its calls may receive at most, or those it has received where `paused`."""
    child: bool = False
    """Whether a coordinator asks for the turn; it is then no request of the user, and not refused.
    """
    paused: QuotaTokens | None = None
    """What it reserves again once its turn goes on; None unless the turn waits for a person or for
    its children.
    """


class QuotaBalance(EventModel):
    """What a user used and reserved in a month."""

    input_tokens: int = 0
    """Tokens sent by settled turns."""
    output_tokens: int = 0
    """Tokens received by settled turns."""
    hour: str = ""
    """The hour of the latest turn, such as `2026-11-23T08`."""
    hour_requests: int = 0
    """Turns that began in that hour."""
    day: str = ""
    """The day of the latest turn, such as `2026-11-23`."""
    day_requests: int = 0
    """Turns that began on that day."""
    reservations: tuple[QuotaReservation, ...] = ()
    """The turns that are not settled yet."""


class QuotaEdited(EventModel):
    """A user has other limits from the next turn on."""

    type: ClassVar[str] = "turnlog.quota-edited.v1"
    leaf: ClassVar[str] = "edited"

    user: str
    """The user's name."""
    limits: QuotaLimits = QuotaLimits()
    """All limits; a user without any has no quota."""


class QuotaReserved(EventModel):
    """A turn reserved what it may use, before it was submitted; or it waits, or goes on."""

    type: ClassVar[str] = "turnlog.quota-reserved.v1"
    leaf: ClassVar[str] = "reserved"

    user: str
    """The user's name."""
    reservation: QuotaReservation
    """The reservation; one of the same id is replaced."""
    balance: QuotaBalance
    """The balance after it."""


class QuotaSettled(EventModel):
    """A turn is over; what it used replaces what it had reserved."""

    type: ClassVar[str] = "turnlog.quota-settled.v1"
    leaf: ClassVar[str] = "settled"

    user: str
    """The user's name."""
    reservation: str
    """The id of the reservation."""
    input_tokens: int = 0
    """Tokens sent by all attempts of the turn."""
    output_tokens: int = 0
    """Tokens received by all attempts of the turn."""
    balance: QuotaBalance
    """The balance after it."""


class QuotaReleased(EventModel):
    """A turn was not submitted after all; nothing is left of its reservation."""

    type: ClassVar[str] = "turnlog.quota-released.v1"
    leaf: ClassVar[str] = "released"

    user: str
    """The user's name."""
    reservation: str
    """The id of the reservation."""
    balance: QuotaBalance
    """The balance after it."""


QuotaEvent = QuotaEdited | QuotaReserved | QuotaSettled | QuotaReleased
"""The events of quotas that this release writes and reads."""


MEDIA_LIMIT_FAMILY: Final = "media-limit"
"""The history of a tenant's limit of media."""


class MediaReservation(EventModel):
    """A media item that is being stored."""

    digest: Digest
    """The digest of its bytes."""
    size: int
    """Its bytes."""
    at: str
    """When it was reserved, RFC 3339."""


class MediaBalance(EventModel):
    """What a tenant may store, and what it has stored."""

    limit: int | None = None
    """Bytes that all media of the tenant may have together; null is unlimited."""
    stored: int = 0
    """Bytes of the media that are stored, each once; not counted without a limit."""
    items: int = 0
    """How many those are."""
    reservations: tuple[MediaReservation, ...] = ()
    """The items that are being stored."""
    recount_at: str | None = None
    """When the media are counted again, RFC 3339: once after the tenant got its first limit."""


class MediaLimitEdited(EventModel):
    """The tenant has another limit from the next upload on."""

    type: ClassVar[str] = "turnlog.media-limit-edited.v1"
    leaf: ClassVar[str] = "edited"

    balance: MediaBalance
    """The balance after it, with the new limit."""


class MediaReserved(EventModel):
    """Bytes that have arrived are allowed, and are being stored."""

    type: ClassVar[str] = "turnlog.media-reserved.v1"
    leaf: ClassVar[str] = "reserved"

    reservation: MediaReservation
    """The item."""
    balance: MediaBalance
    """The balance after it."""


class MediaSettled(EventModel):
    """A media item is stored, or it is given up."""

    type: ClassVar[str] = "turnlog.media-settled.v1"
    leaf: ClassVar[str] = "settled"

    digest: Digest
    """The digest of the item."""
    is_stored: bool
    """Whether it is stored and counts from now on; otherwise it is given up."""
    balance: MediaBalance
    """The balance after it."""


class MediaCounted(EventModel):
    """All media of the tenant were counted again, with those that had no limit to reserve from."""

    type: ClassVar[str] = "turnlog.media-counted.v1"
    leaf: ClassVar[str] = "counted"

    balance: MediaBalance
    """The balance after it, with what is stored."""


MediaLimitEvent = MediaLimitEdited | MediaReserved | MediaSettled | MediaCounted
"""The events of media limits that this release writes and reads."""
