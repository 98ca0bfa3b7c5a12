"""Events of prompt overrides: a user's own texts in place of the prompt files of a blueprint.

All overrides of a tenant share one history. A text is a blob, and the events have its digest. Each
place (blueprint, category, profile and provider) counts its own versions, also across a removal.
"""

from __future__ import annotations

from typing import ClassVar, Final

from turnlog.events.content import Digest, WordDigest
from turnlog.events.event_model import EventModel

OVERRIDE_FAMILY: Final = "prompt-overrides"
"""The history of the overrides of all users of a tenant."""


class UserOverride(EventModel):
    """A user's own text of a prompt category, in one version."""

    category: str
    """The category of the prompt file that it stands for."""
    profile: str | None = None
    """The only profile it is for; None if it is for all."""
    provider: str | None = None
    """The only provider it is for; None if it is for all."""
    version: int
    """The version of this user's text at this place, from 1."""
    digest: Digest
    """Digest of the blob, which is the text in UTF-8; keyed where the library is sealed."""
    sealed_in: int | None = None
    """Sequence of the event that set it, where the text is under its key; None if it is not
    sealed.
    """


class OverrideSet(EventModel):
    """A user has an own text from the next turn on."""

    type: ClassVar[str] = "turnlog.override-set.v1"
    leaf: ClassVar[str] = "set"

    user: str
    """The user's name."""
    blueprint: str
    """The name of the blueprint."""
    override: UserOverride
    """The text; it replaces that of an earlier version."""
    characters: int
    """Its length in code points."""
    text_digest: WordDigest | None = None
    """Digest of the text where that of the override is keyed; None where it is not."""


class OverrideRemoved(EventModel):
    """A user's text counts no more from the next turn on."""

    type: ClassVar[str] = "turnlog.override-removed.v1"
    leaf: ClassVar[str] = "removed"

    user: str
    """The user's name."""
    blueprint: str
    """The name of the blueprint."""
    override: UserOverride
    """The version that was removed; turns that used it still name its text."""


OverrideEvent = OverrideSet | OverrideRemoved
"""The events of prompt overrides that this release writes and reads."""
