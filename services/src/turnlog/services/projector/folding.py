from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import structlog

from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Log, Raw
from turnlog.projections.store.advance import Advanced, advance
from turnlog.projections.store.checkpoints import Checkpoint
from turnlog.projections.store.engine import Store
from turnlog.projections.store.fold import Poison, arrived
from turnlog.services.projector.proof import prove, prove_same
from turnlog.services.runtime.telemetry import Tracing

BULK: Final = 500
"""Maximum events of one transaction, which limits how long another writer waits."""
PAST: Final = 5_000
"""The same while older events are read; larger, so that changes of one row are merged in memory."""

_log = structlog.get_logger("turnlog.projector")


@dataclass(frozen=True, slots=True)
class Folding:
    """Folds events of one stream into the rows."""

    log: Log
    store: Store
    tracing: Tracing
    tenant: str
    """Any tenant of the stream."""
    patience: float = 5.0
    """Seconds after which a log that seems too short counts as rolled back."""

    async def along(self, at: Checkpoint, *, live: bool) -> AsyncGenerator[Checkpoint | None]:
        """Fold the events after a position, and yield each new position.

        Yields None last if another process moved the position.
        """
        await self.prove(at)
        try:
            async with aclosing(bulks(self.log, at, live=live)) as found:
                async for raws in found:
                    moved = await self._fold(at, raws)
                    yield moved
                    if moved is None:
                        return
                    at = moved
        except Corrupt:
            # The log only reports that it changed; check what that means for the rows.
            await self.prove(at)
            raise

    async def prove(self, at: Checkpoint) -> None:
        """Raise `Corrupt` unless rows and log belong together."""
        await prove(self.log, self.tenant, at, patience=self.patience)

    async def _fold(self, at: Checkpoint, raws: Sequence[Raw]) -> Checkpoint | None:
        events = [arrived(raw) for raw in raws]
        with self.tracing.projected(event.traceparent for event in events):
            async with self.store.writing() as connection:
                step = await advance(connection, at, events)
                if step and not all(poison.chained for poison in step.poisons):
                    # The log may have been rolled back meanwhile; then this transaction is not
                    # committed.
                    await self.prove(at)
        return _told(step) if step else None


async def bulks(log: Log, at: Checkpoint, *, live: bool) -> AsyncGenerator[Sequence[Raw]]:
    """Yield the events after a position, in batches for one transaction.

    The event at the position is read again as the first one, so nothing after a different event is
    yielded, however long ago the position was verified. Raises `Corrupt` if it is a different
    event.
    """
    known, most = at.position > 0, BULK if live else PAST
    waiting: list[Raw] = []
    async with aclosing(log.follow(None, at.position - known, live=live)) as found:
        async for raws in found:
            if known:
                prove_same(raws[0], at)
            waiting += raws[known:]
            known = False
            while len(waiting) >= most or (live and waiting):
                yield waiting[:most]
                waiting = waiting[most:]
    if waiting:
        yield waiting


def _told(step: Advanced) -> Checkpoint:
    for poison in step.poisons:
        tell(poison)
    return step.checkpoint


def tell(poison: Poison) -> None:
    """Log an error for a session that was stopped."""
    _log.error(
        "session-stopped",
        tenant=poison.tenant,
        session=poison.session,
        position=poison.position,
        reason=poison.reason,
    )
