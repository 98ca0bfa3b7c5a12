from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.faults.site import AttackedService, run_attacked_service

ResultT = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BackgroundService:
    """An attacked service on an event loop in a thread, for tests without a loop of their own.

    Hypothesis runs its rules one after another and without a loop; the provider and the watchers
    must continue between the rules.
    """

    service: AttackedService
    loop: asyncio.AbstractEventLoop

    def run_work(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine on the service's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def start_work(self, work: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Start a coroutine on the service's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)


@contextmanager
def run_background_service(folder: Path) -> Generator[BackgroundService]:
    """Run a service while the body runs."""
    came: Future[BackgroundService] = Future()
    over = asyncio.Event()

    async def hold() -> None:
        async with run_attacked_service(folder) as at:
            came.set_result(BackgroundService(at, asyncio.get_running_loop()))
            await over.wait()

    ended: Future[None] = Future()

    def live() -> None:
        try:
            asyncio.run(hold())
        except BaseException as raised:  # noqa: BLE001 - raised where the test is
            (ended if came.done() else came).set_exception(raised)
        else:
            ended.set_result(None)

    threading.Thread(target=live, name="site", daemon=True).start()
    stage = came.result()
    try:
        yield stage
    finally:
        stage.loop.call_soon_threadsafe(over.set)
        ended.result()
