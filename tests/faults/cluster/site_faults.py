"""What is done to a site; each of these leaves the site to recover by itself."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import httpx
from nats.js.api import StoreCompression

from tests.faults.clients.attack_client import AttackClient
from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_checks import (
    ALL_STREAMS,
    DURABLE_STREAMS,
    require_undisturbed,
    wait_until_faultless,
)
from tests.support.servers.nats_cluster import NatsNode
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.subjects import SESSIONS_STREAM, WORKERS_CONSUMER

LAME_DUCK: Final = signal.SIGUSR2

BLOCK_BYTES: Final = 8 * 1024 * 1024
"""Bytes after which the server begins another file of a stream."""

CACHE_SECONDS: Final = 12.0
"""Seconds without any use after which the server reads a file again: its cache expires in ten."""

LONG_TEXT_BYTES: Final = 24_000
"""Of a turn's text that still fits into the window of a prompt; its echo is as long."""


async def restart_node(
    site: ClusterSite, node: NatsNode, number: signal.Signals = signal.SIGTERM
) -> None:
    """Restart a node as an upgrade does: ask it to end, start it, wait until it is healthy."""
    await node.end_process(number)
    await node.start_process()
    await site.nats.wait_until_healthy()


async def restart_nodes_in_turn(site: ClusterSite, number: signal.Signals = signal.SIGTERM) -> None:
    """Restart the nodes one after another."""
    for node in site.nats.nodes:
        await restart_node(site, node, number)


async def restart_all_nodes(site: ClusterSite) -> None:
    """Stop all nodes in good order, which leaves a raft snapshot of each stream, and start them."""
    await site.nats.end_all_nodes(signal.SIGTERM)
    await site.nats.start_missing_nodes()
    await site.nats.wait_until_healthy()


async def lose_node_power(site: ClusterSite) -> None:
    """Kill all nodes at once, and start them."""
    await site.nats.end_all_nodes(signal.SIGKILL)
    await site.nats.start_missing_nodes()


async def lose_site_power(site: ClusterSite) -> None:
    """Kill everything at once, and start it."""
    await asyncio.gather(
        site.nats.end_all_nodes(signal.SIGKILL),
        site.roles.end_all(signal.SIGKILL),
        asyncio.to_thread(site.postgres.kill_server),
    )
    await site.nats.start_missing_nodes()
    await asyncio.to_thread(site.postgres.start_server)
    await site.roles.start_all()


@asynccontextmanager
async def cut_off_node(site: ClusterSite, node: NatsNode) -> AsyncGenerator[None]:
    """Let the host of a node vanish while the body runs, and bring it back."""
    number = site.nats.nodes.index(node)
    site.vanished.add(node.name)
    await site.network.cut_off_host(number)
    try:
        yield
    finally:
        await site.network.reconnect_host(number)
        site.vanished.discard(node.name)


async def gather_clients(site: ClusterSite, node: NatsNode) -> None:
    """Have every client of the cluster connect to one node, by stopping the others for a moment."""
    others = [each for each in site.nats.nodes if each is not node]
    for other in others:
        await other.end_process(signal.SIGTERM)

    async def find_elsewhere() -> list[str]:
        wanted = len(await list_client_names(others[0])) + len(await list_client_names(others[1]))
        return [f"{wanted} clients are elsewhere"] if wanted else []

    await wait_until_faultless(lambda: _find_unconnected(site, node))
    await site.nats.start_missing_nodes()
    await site.nats.wait_until_healthy()
    await wait_until_faultless(find_elsewhere)
    await require_undisturbed(site)


async def send_clients_away(site: ClusterSite, node: NatsNode) -> None:
    """Stop a node until its clients are connected to others, where they stay."""
    await node.end_process(signal.SIGTERM)
    others = [each for each in site.nats.nodes if each is not node]

    async def find_unconnected() -> list[str]:
        names = [name for each in others for name in await list_client_names(each)]
        missing = len(site.roles.members) - len(names)
        return [f"{missing} clients are at no other node"] if missing > 0 else []

    await wait_until_faultless(find_unconnected)
    await site.nats.start_missing_nodes()
    await site.nats.wait_until_healthy()
    assert await list_client_names(node) == []
    await require_undisturbed(site)


