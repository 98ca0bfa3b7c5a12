"""Whether a site is whole: after every fault everything must be as it was before.

A condition is asked for again and again until it holds; one that does not hold in time is reported
with what was wrong at last.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

import httpx
from nats.errors import Error as NatsError
from nats.js.api import ClusterInfo
from nats.js.errors import APIError

from tests.faults.checks.evidence_collection import assert_no_findings
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_load import ClientLoad
from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_roles import SupervisedRole
from tests.support.processes.loop_holds import assert_loop_free
from tests.support.processes.process_host import POLL_INTERVAL
from tests.support.servers.nats_cluster import NODE_COUNT
from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import Unavailable
from turnlog.events.subjects import (
    KEYS_STREAM,
    RECORD_STREAMS,
    SESSIONS_STREAM,
    SNAPSHOTS_STREAM,
    TOKENS_STREAM,
    WORKERS_CONSUMER,
)

WHOLE_BOUND: Final = 60.0
"""Seconds after a fault until everything must be as before; a role takes twenty to start."""

READY_BOUND: Final = 30.0
"""Seconds until a role that has started, or waits for a server that is there, must be ready."""

TURN_BOUND: Final = 10.0
"""Seconds that a turn may take while nothing is wrong, and two busy cores serve a whole site."""

FAULT_TURN_BOUND: Final = 15.0
"""Seconds that a turn may take while a host is gone."""

DURABLE_STREAMS: Final = (*RECORD_STREAMS, SNAPSHOTS_STREAM, KEYS_STREAM)

ALL_STREAMS: Final = (*DURABLE_STREAMS, TOKENS_STREAM)

ROLLBACK_WORDS: Final = ("log-rolled-back", "it ends before", "holds another event")
"""What roles write and answer of a log that was rolled back or exchanged."""

FindFaults = Callable[[], Awaitable[list[str]]]


async def wait_until_faultless(find: FindFaults, *, within: float = WHOLE_BOUND) -> None:
    """Wait until nothing is found; raise what was found last if that takes too long."""
    until = time.monotonic() + within
    while found := await find():
        if time.monotonic() > until:
            raise AssertionError(f"after {within:g} s:\n" + "\n".join(found))
        await asyncio.sleep(POLL_INTERVAL)


async def require_ready(
    site: ClusterSite, roles: Iterable[SupervisedRole] | None = None, *, within: float = WHOLE_BOUND
) -> None:
    """Wait until these roles, or all, are ready."""
    watched = list(site.roles.members if roles is None else roles)
    async with httpx.AsyncClient(timeout=10) as http:

        async def find() -> list[str]:
            found = await asyncio.gather(*(_find_role_faults(http, each) for each in watched))
            return [fault for faults in found for fault in faults]

        await wait_until_faultless(find, within=within)


async def _find_role_faults(http: httpx.AsyncClient, role: SupervisedRole) -> list[str]:
    report = await role.fetch_readiness(http)
    if report is None:
        return [f"{role.name} does not answer"]
    if report.ready:
        return []
    return [f"{role.name}: {fault}" for fault in report.list_faults()]


async def require_undisturbed(site: ClusterSite) -> None:
    """Require that roles are ready, streams current, and all workers wait for turns."""
    await require_ready(site)
    await wait_until_faultless(lambda: find_stream_faults(site))
    await wait_until_faultless(lambda: find_waiting_faults(site))


async def require_whole(site: ClusterSite) -> None:
    """Require that everything is as before any fault: turns are answered, and the log is sound."""
    await require_undisturbed(site)
    await asyncio.gather(*(require_prompt_turn(site, gateway) for gateway in site.gateways))
    await require_verified_log(site.gateways[0])


async def find_stream_faults(site: ClusterSite) -> list[str]:
    """Find replicas that are missing, offline or behind."""
    found: list[str] = []
    try:
        async with site.open_nats() as connection:
            for name in ALL_STREAMS:
                info = await connection.nc.jetstream(timeout=2).stream_info(name)
                found += _list_replica_faults(name, info.cluster)
    except (APIError, NatsError, Unavailable, TimeoutError) as error:
        found.append(f"streams: {type(error).__name__}: {error}")
    return found


def _list_replica_faults(stream: str, cluster: ClusterInfo | None) -> list[str]:
    if cluster is None or cluster.leader is None:
        return [f"stream {stream} has no leader"]
    replicas = cluster.replicas or []
    faults = [
        f"stream {stream}: {each.name} is not current, lag {each.lag}"
        for each in replicas
        if not each.current or each.offline or each.lag
    ]
    if len(replicas) != NODE_COUNT - 1:
        faults.append(f"stream {stream}: {1 + len(replicas)} replicas")
    return faults


async def find_waiting_faults(site: ClusterSite) -> list[str]:
    """Find workers that no longer ask for turns."""
    slots = len(site.roles.list_roles("worker")) * site.shape.slots
    waiting = await count_waiting_slots(site)
    if waiting == slots:
        return []
    return [f"{waiting} of {slots} slots of the workers wait for a turn"]


async def count_waiting_slots(site: ClusterSite) -> int | None:
    """Return how many turns the workers ask for now, or None if nobody tells."""
    try:
        async with site.open_nats() as connection:
            info = await connection.nc.jetstream(timeout=2).consumer_info(
                SESSIONS_STREAM, WORKERS_CONSUMER
            )
            waiting: int | None = info.num_waiting
            return waiting
    except (APIError, NatsError, Unavailable, TimeoutError):
        return None


async def require_prompt_turn(site: ClusterSite, gateway: httpx.AsyncClient) -> None:
    """Require that a first turn through a gateway is answered soon."""
    began_at = time.monotonic()
    client = AttackClient(http=gateway, history=site.history)
    await client.open_session()
    heard = await client.watch_turn(await client.submit_turn())
    seconds = time.monotonic() - began_at
    assert heard.end == "done", heard
    assert seconds <= TURN_BOUND, f"a turn through {gateway.base_url} took {seconds:.1f} s"


async def require_quick_turns(site: ClusterSite, load: ClientLoad, *, within: float) -> None:
    """Require that no turn of a load took longer; the error has the events of the slowest."""
    (session, turn), seconds = max(load.turn_seconds.items(), key=lambda item: item[1])
    if seconds <= within:
        return
    slow = [f"{each:.1f}" for each in sorted(load.turn_seconds.values()) if each > within]
    async with site.open_record() as record:
        events = await record.service.list_events(session)
    lines = [
        f"{each.envelope.time} {each.envelope.type}"
        for each in events
        if getattr(each.event, "turn", turn) == turn
    ]
    head = f"turns took {slow} s; the slowest is turn {turn} of {session}:"
    raise AssertionError("\n".join([head, *lines]))


async def require_verified_log(gateway: httpx.AsyncClient) -> None:
    """Require that `verify` finds nothing in the whole log."""
    answer = await gateway.get("/v1/verify", timeout=120)
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    found = [line for line in lines if line["kind"] == "finding"]
    assert lines[-1]["kind"] == "summary", lines[-1]
    assert lines[-1]["verified"], (lines[-1], found[:5])


async def require_kept_promises(site: ClusterSite) -> None:
    """Require that nothing acknowledged is lost or doubled, and every turn is settled."""
    async with site.open_record() as record:
        await assert_no_findings(record, site.history)


async def require_no_harm(site: ClusterSite) -> None:
    """Require that a site is whole after a fault, and that every promise was kept meanwhile."""
    await require_whole(site)
    await require_kept_promises(site)
    require_no_rollback_report(site)
    assert_loop_free(*(role.output_file for role in site.roles.members))


def require_no_rollback_report(site: ClusterSite) -> None:
    """Require that no role wrote or answered that the log was rolled back: it was not."""
    for role in site.roles.members:
        assert find_rollback_words(role.read_output()) == [], role.name
    answers = "\n".join(json.dumps(each.body) for each in site.history.tries)
    assert find_rollback_words(answers) == []


def find_rollback_words(text: str) -> list[str]:
    """Return the lines that call the log rolled back."""
    return [line for line in text.splitlines() if any(words in line for words in ROLLBACK_WORDS)]


@asynccontextmanager
async def record_readiness(site: ClusterSite) -> AsyncGenerator[set[str]]:
    """Record everything that the roles report as not ready while the body runs."""
    reported = set[str]()

    async def record(http: httpx.AsyncClient) -> None:
        while True:
            for role in site.roles.members:
                reported.update(await _find_role_faults(http, role))
            await asyncio.sleep(POLL_INTERVAL)

    async with httpx.AsyncClient(timeout=10) as http, run_tasks(record(http)):
        yield reported


def require_no_unexpected_exit(site: ClusterSite) -> None:
    """Require that no role had to be started again."""
    exits = {each.name: each.unexpected_exits for each in site.roles.members}
    assert not any(exits.values()), exits
