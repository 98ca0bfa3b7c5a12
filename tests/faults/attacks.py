"""What is done to a service while clients use it, as data; each attack restores the service.

An attack does not know what it may break. The promises say it, and the checker finds it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping

from tests.faults.attacked_service import ACK_WAIT, AttackedRole, AttackedService
from tests.support.processes.process_host import POLL_INTERVAL
from tests.support.processes.turnlog_process import TurnlogProcess
from turnlog.events.subjects import SESSIONS_STREAM, TOKENS_STREAM, WORKERS_CONSUMER

Attack = Callable[[AttackedService], Awaitable[None]]
FAULT_SECONDS = 1.0
"""Seconds that a lasting fault lasts."""
HOUR_SECONDS = 3_600.0
NO_ROOM_STATUS = 503


async def kill_everything(at: AttackedService) -> None:
    await at.kill_processes(*at.list_processes("gateway", "projector", "worker"))
    await at.kill_nats()
    await at.server.restart()


async def kill_nats(at: AttackedService) -> None:
    await at.kill_nats()
    await at.server.restart()


async def restart_nats(at: AttackedService) -> None:
    await at.server.restart()


async def suspend_nats(at: AttackedService) -> None:
    os.kill(at.server.pid, signal.SIGSTOP)
    await asyncio.sleep(FAULT_SECONDS)
    os.kill(at.server.pid, signal.SIGCONT)


async def fill_store(at: AttackedService) -> None:
    """Leave the log no room until a client was refused, then give it room again."""
    stream = at.service.nats.connection.nc.jetstream()
    info = await stream.stream_info(SESSIONS_STREAM)
    await stream.update_stream(info.config.evolve(max_bytes=info.state.bytes + 1))
    while await _has_room(at):  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(POLL_INTERVAL)
    await stream.update_stream(info.config)


async def _has_room(at: AttackedService) -> bool:
    answer = await at.service.http.post("/v1/sessions", json={"blueprint": "assistant"})
    return answer.status_code != NO_ROOM_STATUS


async def delete_consumer(at: AttackedService) -> None:
    await at.service.nats.connection.nc.jetstream().delete_consumer(
        SESSIONS_STREAM, WORKERS_CONSUMER
    )


async def purge_tokens(at: AttackedService) -> None:
    """Empty the stream of tokens, as its age or its size may."""
    await at.service.nats.connection.nc.jetstream().purge_stream(TOKENS_STREAM)


def build_kill(role: AttackedRole) -> Attack:
    async def inflict(at: AttackedService) -> None:
        await at.kill_processes(at.get_process(role))

    return inflict


def build_suspension(role: AttackedRole, seconds: float) -> Attack:
    """Stop a process for so many seconds, as on an overloaded machine."""

    async def inflict(at: AttackedService) -> None:
        process = at.get_process(role)
        _send_signal(process, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        _send_signal(process, signal.SIGCONT)

    return inflict


def build_inbound_loss(role: AttackedRole) -> Attack:
    """Drop everything NATS sends to a role, acknowledgements included."""
    return _build_network_attack(role, lambda at: at.network[role].drop_server_data())


def build_outbound_loss(role: AttackedRole) -> Attack:
    """Drop everything a role sends to NATS."""
    return _build_network_attack(role, lambda at: at.network[role].drop_client_data())


def build_delay(role: AttackedRole) -> Attack:
    return _build_network_attack(role, lambda at: at.network[role].delay_data(0.1))


def build_disconnection(role: AttackedRole) -> Attack:
    return _build_network_attack(role, lambda at: at.network[role].cut_connections())


def _build_network_attack(role: AttackedRole, fault: Callable[[AttackedService], None]) -> Attack:
    async def inflict(at: AttackedService) -> None:
        fault(at)
        await asyncio.sleep(FAULT_SECONDS)
        at.network[role].reset_faults()

    return inflict


async def drop_answers_and_kill_gateway(at: AttackedService) -> None:
    """Drop the answers to appends, then kill the gateways that could still ask."""
    at.network["gateway"].drop_server_data()
    await asyncio.sleep(FAULT_SECONDS)
    await at.kill_processes(*at.list_processes("gateway"))
    at.network["gateway"].reset_faults()


def build_clock_jump(role: AttackedRole, seconds: float) -> Attack:
    async def inflict(at: AttackedService) -> None:
        at.set_clock(role, seconds)
        await asyncio.sleep(FAULT_SECONDS)
        at.set_clock(role, 0.0)

    return inflict


def _send_signal(process: TurnlogProcess, number: signal.Signals) -> None:
    if process.returncode is None:
        process.send_signal(number)


ROLE_ATTACKS: Mapping[str, Callable[[AttackedRole], Attack]] = {
    "killed": build_kill,
    "told nothing any more": build_inbound_loss,
    "not heard any more": build_outbound_loss,
    "cut off": build_disconnection,
    "far away": build_delay,
}
ATTACKED_ROLES: tuple[AttackedRole, ...] = ("gateway", "projector", "worker")
ATTACKS: Mapping[str, Attack] = {
    **{
        f"{role} {what}": attack(role)
        for what, attack in ROLE_ATTACKS.items()
        for role in ATTACKED_ROLES
    },
    "nats killed": kill_nats,
    "nats restarted": restart_nats,
    "nats hangs": suspend_nats,
    "store full": fill_store,
    "durable deleted": delete_consumer,
    "tokens forgotten": purge_tokens,
    "answers lost and gateway killed": drop_answers_and_kill_gateway,
    "worker stopped for twice ack_wait": build_suspension("worker", 2 * ACK_WAIT),
    "gateway stopped": build_suspension("gateway", FAULT_SECONDS),
    "projector stopped": build_suspension("projector", FAULT_SECONDS),
    "worker's clock an hour ahead": build_clock_jump("worker", HOUR_SECONDS),
    "gateway's clock an hour ahead": build_clock_jump("gateway", HOUR_SECONDS),
    "worker's clock an hour behind": build_clock_jump("worker", -HOUR_SECONDS),
}
