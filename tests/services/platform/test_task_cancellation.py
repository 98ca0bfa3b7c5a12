"""Tasks end for certain, even if they miss their cancellation."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from turnlog.services.platform.concurrency import run_to_completion


async def ignore_cancellations(times: int) -> None:
    for _ in range(times):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    await asyncio.Event().wait()


def test_program_exits_although_a_leftover_task_ignores_cancellation() -> None:
    left: list[asyncio.Task[None]] = []

    async def work() -> str:
        left.append(asyncio.create_task(ignore_cancellations(2)))
        await asyncio.sleep(0)
        return "done"

    assert asyncio.run(run_to_completion(work())) == "done"
    assert left[0].cancelled()