async def gather_workers(site: ClusterSite, node: NatsNode) -> None:
    """Have the workers connect to one node, and every other role to others.

    A worker that is started again connects to that node too; it knows the others from the server.
    """
    await send_clients_away(site, node)
    workers = site.roles.list_roles("worker")
    for worker in workers:
        await worker.end_supervised()
        worker.variables = {**worker.variables, "TURNLOG_NATS_URL": node.url}
        await worker.start_supervised()

    async def find_elsewhere() -> list[str]:
        names = await list_client_names(node)
        return [] if len(names) == len(workers) else [f"{names} are at {node.name}"]

    await wait_until_faultless(find_elsewhere)
    await require_undisturbed(site)


async def _find_unconnected(site: ClusterSite, node: NatsNode) -> list[str]:
    names = await list_client_names(node)
    is_whole = len(names) >= len(site.roles.members)
    return [] if is_whole else [f"only {names} are at {node.name}"]


async def list_client_names(node: NatsNode) -> list[str]:
    """Return the names of the clients of a node."""
    async with httpx.AsyncClient(timeout=5) as http:
        facts = (await http.get(f"{node.monitor_url}/connz")).json()
    return [str(each.get("name", "")) for each in facts["connections"]]


async def find_gateway_node(site: ClusterSite) -> NatsNode:
    """Return the node that most gateways are connected to."""
    counts = {
        node.name: (await list_client_names(node)).count("turnlog-gateway")
        for node in site.nats.nodes
    }
    return site.nats.get_node(max(counts, key=lambda name: counts[name]))


async def find_leader(site: ClusterSite, stream: str = SESSIONS_STREAM) -> NatsNode:
    """Return the node that leads a stream."""
    async with site.open_nats() as connection:
        info = await connection.nc.jetstream().stream_info(stream)
    assert info.cluster is not None
    assert info.cluster.leader is not None
    return site.nats.get_node(info.cluster.leader)


async def move_leaders(site: ClusterSite, node: NatsNode) -> None:
    """Have a node lead every stream and the workers' consumer."""
    queue = f"{SESSIONS_STREAM}.{WORKERS_CONSUMER}"
    for subject in (
        *(f"STREAM.LEADER.STEPDOWN.{stream}" for stream in ALL_STREAMS),
        f"CONSUMER.LEADER.STEPDOWN.{queue}",
    ):
        info = subject.replace("LEADER.STEPDOWN", "INFO")
        await wait_until_faultless(partial(_move_leader, site, node, subject, info))


async def _move_leader(site: ClusterSite, node: NatsNode, stepdown: str, info: str) -> list[str]:
    """Ask a leader to step down in favour of a node, unless that one leads; return who led."""
    async with site.open_nats() as connection:
        reply = await connection.nc.request(f"$JS.API.{info}", timeout=2)
        leader = json.loads(reply.data).get("cluster", {}).get("leader")
        if leader == node.name:
            return []
        wish = json.dumps({"placement": {"preferred": node.name}}).encode()
        await connection.nc.request(f"$JS.API.{stepdown}", wish, timeout=2)
    return [f"{info} is led by {leader}"]


async def set_compression(connection: NatsConnection, algorithm: str) -> None:
    """Have the server compress the files of all durable streams, or not."""
    api = connection.nc.jetstream()
    for stream in DURABLE_STREAMS:
        config = (await api.stream_info(stream)).config
        await api.update_stream(config.evolve(compression=StoreCompression(algorithm)))


async def fetch_compression(connection: NatsConnection) -> dict[str, str]:
    """Return how the files of each durable stream are compressed."""
    api = connection.nc.jetstream()
    infos = {stream: await api.stream_info(stream) for stream in DURABLE_STREAMS}
    return {
        name: StoreCompression(info.config.compression or "none").value
        for name, info in infos.items()
    }


async def grow_sessions(site: ClusterSite, bytes_stored: int) -> None:
    """Submit turns of long texts, which do not compress, until SESSIONS has so many bytes."""
    clients = site.create_clients(8)
    await asyncio.gather(*(client.open_session() for client in clients))
    while await _count_bytes(site) < bytes_stored:
        await asyncio.gather(*(_run_long_turn(client) for client in clients))


async def _run_long_turn(client: AttackClient) -> None:
    turn = await client.submit_turn(f"{client.name}: {secrets.token_hex(LONG_TEXT_BYTES // 2)}")
    await client.watch_turn(turn)


async def _count_bytes(site: ClusterSite) -> int:
    async with site.open_nats() as connection:
        return (await connection.nc.jetstream().stream_info(SESSIONS_STREAM)).state.bytes
