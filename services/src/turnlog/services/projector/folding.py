"""Folding along the log: what the live rows and a rebuild have in common.

Each step is one transaction that keeps rows and checkpoint together. A step that finds its
checkpoint moved by someone else has written nothing, and says so by being the last.
"""

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
"""Events kept in one transaction, at the most: a writer beside this one waits no longer."""
PAST: Final = 5_000
"""The same while the past is read: events of one row meet in memory and not in the database."""

_log = structlog.get_logger("turnlog.projector")


@dataclass(frozen=True, slots=True)
class Folding:
    """Where events come from and where rows go."""

    log: Log
    store: Store
    tracing: Tracing
    tenant: str
    """Any tenant of the stream."""
    patience: float = 5.0
    """Seconds a log that seems too short is given before it counts as rolled back."""

    async def along(self, at: Checkpoint, *, live: bool) -> AsyncGenerator[Checkpoint | None]:
        """Fold what lies behind a checkpoint, and give each new one; none when it was moved."""
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
            # A log that says so of itself does not know what that means for the rows.
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
                    # Perhaps the log was rolled back under our eyes: then none of this is kept.
                    await self.prove(at)
        return _told(step) if step else None


async def bulks(log: Log, at: Checkpoint, *, live: bool) -> AsyncGenerator[Sequence[Raw]]:
    """Give what lies behind a checkpoint, in portions for one transaction.

    Its own event is read once more, and is the first: so nothing behind another one is given,
    however long ago the checkpoint was proved. Raises `Corrupt` when it is another one.
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
    """Raise the alarm over a session that was set aside."""
    _log.error(
        "session-stopped",
        tenant=poison.tenant,
        session=poison.session,
        position=poison.position,
        reason=poison.reason,
    )
