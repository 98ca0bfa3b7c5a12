"""Rebuilding: the rows once more from the start of the log, while readers keep the old ones.

The new build is filled beside the live one; then the live one is held still for the moment it
takes to draw level, and readers are switched in that same transaction. Crashing at any point
leaves the live rows as they were; what was filled is taken up again or cleared away.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from turnlog.events.log.ports import Identity
from turnlog.projections.store import checkpoints
from turnlog.projections.store.advance import advance
from turnlog.projections.store.builds import clear_unseen
from turnlog.projections.store.checkpoints import Checkpoint
from turnlog.projections.store.fold import arrived
from turnlog.projections.store.schema import prepare
from turnlog.services.projector.folding import Folding, bulks, tell
from turnlog.services.runtime.bulk import seldom_collected

Progress = Callable[[int, int], None]
"""Told the stream sequence a rebuild has come to, and the one the live rows were at."""


async def rebuild(folding: Folding, progress: Progress, *, anew: bool = True) -> Checkpoint | None:
    """Rebuild the rows and switch to them; none when another rebuild took over.

    Unless `anew`, a build that this release left half-way is taken up where it stands.
    """
    await prepare(folding.store)
    if anew:
        await clear_unseen(folding.store)
    log = await folding.log.identity(folding.tenant)
    live, building = await _begun(folding, log)
    goal = live.position if live else 0
    with seldom_collected():
        async with aclosing(folding.along(building, live=False)) as steps:
            async for step in steps:
                if step is None:
                    return None
                building = step
                progress(building.position, goal)
    switched = await _switched(folding, building)
    if switched:
        progress(switched.position, switched.position)
        await clear_unseen(folding.store, below=switched.build)
    return switched


async def _begun(folding: Folding, log: Identity) -> tuple[Checkpoint | None, Checkpoint]:
    async with folding.store.writing() as connection:
        live = await checkpoints.held(connection)
        above = live.build if live else 0
        building = await checkpoints.unfinished(connection, log, above=above)
        return live, building or await checkpoints.begin(connection, log, seen=False)


async def _switched(folding: Folding, building: Checkpoint) -> Checkpoint | None:
    async with folding.store.writing() as connection:
        await checkpoints.held(connection)
        async with aclosing(bulks(folding.log, building, live=False)) as found:
            async for raws in found:
                step = await advance(connection, building, [arrived(raw) for raw in raws])
                if step is None:
                    return None
                for poison in step.poisons:
                    tell(poison)
                building = step.checkpoint
        return await checkpoints.switched(connection, building)
