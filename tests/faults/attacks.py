"""What is done to a service while clients use it, as data; each attack restores the service.

An attack does not know what it may break. The promises say it, and the checker finds it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping

from tests.faults.site import ACK_WAIT, Role, Site
from tests.parts.forked import Process
from tests.parts.processes import LOOK_EVERY
from turnlog.events.ids import SESSIONS_STREAM, TOKENS_STREAM
from turnlog.events.jetstream.stream_setup import WORKERS_CONSUMER

Attack = Callable[[Site], Awaitable[None]]
WHILE = 1.0
"""Seconds that a lasting fault lasts."""
HOUR = 3_600.0
NO_ROOM = 503


async def everything_killed(at: Site) -> None:
    await at.kill(*at.all("gateway", "projector", "worker"))
    await at.kill_nats()
    await at.server.restart()


async def nats_killed(at: Site) -> None:
    await at.kill_nats()
    await at.server.restart()


async def nats_restarted(at: Site) -> None:
    await at.server.restart()


async def nats_hangs(at: Site) -> None:
    os.kill(at.server.pid, signal.SIGSTOP)
    await asyncio.sleep(WHILE)
    os.kill(at.server.pid, signal.SIGCONT)


async def store_full(at: Site) -> None:
    """Leave the log no room until a client was refused, then give it room again."""
    stream = at.service.nats.connection.nc.jetstream()
    info = await stream.stream_info(SESSIONS_STREAM)
    await stream.update_stream(info.config.evolve(max_bytes=info.state.bytes + 1))
    while await _has_room(at):  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(LOOK_EVERY)
    await stream.update_stream(info.config)


async def _has_room(at: Site) -> bool:
    answer = await at.service.http.post("/v1/sessions", json={"blueprint": "assistant"})
    return answer.status_code != NO_ROOM


async def durable_deleted(at: Site) -> None:
    await at.service.nats.connection.nc.jetstream().delete_consumer(
        SESSIONS_STREAM, WORKERS_CONSUMER
    )


async def tokens_forgotten(at: Site) -> None:
    """Empty the stream of tokens, as its age or its size may."""
    await at.service.nats.connection.nc.jetstream().purge_stream(TOKENS_STREAM)


def killed(role: Role) -> Attack:
    async def inflict(at: Site) -> None:
        await at.kill(at.one(role))

    return inflict


def stopped(role: Role, seconds: float) -> Attack:
    """Stop a process for so many seconds, as on an overloaded machine."""

    async def inflict(at: Site) -> None:
        process = at.one(role)
        _send(process, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        _send(process, signal.SIGCONT)

    return inflict


def deafened(role: Role) -> Attack:
    """Drop everything NATS sends to a role, acknowledgements included."""
    return _network(role, lambda at: at.network[role].deafen())


def silenced(role: Role) -> Attack:
    """Drop everything a role sends to NATS."""
    return _network(role, lambda at: at.network[role].silence())


def slowed(role: Role) -> Attack:
    return _network(role, lambda at: at.network[role].delay(0.1))


def cut(role: Role) -> Attack:
    return _network(role, lambda at: at.network[role].cut())


def _network(role: Role, fault: Callable[[Site], None]) -> Attack:
    async def inflict(at: Site) -> None:
        fault(at)
        await asyncio.sleep(WHILE)
        at.network[role].heal()

    return inflict


async def answers_lost_and_gateway_killed(at: Site) -> None:
    """Drop the answers to appends, then kill the gateways that could still ask."""
    at.network["gateway"].deafen()
    await asyncio.sleep(WHILE)
    await at.kill(*at.all("gateway"))
    at.network["gateway"].heal()


def clock_jumps(role: Role, seconds: float) -> Attack:
    async def inflict(at: Site) -> None:
        at.set_clock(role, seconds)
        await asyncio.sleep(WHILE)
        at.set_clock(role, 0.0)

    return inflict


def _send(process: Process, number: signal.Signals) -> None:
    if process.returncode is None:
        process.send_signal(number)


LOST_BY_ROLE: Mapping[str, Callable[[Role], Attack]] = {
    "killed": killed,
    "told nothing any more": deafened,
    "not heard any more": silenced,
    "cut off": cut,
    "far away": slowed,
}
ROLES: tuple[Role, ...] = ("gateway", "projector", "worker")
ATTACKS: Mapping[str, Attack] = {
    **{f"{role} {what}": attack(role) for what, attack in LOST_BY_ROLE.items() for role in ROLES},
    "nats killed": nats_killed,
    "nats restarted": nats_restarted,
    "nats hangs": nats_hangs,
    "store full": store_full,
    "durable deleted": durable_deleted,
    "tokens forgotten": tokens_forgotten,
    "answers lost and gateway killed": answers_lost_and_gateway_killed,
    "worker stopped for twice ack_wait": stopped("worker", 2 * ACK_WAIT),
    "gateway stopped": stopped("gateway", WHILE),
    "projector stopped": stopped("projector", WHILE),
    "worker's clock an hour ahead": clock_jumps("worker", HOUR),
    "gateway's clock an hour ahead": clock_jumps("gateway", HOUR),
    "worker's clock an hour behind": clock_jumps("worker", -HOUR),
}
