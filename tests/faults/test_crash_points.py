"""Each role killed at each of its points: nothing is lost, doubled, or left half done."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tests.faults.client import Client
from tests.faults.evidence import nothing_is_wrong
from tests.faults.history import History
from tests.faults.site import Role, Site
from turnlog.events.call import AttemptStarted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Crash:
    """Who dies, and where; several points are met one after another."""

    role: Role
    points: tuple[str, ...]
    attempts: int = 1
    """How often the model is tried until the turn is settled."""


POINTS = (
    Crash("gateway", ("before-append:session-opened",)),
    Crash("gateway", ("after-append:session-opened",)),
    Crash("gateway", ("before-append:turn-submitted",)),
    Crash("gateway", ("after-append:turn-submitted",)),
    Crash("worker", ("before-append:attempt-started",)),
    Crash("worker", ("after-append:attempt-started",), 2),
    Crash("worker", ("before-blob",), 2),
    Crash("worker", ("before-append:prompts-snapshotted",), 2),
    Crash("worker", ("after-append:prompts-snapshotted",), 2),
    Crash("worker", ("before-append:context-assembled",), 2),
    Crash("worker", ("after-append:context-assembled",), 2),
    Crash("worker", ("before-token:1",), 2),
    Crash("worker", ("after-token:3",), 2),
    Crash("worker", ("before-close",), 2),
    Crash("worker", ("after-close",)),
    Crash("worker", ("before-append:turn-completed",)),
    Crash("worker", ("after-append:turn-completed",)),
    Crash("worker", ("before-ack",)),
    Crash("worker", ("after-ack",)),
    Crash("worker", ("after-token:3", "after-append:attempt-started"), 3),
    Crash("worker", ("after-close", "before-append:turn-completed")),
    Crash("projector", ("before-commit",)),
    Crash("projector", ("after-commit",)),
)


@pytest.mark.promise("P1", "P4", "P6", "P7", "P8", "P9", "P10")
@pytest.mark.parametrize("crash", POINTS, ids=lambda crash: "+".join((crash.role, *crash.points)))
async def test_a_crash_breaks_no_promise(
    attacked: Site, client: Client, history: History, crash: Crash
) -> None:
    talking = asyncio.create_task(client.converse(2))
    for point in crash.points:
        attacked.die_at(crash.role, point)
        await attacked.died(crash.role)
    await attacked.start_missing()
    await talking
    await nothing_is_wrong(attacked, history)
    assert await attempts(attacked, client.session) == crash.attempts


async def attempts(attacked: Site, session: str) -> int:
    return len(await attacked.service.of_kind(session, AttemptStarted))
