"""A service accepts work before litellm is loaded, and answers once it is."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.parts.everything import everything
from tests.parts.processes import Machine
from tests.parts.roles import DOOR
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.turn_events import TurnCompleted

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_work_is_accepted_while_litellm_loads(host: Machine) -> None:
    fifo = host.folder / "door"
    os.mkfifo(fifo)
    async with everything(host, told={"PYTHONPATH": str(DOOR), "DOOR": str(fifo)}) as up:
        assert (await up.service.get("/readyz"))["ready"]
        session = await up.service.open()
        await up.service.submit(session)
        await up.service.until(session, AttemptStarted)
        # The import of litellm waits in the import guard, which nothing has released yet.
        await asyncio.to_thread(fifo.write_bytes, b"")
        assert (await up.service.until(session, TurnCompleted)).turn == 1
