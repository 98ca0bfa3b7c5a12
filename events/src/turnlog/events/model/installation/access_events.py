"""Events of keys: who may sign in to an installation, for which tenant, and with which roles.

All keys of an installation share one history, so that a key is found without its tenant. No event
has a key: only its SHA-256, which suffices since a key has 256 random bits.
"""

from __future__ import annotations

from typing import ClassVar, Final

from turnlog.events.content import Digest
from turnlog.events.event_model import EventModel

INSTALLATION_TENANT: Final = "_installation"
"""The tenant that the library of the installation itself belongs to; no sessions have it."""

ACCESS_FAMILY: Final = "access"
"""The history of the keys of an installation."""


class KeyCreated(EventModel):
    """A key may sign in from now on."""

    type: ClassVar[str] = "turnlog.key-created.v1"
    leaf: ClassVar[str] = "created"

    id: str
    """The readable part of the key, which never changes."""
    name: str
    """Its name, which no other key of the tenant has."""
    tenant: str
    """The tenant that it signs in to."""
    roles: tuple[str, ...]
    """What it may do."""
    user: str | None = None
    """The user whom it signs in; null for an application that acts for all users."""
    hash: Digest
    """SHA-256 of the key."""
    expires: str | None = None
    """When it signs in no more, RFC 3339; null for never."""


class KeyRotated(EventModel):
    """The secret part of a key is another one from now on."""

    type: ClassVar[str] = "turnlog.key-rotated.v1"
    leaf: ClassVar[str] = "rotated"

    id: str
    """The readable part of the key."""
    hash: Digest
    """SHA-256 of the new key."""
    previous_until: str
    """Until when the key before it signs in, RFC 3339."""
    expires: str | None = None
    """When the new key signs in no more, RFC 3339; null for never."""


class KeyRevoked(EventModel):
    """A key signs in no more."""

    type: ClassVar[str] = "turnlog.key-revoked.v1"
    leaf: ClassVar[str] = "revoked"

    id: str
    """The readable part of the key."""


class KeyUsed(EventModel):
    """A key signed in for the first time on a day."""

    type: ClassVar[str] = "turnlog.key-used.v1"
    leaf: ClassVar[str] = "used"

    id: str
    """The readable part of the key."""
    at: str
    """When, RFC 3339."""


AccessEvent = KeyCreated | KeyRotated | KeyRevoked | KeyUsed
"""The events of keys that this release writes and reads."""
