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
"""Called with the stream sequence of the rebuild, and that of the active rows at its start."""


async def rebuild(folding: Folding, progress: Progress, *, anew: bool = True) -> Checkpoint | None:
    """Rebuild the rows and switch to them; None if another rebuild took over.

    Unless `from_start`, an unfinished build of this release is resumed.
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
