"""Events of the session family: it opens, is moved, goes on by another profile, and closes."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, JsonValue

from turnlog.events.content import Digest
from turnlog.events.fact import Fact


class BlueprintRef(Fact):
    """Which blueprint a session is made from, pinned by digest."""

    name: str
    """Name within the library."""
    version: int
    """The version its author gave it."""
    digest: Digest
    """Digest of the blob that holds the whole structure."""


class Origin(Fact):
    """Where a session comes from when it was not opened from nothing."""

    kind: Literal["parent", "fork"]
    """A coordinator's child, or a fork."""
    session: str
    """The session it came from."""
    sequence: int
    """That session's sequence at which it came away."""


class SessionOpened(Fact):
    """A session exists from here on."""

    type: ClassVar[str] = "turnlog.session-opened.v1"
    leaf: ClassVar[str] = "session"

    blueprint: BlueprintRef
    """The structure the session runs by, whatever becomes of the files."""
    profile: str
    """The profile it starts with."""
    attributes: dict[str, JsonValue]
    """What was given at opening, checked against the blueprint."""
    reach: int
    """Characters of history the widest window of this blueprint can hold; 0 is without end."""
    cartridge: Digest | None = None
    """The data of one task, pinned, where the blueprint takes one."""
    origin: Origin | None = None
    """The parent or the fork it came from."""
    key: dict[str, str] = Field(default_factory=dict)
    """What it is found by, where its id is a digest of that."""
    memory: Digest | None = None
    """What of its turns is remembered, pinned, where the blueprint says."""
    warnings: tuple[str, ...] = ()
    """What was wrong with the blueprint's files, and what stands in for them."""
    drawn: str | None = None
    """By which session's id variants are drawn, where not by its own: a fork keeps its origin's."""


class BlueprintMoved(Fact):
    """The session runs by another version of its blueprint from here on.

    It says in full what the session is made from now, as its opening did. Prompt files are pinned
    anew by the next call; what was said, and every prompt so far, stays what it is.
    """

    type: ClassVar[str] = "turnlog.blueprint-moved.v1"
    leaf: ClassVar[str] = "session"

    before: BlueprintRef
    """What it ran by until now."""
    blueprint: BlueprintRef
    """What it runs by from here on; of the same name."""
    attributes: dict[str, JsonValue]
    """Those of its opening as the new version takes them, with its defaults."""
    reach: int
    """Characters of history the widest window of the new version can hold; 0 is without end."""
    cartridge: Digest | None = None
    """The data of its task as it is pinned now."""
    memory: Digest | None = None
    """What of its turns is remembered, as it is pinned now."""
    released: tuple[str, ...] = ()
    """Providers whose prompt files are no longer pinned."""
    warnings: tuple[str, ...] = ()
    """What was wrong with the new version's files, and what stands in for them."""


class ProfileSwitched(Fact):
    """The session runs by another profile, or by another model, from its next turn on."""

    type: ClassVar[str] = "turnlog.profile-switched.v1"
    leaf: ClassVar[str] = "session"

    profile: str
    """What it runs by from here on."""
    before: str
    """What it ran by until now."""
    reason: Literal["asked", "phase"]
    """Whether a caller wished it, or the phase that is entered next names it."""
    model: str | None = None
    """What answers in place of the profile's own model; none where that one does."""


class SessionClosed(Fact):
    """Nothing may be submitted any more; everything stays readable."""

    type: ClassVar[str] = "turnlog.session-closed.v1"
    leaf: ClassVar[str] = "session"

    reason: str
    """Given by whoever closed it."""
