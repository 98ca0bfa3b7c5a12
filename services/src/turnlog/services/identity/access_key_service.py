"""Keys: how one is made and read, and the history that holds all of an installation.

A key is `tlk_`, its id and 43 random characters. The id is for people and for finding the key; only
the SHA-256 of the whole is stored. A gateway reads the end of the history at most once a second, so
a key that was revoked is refused everywhere within a second.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hmac import compare_digest
from typing import Final

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.installation.access_events import (
    ACCESS_FAMILY,
    INSTALLATION_TENANT,
    KeyCreated,
    KeyRevoked,
    KeyRotated,
)
from turnlog.events.registry import LibraryEvent
from turnlog.projections.access.access_keys import (
    AccessKey,
    AccessKeys,
    KeyCommandRecord,
    create_access_keys,
    decide_key,
    decide_use,
    fold_access_keys,
)
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    TenantHistory,
    TenantStates,
    build_installation_command,
)

KEY_PREFIX: Final = "tlk_"

_KEY: Final = re.compile(r"tlk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")

_NO_DIGEST: Final = compute_digest("")
"""Compared where there is no key, so that an unknown one takes as long as a wrong one."""


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A key that was just made; only its digest is kept."""

    id: str
    text: str = field(repr=False)

    @property
    def digest(self) -> Digest:
        """What is stored of it."""
        return compute_digest(self.text)


def create_secret(key_id: str | None = None) -> NewSecret:
    """Create a key, or another one of the same id."""
    chosen = key_id or secrets.token_hex(6)
    return NewSecret(chosen, f"{KEY_PREFIX}{chosen}_{secrets.token_urlsafe(32)}")


@dataclass(frozen=True, slots=True)
class KeyChange:
    """What a command did to a key, also where it was carried out before."""

    sequence: int
    """How many events the keys of the tenant have."""
    key: AccessKey
    is_repeated: bool


@dataclass
class AccessKeyService:
    """The keys of an installation, for one process."""

    parts: LibraryParts
    _history: TenantHistory[AccessKeys, KeyCommandRecord] = field(init=False)

    def __post_init__(self) -> None:
        self._history = TenantHistory(
            parts=self.parts,
            family=ACCESS_FAMILY,
            create=create_access_keys,
            states=TenantStates[AccessKeys, KeyCommandRecord](create_access_keys, fold_access_keys),
            log_name="keys",
        )

    async def load_keys(self) -> AccessKeys:
        """Return all keys as they are now."""
        return await self._history.load_state(INSTALLATION_TENANT)

    async def load_recent_keys(self) -> AccessKeys:
        """Return all keys as they were within the last second; raises `Unavailable`."""
        return await self._history.load_recent_state(INSTALLATION_TENANT)

    async def find_key(self, text: str) -> AccessKey | None:
        """Return the key that a text is, if it signs in now; None for any other text."""
        form = _KEY.fullmatch(text)
        if form is None:
            return None
        known = (await self.load_recent_keys()).by_id.get(form[1])
        now, digest = self.parts.clock(), compute_digest(text)
        valid = () if known is None else known.list_hashes(now)
        found = [compare_digest(digest, each) for each in valid or (_NO_DIGEST,)]
        return known if any(found) else None

    async def is_valid(self, key_id: str) -> bool:
        """Return whether a key still signs in, in any of its forms."""
        known = (await self.load_recent_keys()).by_id.get(key_id)
        return known is not None and bool(known.list_hashes(self.parts.clock()))

    async def list_tenants(self) -> Collection[str]:
        """Return the tenants that had keys within the last second."""
        return {each.tenant for each in (await self.load_recent_keys()).by_id.values()}

    async def create_key(self, caller: Caller, created: KeyCreated) -> KeyChange:
        """Add a key; raises `Refused` for a name that is taken."""
        return await self._change(caller, created.id, lambda state: (decide_key(state, created),))

    async def rotate_key(self, caller: Caller, rotated: KeyRotated) -> KeyChange:
        """Replace the secret part of a key."""

        def decide(state: AccessKeys) -> Sequence[LibraryEvent]:
            state.get_key(None, rotated.id)
            return (rotated,)

        return await self._change(caller, rotated.id, decide)

    async def revoke_key(self, caller: Caller, key_id: str) -> KeyChange:
        """Let a key sign in no more."""

        def decide(state: AccessKeys) -> Sequence[LibraryEvent]:
            state.get_key(None, key_id)
            return (KeyRevoked(id=key_id),)

        return await self._change(caller, key_id, decide)

    async def note_use(self, key: AccessKey, actor: str) -> None:
        """Record that a key signed in, once a day; the first process to do so suffices."""
        now = self.parts.clock()

        def decide(state: AccessKeys) -> Sequence[LibraryEvent]:
            used = decide_use(state, key.id, now)
            return () if used is None else (used,)

        await self._history.handle(INSTALLATION_TENANT, decide, CommandMetadata(actor))

    async def _change(
        self,
        caller: Caller,
        key_id: str,
        decide: Callable[[AccessKeys], Sequence[LibraryEvent]],
    ) -> KeyChange:
        outcome = await self._history.handle(
            INSTALLATION_TENANT, decide, caller.metadata, build_installation_command(caller)
        )
        repeated = outcome.record
        key = outcome.state.by_id[key_id] if repeated is None else repeated.key
        return KeyChange(
            outcome.state.get_sequence(key.tenant), key, is_repeated=repeated is not None
        )


def check_expiry(expires: datetime | None, now: datetime) -> str | None:
    """Return when a key expires, RFC 3339; raises `Refused` for a time that is over."""
    if expires is None:
        return None
    if expires <= now:
        raise Refused("invalid", "the time is over", field="expires", fix="send a later time")
    return format_rfc3339(expires)
