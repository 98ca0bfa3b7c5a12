"""Events of a session as a whole: opened, described, moved, in another phase, closed and so on."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from turnlog.events.content import (
    SEALED,
    Content,
    Digest,
    PersonName,
    WordList,
    Words,
    WordValues,
)
from turnlog.events.event_model import EventModel


class BlueprintRef(EventModel):
    """The blueprint that a session uses, pinned by digest."""

    name: str
    """Name within the blueprint folders."""
    version: int
    """The version number that its author assigned."""
    digest: Digest
    """Digest of the blob that holds the complete blueprint."""


class SessionOrigin(EventModel):
    """The session that a child session or a fork was created from."""

    kind: Literal["parent", "fork"]
    """Whether this is a coordinator's child session or a fork."""
    session: str
    """Id of the original session."""
    sequence: int
    """Sequence of the original session at which this one was created."""


class SessionOpened(EventModel):
    """A session was opened."""

    type: ClassVar[str] = "turnlog.session-opened.v1"
    leaf: ClassVar[str] = "session"
    sentence: ClassVar[str] = (
        "{blueprint.name} v{blueprint.version} · profile {profile}[ · {attributes|assignments}]"
        "[ · {title|content}][ · labels {labels|list}]"
    )

    blueprint: BlueprintRef
    """The pinned blueprint; later changes of the files have no effect."""
    profile: str
    """The initial profile."""
    attributes: WordValues
    """Attributes given at opening, validated against the blueprint."""
    reach: int
    """Maximum characters of history in the widest window of this blueprint; 0 means no limit."""
    cartridge: Digest | None = None
    """Digest of the pinned cartridge (the data of one task), if the blueprint uses one."""
    origin: SessionOrigin | None = None
    """The parent or the original of a fork."""
    key: Annotated[dict[str, str], SEALED] = Field(default_factory=dict)
    """The session key fields, if the session id is a digest of them."""
    memory: Digest | None = None
    """Digest of the pinned memory policy, if the blueprint has one."""
    warnings: tuple[str, ...] = ()
    """Problems found in the blueprint's files, and the defaults used for them."""
    drawn: str | None = None
    """Session id used to choose segment variants instead of this one; a fork keeps its origin's."""
    title: Content | None = None
    """The title given at opening; no prompt includes it."""
    labels: WordList = ()
    """The labels given at opening, each once."""
    metadata: WordValues = Field(default_factory=dict)
    """The application's own values; they are stored and returned, and never interpreted."""
    owner: PersonName | None = None
    """The user whose session it is; null for one that belongs to no user."""
    sealed_under: int | None = None
    """Generation of the key that those of the session were wrapped under when it was opened; null
    for a session that is not sealed.
    """


class SessionDescribed(EventModel):
    """The title, the labels or the metadata of the session changed.

    A field that is absent is unchanged, and one that is present replaces the value before it; an
    empty value means that there is none any more.
    """

    type: ClassVar[str] = "turnlog.session-described.v1"
    leaf: ClassVar[str] = "session"
    sentence: ClassVar[str] = (
        "now[ titled {title|content}][ · {labels|count:label}][: {labels|list}]"
        "[ · metadata {metadata|keys}]"
    )

    title: Content | None = None
    """The new title; empty if the session has none from now on."""
    labels: WordList | None = None
    """All labels from now on."""
    metadata: WordValues | None = None
    """All metadata from now on."""


SharedAccess = Literal["read", "submit"]
"""What a user may do in a session of another one: read it, or take part in it."""


class ShareChanged(EventModel):
    """The session is shared with another user, in another way than before, or no more."""

    type: ClassVar[str] = "turnlog.share-changed.v1"
    leaf: ClassVar[str] = "session"
    sentence: ClassVar[str] = "{user} · {access}"

    user: PersonName
    """The user who is let in."""
    access: Literal[SharedAccess, "none"]
    """What the user may do from now on; `none` ends it."""


class BlueprintMoved(EventModel):
    """The session uses another version of its blueprint from now on.

    The event states in full what the session now uses, as its opening did. The next call pins
    prompt files again. Earlier texts and prompts do not change.
    """

    type: ClassVar[str] = "turnlog.blueprint-moved.v1"
    leaf: ClassVar[str] = "session"
    sentence: ClassVar[str] = (
        "{blueprint.name} v{before.version} → v{blueprint.version} · {blueprint.digest|digest}"
        "[ · new snapshots of prompts for {released|list}]"
    )

    before: BlueprintRef
    """The blueprint version used until now."""
    blueprint: BlueprintRef
    """The blueprint version used from now on; it has the same name."""
    attributes: WordValues
    """The attributes of the opening as the new version reads them, with its defaults."""
    reach: int
    """Maximum characters of history in the widest window of the new version; 0 means no limit."""
    cartridge: Digest | None = None
    """Digest of the cartridge that is pinned now."""
    memory: Digest | None = None
    """Digest of the memory policy that is pinned now."""
    released: tuple[str, ...] = ()
    """Providers whose prompt files are no longer pinned."""
    warnings: tuple[str, ...] = ()
    """Problems found in the new version's files, and the defaults used for them."""


class ProfileSwitched(EventModel):
    """The session uses another profile or model from its next turn on."""

    type: ClassVar[str] = "turnlog.profile-switched.v1"
    leaf: ClassVar[str] = "session"
    sentence: ClassVar[str] = "[{before|unless:profile} → ]{profile}[ · model {model}] · {reason}"

    profile: str
    """The profile used from now on."""
    before: str
    """The profile used until now."""
    reason: Literal["asked", "phase"]
    """`asked` if a caller requested it, `phase` if the phase that is entered next names it."""
    model: str | None = None
    """The model that replaces the profile's own; None if the profile's model is used."""


class SessionClosed(EventModel):
    """The session accepts no more turns; it can still be read."""

    type: ClassVar[str] = "turnlog.session-closed.v1"
    leaf: ClassVar[str] = "session"
    sentence: ClassVar[str] = "{reason}"

    reason: Words
    """Reason given by the caller that closed it."""


class PhaseEntered(EventModel):
    """The session entered another phase; its exchange count starts at zero."""

    type: ClassVar[str] = "turnlog.phase-entered.v1"
    leaf: ClassVar[str] = "phase"
    sentence: ClassVar[str] = (
        "[{before} → ]{phase}[ · {signal}][, {forced|flag:forced}]"
        "[ · hides {hidden|list}][ · {carried|content}]"
    )

    phase: str
    """The phase entered."""
    before: str | None = None
    """The phase left; None for the first phase."""
    signal: str | None = None
    """The cause: a signal, `choice`, or `next`; None for the first phase."""
    forced: bool = False
    """Whether the phase left had reached its maximum number of exchanges."""
    turn: int | None = None
    """The turn that sent the signal."""
    carried: Content | None = None
    """What prompts of this phase say about the phase left."""
    shared: tuple[str, ...] = ()
    """Phases whose turns this phase may see, if phases are isolated."""
    hidden: tuple[str, ...] = ()
    """Earlier phases of the session that this phase may not see."""


KnownSessionEvent = (
    SessionOpened
    | SessionDescribed
    | ShareChanged
    | BlueprintMoved
    | ProfileSwitched
    | SessionClosed
)
"""The events of sessions that this release writes and reads."""
