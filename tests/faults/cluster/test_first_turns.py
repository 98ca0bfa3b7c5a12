"""First turns of a blueprint, and turns of a worker that is asked to end, wait for nothing."""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import Final

import pytest

from tests.faults.clients.attack_client import AttackClient
from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_checks import TURN_BOUND, require_no_harm
from tests.faults.suite_extent import whole_programme
from tests.support.servers.model_behaviours import EchoAnswer
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

pytestmark = [whole_programme, pytest.mark.timeout(600)]

ROUNDS: Final = 4
"""Blueprints that are used for the first time; whether requests meet is chance."""

GRACE: Final = 10.0
"""Seconds after which a worker that was asked to end has ended, by the site's settings."""


@pytest.mark.promise("P7")
async def test_first_turns_of_a_blueprint_are_prompt_in_many_sessions_at_once(
    site: ClusterSite,
) -> None:
    for number in range(ROUNDS):
        name = write_blueprint(site, f"fresh{number}")
        clients = site.create_clients(6)
        seconds = await asyncio.gather(*(run_first_turn(client, name) for client in clients))
        assert max(seconds) <= TURN_BOUND, f"round {number}: {sorted(seconds)}"
    refused = [each for each in site.history.tries if not each.accepted]
    assert refused == []
    await require_no_harm(site)


@pytest.mark.promise("P7", "P20")
async def test_stopping_worker_hands_its_turns_over_at_once(
    site: ClusterSite,
) -> None:
    held = asyncio.Event()
    worker, *_ = site.roles.list_roles("worker")
    clients = site.create_clients(2 * site.shape.slots)
    await asyncio.gather(*(client.open_session() for client in clients))
    site.provider.queue_behaviours(*(EchoAnswer(gates={1: held}) for _ in clients))
    turns = [await client.submit_turn() for client in clients]
    await site.provider.wait_for_exchange(len(clients))
    began_at = time.monotonic()
    await worker.end_supervised()
    handed_over_at = time.monotonic()
    held.set()
    pairs = zip(clients, turns, strict=True)
    heard = await asyncio.gather(*(client.watch_turn(turn) for client, turn in pairs))
    assert {reply.end for reply in heard} == {"done"}
    assert handed_over_at - began_at <= GRACE
    assert time.monotonic() - handed_over_at <= TURN_BOUND
    await worker.start_supervised()
    await require_no_harm(site)


def write_blueprint(site: ClusterSite, name: str) -> str:
    """Write a blueprint that no session has used; return its name."""
    folder = site.blueprint_folder / name
    shutil.copytree(SHIPPED_BLUEPRINTS / "assistant", folder)
    file = folder / BLUEPRINT_FILE
    file.write_text(file.read_text().replace("blueprint: assistant", f"blueprint: {name}"))
    persona = folder / "persona.md"
    persona.write_text(f"{persona.read_text()} You are {name}.")
    return name


async def run_first_turn(client: AttackClient, blueprint: str) -> float:
    """Open a session, have a turn answered, and return the seconds that it took."""
    began_at = time.monotonic()
    await client.open_session(blueprint)
    await client.watch_turn(await client.submit_turn())
    return time.monotonic() - began_at
