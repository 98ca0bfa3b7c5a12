"""Snapshots of states: a place to start folding from, checked against the log before it is used.

A snapshot names the log it was folded from, the very event it ends at and the version of the
fold. Whatever does not match is discarded with an alarm, and the session is folded anew.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError

from turnlog.events.log.ports import Identity, Log, Snapshots
from turnlog.projections.session.state import FOLD_VERSION, SessionState
from turnlog.services.runtime.continuity import holds

EVERY: Final = 64
"""Events after which a state is worth keeping again."""

_log = structlog.get_logger("turnlog.snapshots")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state, and what it was folded from."""

    stream: str
    created: str
    fold: int
    state: SessionState


_SNAPSHOT: Final = TypeAdapter(Snapshot)


@dataclass(frozen=True, slots=True)
class CheckedSnapshots:
    """Keeps and loads snapshots of states."""

    log: Log
    store: Snapshots

    async def keep(self, state: SessionState, waypoint: int | None = None) -> None:
        """Keep a state as the latest snapshot of its session, or as one of its waypoints."""
        identity = await self.log.identity(state.tenant)
        snapshot = Snapshot(identity.stream, identity.created, FOLD_VERSION, state)
        packed = zlib.compress(_SNAPSHOT.dump_json(snapshot))
        await self.store.put(state.tenant, state.session, packed, waypoint)

    async def load(
        self, tenant: str, session: str, waypoint: int | None = None
    ) -> SessionState | None:
        """Give the latest snapshot, or that of a waypoint, if the log confirms it."""
        stored, identity = await asyncio.gather(
            self.store.get(tenant, session, waypoint), self.log.identity(tenant)
        )
        if stored is None:
            return None
        try:
            snapshot = _SNAPSHOT.validate_json(zlib.decompress(stored))
        except (zlib.error, ValidationError):
            return None  # Written by another release, whose fold this one does not know.
        if snapshot.fold != FOLD_VERSION:
            return None
        if not await self._confirmed(snapshot, identity):
            _log.error("snapshot-discarded", tenant=tenant, session=session)
            return None
        return snapshot.state

    async def _confirmed(self, snapshot: Snapshot, identity: Identity) -> bool:
        if (snapshot.stream, snapshot.created) != (identity.stream, identity.created):
            return False
        return await holds(self.log, snapshot.state.tenant, snapshot.state.head)
