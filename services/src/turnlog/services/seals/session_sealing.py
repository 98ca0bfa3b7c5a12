"""Seals the events and the texts of sessions, for what appends and stores them.

A session is sealed from its opening on, or never: the opening says so. A child and a fork of a
sealed session are sealed too, whatever the setting is, because they hold its words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.events.codec import SealEvent
from turnlog.events.errors import KeyringMissing, Refused
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.registry import AppendableEvent
from turnlog.events.seals.key_ports import SealingKeys
from turnlog.events.seals.leaf_sets import LeafSets, is_reserved_id
from turnlog.projections.session.rules.event_leaves import list_event_leaves
from turnlog.projections.session.state import SessionState


@dataclass(frozen=True, slots=True)
class SessionSealing:
    """Seals what is appended to sessions."""

    keys: SealingKeys | None
    """The keys of sessions; None without a keyring."""
    is_on: bool
    """Whether new sessions are sealed."""

    async def prepare_seal(
        self,
        tenant: str,
        session: str,
        state: SessionState | None,
        events: Sequence[AppendableEvent],
    ) -> tuple[Sequence[AppendableEvent], SealEvent | None]:
        """Return events as they are to be appended after a state, and what seals them."""
        first = events[0]
        if state is None and isinstance(first, SessionOpened):
            generation = await self._choose_generation(tenant, session, first)
            first = first.model_copy(update={"sealed_under": generation})
            events = (first, *events[1:])
        else:
            generation = state.sealed_under if state else None
        if generation is None:
            return events, None
        keys = self._require_keys(session)
        leaves = [list_event_leaves(session, state, each) for each in events]
        seals = [
            await keys.find_event_seal(tenant, await self._drop_plain(tenant, session, each))
            if each
            else None
            for each in leaves
        ]
        left = iter(seals)

        def seal(event: AppendableEvent, payload: bytes) -> bytes:
            found = next(left)
            return found.seal_event(type(event), payload) if found else payload

        return events, seal

    def _require_keys(self, session: str) -> SealingKeys:
        if self.keys is None:
            raise KeyringMissing(f"session {session}")
        return self.keys

    async def _choose_generation(
        self, tenant: str, session: str, opened: SessionOpened
    ) -> int | None:
        """Return the generation of the keys of a session that is opened; None for a plain one."""
        if self.keys and is_reserved_id(session):
            detail = "the keys of uploads, or of the library, are kept under this id"
            raise Refused("bad-id", detail, field="session", fix="choose another id")
        is_sealed = self.is_on
        if self.keys and opened.origin and not is_sealed:
            is_sealed = await self.keys.has_record(tenant, opened.origin.session)
        if not is_sealed:
            return None
        return await self._require_keys(session).create_record(tenant, session)

    async def _drop_plain(self, tenant: str, session: str, leaves: LeafSets) -> LeafSets:
        """Return the leaves of sealed sessions: a parent or an origin may be plain."""
        keys = self._require_keys(session)
        return {
            each: numbers
            for each, numbers in leaves.items()
            if each == session or await keys.has_record(tenant, each)
        }
