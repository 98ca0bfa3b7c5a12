"""A rebuild that is killed at any of ten points leaves what readers see, and can be repeated."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from tests.projections.store.histories import Story, completed, opened, submitted
from tests.services.projector.running import Running
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import opened as opened_nats
from turnlog.projections.store.engine import Store

POINTS = 10

_KILLED = """
import asyncio, os, signal, sys
from sqlalchemy import event
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import opened
from turnlog.projections.store.engine import open_store
from turnlog.services.projector import folding
from turnlog.services.projector.rebuild import rebuild
from turnlog.services.runtime.telemetry import tracing

nats_url, database_url, tenant, number = sys.argv[1:]
folding.PAST = 7
left = int(number)

def kill(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    store = open_store(database_url)
    for moment in ("before_cursor_execute", "commit"):
        event.listen(store.engine.sync_engine, moment, kill)
    async with opened(nats_url, Terms()) as nats:
        fold = folding.Folding(nats.log, store, tracing("p", None), tenant)
        await rebuild(fold, lambda position, goal: None)
    print(int(number) - left)
    await store.close()

asyncio.run(main())
"""


async def rebuilding(*arguments: str) -> tuple[int, str]:
    """Rebuild in another process; gives its exit code and how often it asked the database.

    The alarms of sessions that other tests left on this log come before the number.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _KILLED, *arguments, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    lines = said.decode().splitlines()
    return process.returncode, lines[-1] if lines else ""


@pytest.mark.promise("P11")
@pytest.mark.timeout(300)
async def test_rebuild_killed_at_ten_points_leaves_the_live_rows_and_can_be_repeated(
    store: Store, database_url: str, nats_url: str, fresh_tenant: str
) -> None:
    async with opened_nats(nats_url, Terms()) as nats:
        story = Story(nats.log, "s", fresh_tenant)
        await story.tell(opened())
        for turn in range(1, 12):
            await story.tell(submitted(turn, f"turn {turn}"), completed(turn, "reply"))
        running = Running(nats.log, store)
        before = await running.rebuilt()
        here = (nats_url, database_url, fresh_tenant)
        code, asked = await rebuilding(*here, "1000000")
        assert code == 0
        for point in range(1, POINTS + 1):
            code, _ = await rebuilding(*here, str(int(asked) * point // (POINTS + 1)))
            assert code == -signal.SIGKILL
            assert await running.rows() == before
        assert await running.rebuilt() == before
