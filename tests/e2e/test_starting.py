"""A service accepts work before litellm is loaded, and answers once it is."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.support.processes.process_host import ProcessHost
from tests.support.processes.separate_roles import IMPORT_GUARD_FOLDER
from tests.support.processes.turnlog_up import run_turnlog_up
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.turn_events import TurnCompleted

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_work_is_accepted_while_litellm_loads(host: ProcessHost) -> None:
    fifo = host.folder / "litellm_import_guard"
    os.mkfifo(fifo)
    variables = {"PYTHONPATH": str(IMPORT_GUARD_FOLDER), "DOOR": str(fifo)}
    log = host.folder / "up.log"
    async with run_turnlog_up(host, output_file=log, variables=variables) as up:
        assert (await up.service.get_json("/readyz"))["ready"]
        session = await up.service.open_session()
        await up.service.submit_turn(session)
        await up.service.wait_for_event(session, AttemptStarted)
        # The terminal says what the turn waits for.
        said = await asyncio.to_thread(log.read_text)
        assert ("model-library-loading" in said, "model-library-loaded" in said) == (True, False)
        # The import of litellm waits in the import guard, which nothing has released yet.
        await asyncio.to_thread(fifo.write_bytes, b"")
        assert (await up.service.wait_for_event(session, TurnCompleted)).turn == 1
