from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from turnlog.events.log.ports import LogIdentity
from turnlog.projections.store import checkpoints
from turnlog.projections.store.advance import apply_batch
from turnlog.projections.store.builds import clear_hidden_builds
from turnlog.projections.store.checkpoints import ProjectionPosition
from turnlog.projections.store.fold import decode_raw_event
from turnlog.projections.store.schema import prepare_schema
from turnlog.services.projector.folding import LogFolder, stream_fold_batches, report_poison
from turnlog.services.runtime.bulk import reduce_collection

RebuildProgress = Callable[[int, int], None]
"""Called with the stream sequence of the rebuild, and that of the active rows at its start."""


async def rebuild_rows(folder: LogFolder, progress: RebuildProgress, *, from_start: bool = True) -> ProjectionPosition | None:
    """Rebuild the rows and switch to them; None if another rebuild took over.

    Unless `from_start`, an unfinished build of this release is resumed.
    """
    await prepare_schema(folder.store)
    if from_start:
        await clear_hidden_builds(folder.store)
    log = await folder.log.get_identity(folder.tenant)
    live, building = await _begin_or_resume(folder, log)
    goal = live.position if live else 0
    with reduce_collection():
        async with aclosing(folder.fold_from(building, live=False)) as steps:
            async for step in steps:
                if step is None:
                    return None
                building = step
                progress(building.position, goal)
    switched = await _switch_to_build(folder, building)
    if switched:
        progress(switched.position, switched.position)
        await clear_hidden_builds(folder.store, below=switched.build)
    return switched


async def _begin_or_resume(folder: LogFolder, log: LogIdentity) -> tuple[ProjectionPosition | None, ProjectionPosition]:
    async with folder.store.open_writer() as connection:
        live = await checkpoints.lock_active_position(connection)
        above = live.build if live else 0
        building = await checkpoints.find_unfinished_build(connection, log, above=above)
        return live, building or await checkpoints.begin_build(connection, log, is_active=False)


async def _switch_to_build(folder: LogFolder, building: ProjectionPosition) -> ProjectionPosition | None:
    async with folder.store.open_writer() as connection:
        await checkpoints.lock_active_position(connection)
        async with aclosing(stream_fold_batches(folder.log, building, live=False)) as found:
            async for raws in found:
                step = await apply_batch(connection, building, [decode_raw_event(raw) for raw in raws])
                if step is None:
                    return None
                for poison in step.poisons:
                    report_poison(poison)
                building = step.checkpoint
        return await checkpoints.switch_to_build(connection, building)
