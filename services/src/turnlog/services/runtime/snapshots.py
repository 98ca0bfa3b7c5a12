"""Snapshots of session states, each checked against the log before it is used.

A snapshot records the log it was folded from, its last event and the version of the fold. One that
does not match is discarded, and the session is folded from an earlier state or from its first
event; a mismatch with the log is also logged as an error.

Interval snapshots are stored at fixed sequences and never overwritten, so that any old sequence has
one near it. The process that appends past an interval saves one, and a reader saves those that it
finds missing. They lack the idempotency keys of commands, so no command may be decided on them.
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
"""Events between two snapshots of a session's latest state."""

_log = structlog.get_logger("turnlog.snapshots")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state, and the log and fold version that it was folded with."""

    stream: str
    created: str
    fold: int
    state: SessionState


_SNAPSHOT: Final = TypeAdapter(Snapshot)


@dataclass(frozen=True, slots=True)
class CheckedSnapshots:
    """Saves snapshots, and loads those that the log confirms."""

    log: Log
    store: Snapshots

    async def keep(self, state: SessionState, waypoint: int | None = None) -> None:
        """Save a state as its session's latest snapshot, or as one of its interval snapshots."""
        identity = await self.log.identity(state.tenant)
        snapshot = Snapshot(identity.stream, identity.created, FOLD_VERSION, state)
        packed = zlib.compress(_SNAPSHOT.dump_json(snapshot))
        await self.store.put(state.tenant, state.session, packed, waypoint)

    async def load(
        self, tenant: str, session: str, waypoint: int | None = None
    ) -> SessionState | None:
        """Return the state of the latest or of an interval snapshot, if the log confirms it."""
        stored, identity = await asyncio.gather(
            self.store.get(tenant, session, waypoint), self.log.identity(tenant)
        )
        if stored is None:
            return None
        try:
            snapshot = _SNAPSHOT.validate_json(zlib.decompress(stored))
        except (zlib.error, ValidationError):
            return None  # Written by a release with another fold.
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
