"""The prompt overrides of a tenant's users: folded from their events, and what an edit records.

The state contains digests and no texts. A removed override leaves its version behind, so that no
two texts of a user ever have the same version at one place.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.codec import decode_library_event
from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.override_events import (
    OVERRIDE_FAMILY,
    OverrideRemoved,
    OverrideSet,
    UserOverride,
)
from turnlog.events.model.redaction_events import SourceErasureBegun
from turnlog.projections.blueprint.schema.prompt_overrides import OverridePlace, get_override_place
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.library.source_erasures import list_begun_sequences

MAX_OVERRIDES: Final = 64
"""Most overrides of a user in one blueprint; each turn of the user names them all."""


@dataclass(frozen=True, slots=True)
class StoredOverride:
    """An override as the library holds it."""

    override: UserOverride
    characters: int
    at: str
    """When it was set, RFC 3339."""
    text_digest: Digest | None = None
    """Digest of the text where that of the override is keyed."""

    def has_text(self, text: str) -> bool:
        """Return whether this is its text."""
        return compute_digest(text) == (self.text_digest or self.override.digest)


OwnedBlueprint = tuple[str, str]
"""A user, and the name of a blueprint."""

OwnedPlace = tuple[str, str, OverridePlace]
"""A user, the name of a blueprint, and a prompt file of it."""


@dataclass(frozen=True, slots=True)
class OverrideCommandRecord:
    """An edit that was carried out; the same key with the same body gets the same answer."""

    hash: Digest
    stored: StoredOverride | None = None
    """What it set; None if it removed something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantOverrides:
    """The overrides of all users of a tenant."""

    tenant: str
    head: ChainHead | None = None
    """The last event; None before the first."""
    stored: Mapping[OwnedBlueprint, tuple[StoredOverride, ...]] = field(
        default_factory=dict[OwnedBlueprint, tuple[StoredOverride, ...]]
    )
    """Overrides by user and blueprint, ordered by the path of the file."""
    versions: Mapping[OwnedPlace, int] = field(default_factory=dict[OwnedPlace, int])
    """The latest version at each place, also where it was removed."""
    commands_by_key: Mapping[str, OverrideCommandRecord] = field(
        default_factory=dict[str, OverrideCommandRecord]
    )
    """Edits by idempotency key."""

    @property
    def sequence(self) -> int:
        """The sequence of the last event; 0 before the first."""
        return self.head.sequence if self.head else 0

    def list_overrides(self, user: str, blueprint: str) -> tuple[StoredOverride, ...]:
        """Return the overrides of a user for a blueprint."""
        return self.stored.get((user, blueprint), ())

    def list_blueprints(self, user: str) -> tuple[str, ...]:
        """Return the blueprints for which a user has an override."""
        return tuple(sorted(blueprint for owner, blueprint in self.stored if owner == user))

    def find_override(
        self, user: str, blueprint: str, place: OverridePlace
    ) -> StoredOverride | None:
        """Return the override of a user at a place, or None."""
        found = self.list_overrides(user, blueprint)
        return next((each for each in found if get_override_place(each.override) == place), None)


def decide_override(
    before: TenantOverrides, user: str, blueprint: str, place: OverridePlace, text: str
) -> OverrideSet | None:
    """Return the event that sets an override, or None if the text is the same.

    Raises `Refused` if the user has the maximum number of overrides.
    """
    found = before.find_override(user, blueprint, place)
    if found is not None and found.has_text(text):
        return None
    if found is None and len(before.list_overrides(user, blueprint)) >= MAX_OVERRIDES:
        detail = f"the user has {MAX_OVERRIDES} overrides for {blueprint}"
        raise Refused("too-many-overrides", detail, field="category", fix="remove one of them")
    override = UserOverride(
        category=place.category,
        profile=place.profile,
        provider=place.provider,
        version=before.versions.get((user, blueprint, place), 0) + 1,
        digest=compute_digest(text),
    )
    return OverrideSet(user=user, blueprint=blueprint, override=override, characters=len(text))


def decide_removal(
    before: TenantOverrides, user: str, blueprint: str, place: OverridePlace
) -> OverrideRemoved:
    """Return the event that removes an override; raises `Refused` if there is none."""
    found = before.find_override(user, blueprint, place)
    if found is None:
        raise build_unknown_override(user, blueprint, place)
    return OverrideRemoved(user=user, blueprint=blueprint, override=found.override)


def build_unknown_override(user: str, blueprint: str, place: OverridePlace) -> Refused:
    """Return the refusal of an override that the user does not have."""
    whose, of, where = map(format_sent_name, (user, place.path, blueprint))
    detail = f"{whose} has no override of `{of}` in {where}"
    fix = "see `/v1/overrides` for those of a user"
    return Refused("unknown-override", detail, field="category", fix=fix)


def fold_overrides(events: Iterable[RecordedEvent], before: TenantOverrides) -> TenantOverrides:
    """Apply events to the overrides, in order."""
    stored, versions = dict(before.stored), dict(before.versions)
    commands, head = dict(before.commands_by_key), before.head
    for recorded in events:
        event, head = decode_library_event(recorded), recorded.head
        made: StoredOverride | None = None
        if isinstance(event, SourceErasureBegun):
            _remove_erased(stored, list_begun_sequences(event, OVERRIDE_FAMILY))
        if isinstance(event, OverrideSet | OverrideRemoved):
            place = get_override_place(event.override)
            owner = (event.user, event.blueprint)
            versions[*owner, place] = event.override.version
            kept = {get_override_place(each.override): each for each in stored.pop(owner, ())}
            kept.pop(place, None)
            if isinstance(event, OverrideSet):
                at = recorded.envelope.time
                kept[place] = made = StoredOverride(
                    event.override, event.characters, at, event.text_digest
                )
            if kept:
                stored[owner] = tuple(kept[each] for each in sorted(kept, key=_get_path))
        key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
        if key is not None and digest is not None:
            commands[key] = OverrideCommandRecord(digest, made)
    return TenantOverrides(
        tenant=before.tenant, head=head, stored=stored, versions=versions, commands_by_key=commands
    )


def _remove_erased(
    stored: dict[OwnedBlueprint, tuple[StoredOverride, ...]], erased: Container[int]
) -> None:
    """Remove the overrides that these events set, and leave their versions behind."""
    for owner, found in tuple(stored.items()):
        kept = tuple(each for each in found if (each.override.sealed_in or 0) not in erased)
        if kept:
            stored[owner] = kept
        else:
            del stored[owner]


def _get_path(place: OverridePlace) -> str:
    return place.path
