"""Whether a tenant may store another media item, and what of its limit is used.

The last event of the history contains the whole balance. An item reserves its bytes before it is
stored, by compare-and-set, so gateways and workers that store at the same time see each other's and
pass the limit never together. An item counts once, by its digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from turnlog.events.codec import decode_library_event
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.quota_events import (
    MediaBalance,
    MediaCounted,
    MediaLimitEdited,
    MediaLimitEvent,
    MediaReservation,
    MediaReserved,
    MediaSettled,
)

MAX_MEDIA_RESERVATIONS: Final = 100
"""Items of one tenant that may be stored at once, so that an event stays small."""

MEDIA_RESERVATION_AGE: Final = timedelta(minutes=10)
"""After which an item that is still being stored is that of a process that died.

All bytes are there when it is reserved, so it takes seconds to be stored.
"""

NO_MEDIA_LIMIT: Final = MediaBalance()


class MediaLimitReached(Refused):
    """The media of the tenant would have more bytes than its limit; nothing was stored."""

    def __init__(self, balance: MediaBalance, size: int) -> None:
        reserved = sum(each.size for each in balance.reservations)
        beside = f" and {reserved:,} are being stored" if reserved else ""
        super().__init__(
            "media-limit",
            f"of {balance.limit or 0:,} bytes that the media of the tenant may have, "
            f"{balance.stored:,} are used{beside}: there is no room for {size:,}",
            fix="have the limit raised with `turnlog quota media BYTES`",
        )


@dataclass(frozen=True, slots=True)
class TenantMedia:
    """The media balance of a tenant, after an event."""

    head: ChainHead | None = None
    """The last event; None before the first."""
    balance: MediaBalance = NO_MEDIA_LIMIT


def read_media_balance(recorded: RecordedEvent) -> TenantMedia:
    """Return the balance after an event."""
    event = decode_library_event(recorded)
    if not isinstance(event, MediaLimitEvent):
        raise Corrupt(f"LIBRARY, stream sequence {recorded.stream_sequence}", "it has no balance")
    return TenantMedia(recorded.head, event.balance)


def find_media_reservation(balance: MediaBalance, digest: Digest) -> MediaReservation | None:
    """Return the reservation of an item that is being stored, or None."""
    return next((each for each in balance.reservations if each.digest == digest), None)


def list_old_reservations(balance: MediaBalance, at: datetime) -> list[MediaReservation]:
    """Return the items whose process has died before they were settled."""
    latest = at - MEDIA_RESERVATION_AGE
    return [each for each in balance.reservations if datetime.fromisoformat(each.at) < latest]


@dataclass(frozen=True, slots=True)
class MediaCount:
    """What a tenant has stored, without what its balance has as being stored."""

    stored: int = 0
    """Bytes."""
    items: int = 0


def edit_media_limit(
    balance: MediaBalance, limit: int | None, count: MediaCount, at: datetime
) -> MediaLimitEvent | None:
    """Return the event of another limit, or None if it is the same.

    `count` is what is stored now, for a tenant that had no limit: it was not counted. An upload
    that is running then has not reserved anything, so the media are counted again when it has
    ended.
    """
    if balance.limit == limit:
        return None
    update: dict[str, object] = {"limit": limit}
    if limit is None:
        update["recount_at"] = None
    elif balance.limit is None:
        update |= {
            "stored": count.stored,
            "items": count.items,
            "recount_at": (at + MEDIA_RESERVATION_AGE).isoformat(),
        }
    return MediaLimitEdited(balance=balance.model_copy(update=update))


def is_recount_due(balance: MediaBalance, at: datetime) -> bool:
    """Return whether the media are to be counted again before anything else is reserved."""
    return balance.recount_at is not None and datetime.fromisoformat(balance.recount_at) <= at


def count_media(balance: MediaBalance, count: MediaCount) -> MediaLimitEvent:
    """Return the event by which that counts which is stored."""
    update = {"stored": count.stored, "items": count.items, "recount_at": None}
    return MediaCounted(balance=balance.model_copy(update=update))


def reserve_media(balance: MediaBalance, wanted: MediaReservation) -> MediaLimitEvent | None:
    """Return the event that reserves the bytes of an item.

    None if there is no limit, or if another process is storing the same item. Raises
    `MediaLimitReached`, and `Refused` `busy` while too many items are being stored.
    """
    if balance.limit is None or find_media_reservation(balance, wanted.digest):
        return None
    reserved = sum(each.size for each in balance.reservations)
    if balance.stored + reserved + wanted.size > balance.limit:
        raise MediaLimitReached(balance, wanted.size)
    if len(balance.reservations) >= MAX_MEDIA_RESERVATIONS:
        detail = f"{MAX_MEDIA_RESERVATIONS} pictures, recordings and files are being stored"
        raise Refused("busy", detail, fix="send it again when one of them is stored")
    update = {"reservations": (*balance.reservations, wanted)}
    return MediaReserved(reservation=wanted, balance=balance.model_copy(update=update))


def settle_media(
    balance: MediaBalance, digest: Digest, *, is_stored: bool
) -> MediaLimitEvent | None:
    """Return the event by which an item counts, or is given up; None if it is settled."""
    found = find_media_reservation(balance, digest)
    if found is None:
        return None
    after = balance.model_copy(
        update={
            "stored": balance.stored + (found.size if is_stored else 0),
            "items": balance.items + is_stored,
            "reservations": tuple(each for each in balance.reservations if each is not found),
        }
    )
    return MediaSettled(digest=digest, is_stored=is_stored, balance=after)
