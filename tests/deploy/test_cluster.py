"""deploy/nats/cluster.conf and deploy/docker-compose.cluster.yml, run: three servers hold the log.

The tests share one cluster; the first of them need the servers alone, the others the roles too.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client

from tests.deploy.compose_file import CLUSTER_FILE, CLUSTER_SECRETS, ROOT, SIGNED_IN, load_services
from tests.deploy.compose_processes import ComposeContainer, ComposeHost, run_compose_host
from tests.docs.doc_pages import list_blocks
from tests.support.processes.forked_program import get_forked_program
from tests.support.servers.postgres_server import PostgresServer
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_until_folded
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("the processes of the composition start"),
]

SERVERS = ("nats-1", "nats-2", "nats-3")

STREAMS = ("SESSIONS", "LIBRARY", "ALERTS", "READS", "BLOBS", "SNAPSHOTS", "KEYS", "TOKENS")

LONG = 60.0
"""A bound on hanging."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> AsyncGenerator[ComposeHost]:
    """The three servers, started at the same time from one file."""
    services = load_services(CLUSTER_SECRETS, CLUSTER_FILE)
    async with (
        postgres_server.create_database() as database,
        run_compose_host(tmp_path_factory.mktemp("host"), services, database) as running,
    ):
        # `test_running` executes the program of the image.
        running.programs = get_forked_program().parent
        # Nobody here has to be given time to find another server.
        running.places = {'lame_duck_grace_period: "5s"': 'lame_duck_grace_period: "1s"'}
        await running.start_services(**dict.fromkeys(SERVERS, 1))
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def roles(host: ComposeHost) -> ComposeHost:
    """The roles on the cluster, with two projectors."""
    await host.start_services(gateway=1, worker=1, projector=2)
    return host


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(roles: ComposeHost) -> AsyncIterator[httpx.AsyncClient]:
    url = f"http://{roles.get_address('gateway')}:8700"
    async with httpx.AsyncClient(base_url=url, headers=SIGNED_IN, timeout=LONG) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def store(host: ComposeHost) -> AsyncIterator[ReadModelStore]:
    opened = open_store(host.database)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="module")
async def client(host: ComposeHost) -> AsyncIterator[Client]:
    """A client of the servers that knows their addresses and the clients' password."""
    async with await nats.connect(
        build_urls(host), user="turnlog", password=CLUSTER_SECRETS["NATS_PASSWORD"]
    ) as connected:
        yield connected


def build_urls(host: ComposeHost) -> list[str]:
    return [f"nats://{host.get_address(each)}:4222" for each in SERVERS]


async def read_page(host: ComposeHost, server: str, page: str) -> dict[str, Any]:
    """Read a page of a server's monitoring address, also one that says what is wrong."""

    def read() -> dict[str, Any]:
        try:
            with urllib.request.urlopen(
                f"http://{host.get_address(server)}:8222/{page}", timeout=5
            ) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            return dict(json.loads(error.read()))

    return await asyncio.to_thread(read)


async def request_api(client: Client, subject: str, **body: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON of any shape
    payload = json.dumps(body).encode() if body else b""
    answer = dict(json.loads((await client.request(f"$JS.API.{subject}", payload)).data))
    assert "error" not in answer, answer["error"]
    return answer


async def test_three_servers_from_one_file_form_a_cluster_that_replicates_a_stream(
    host: ComposeHost, client: Client
) -> None:
    routes = {each: await read_page(host, each, "routez") for each in SERVERS}
    for server, page in routes.items():
        connected = {route["remote_name"] for route in page["routes"]}
        assert connected == set(SERVERS) - {server}
    await request_api(
        client, "STREAM.CREATE.TRIED", name="TRIED", subjects=["tried"], num_replicas=3
    )
    acknowledged = await client.jetstream().publish("tried", b"one")
    info = await request_api(client, "STREAM.INFO.TRIED")
    members = {info["cluster"]["leader"], *(each["name"] for each in info["cluster"]["replicas"])}
    assert (acknowledged.seq, info["state"]["messages"], members) == (1, 1, set(SERVERS))
    await request_api(client, "STREAM.DELETE.TRIED")


async def test_each_server_waits_for_fsync_and_announces_no_addresses(host: ComposeHost) -> None:
    for server in SERVERS:
        facts = await read_page(host, server, "varz")
        assert facts["jetstream"]["config"]["sync_always"] is True
        assert facts["max_payload"] == 4 * 2**20
        async with connect_to_port(host, server, 4222) as (info, _, _):
            assert "connect_urls" not in info


async def test_server_without_the_routes_password_is_rejected(host: ComposeHost) -> None:
    async with connect_to_port(host, "nats-1", 6222) as (info, reader, writer):
        assert info["auth_required"] is True
        writer.write(b'CONNECT {"name": "stranger", "verbose": false}\r\nPING\r\n')
        assert b"Authorization Violation" in await reader.read()


@asynccontextmanager
async def connect_to_port(
    host: ComposeHost, server: str, port: int
) -> AsyncGenerator[tuple[dict[str, Any], asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to a server as a client or a server does, and yield what it says of itself."""
    async with asyncio.timeout(LONG):
        reader, writer = await asyncio.open_connection(host.get_address(server), port)
        yield json.loads((await reader.readline()).removeprefix(b"INFO ")), reader, writer
        writer.close()


async def test_documented_program_copies_the_log_of_a_single_server_to_the_cluster(
    host: ComposeHost, client: Client, tmp_path: Path
) -> None:
    (program,) = (
        block.code
        for block in list_blocks(ROOT / "docs/back-up.md")
        if block.language == "python" and "copy_streams" in block.code
    )
    (tmp_path / "copy_streams.py").write_text(program)
    subjects = {
        "SESSIONS": "session",
        "LIBRARY": "library",
        "ALERTS": "alert",
        "READS": "read",
        "BLOBS": "blob",
        "KEYS": "keys",
    }
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path / "single")) as single,
        await nats.connect(single.url) as alone,
    ):
        for stream, subject in subjects.items():
            settings = {"subjects": [f"{subject}.>"], "compression": "s2", "deny_delete": True}
            await request_api(alone, f"STREAM.CREATE.{stream}", name=stream, **settings)
            for number in range(50):
                await alone.jetstream().publish(f"{subject}.{number}", b"text" * 100)
        await run_program(tmp_path, single.url, "save", ".")
    password = CLUSTER_SECRETS["NATS_PASSWORD"]
    addresses = ",".join(build_urls(host)).replace("//", f"//turnlog:{password}@")
    # One that was broken off before leaves a name without a stream.
    about = json.loads((tmp_path / "SESSIONS.json").read_bytes())
    about["config"] |= {"num_replicas": 1, "compression": "none"}
    await request_api(client, "STREAM.RESTORE.SESSIONS", **about)
    await run_program(tmp_path, addresses, "load", ".", "3")
    for stream in subjects:
        info = await request_api(client, f"STREAM.INFO.{stream}")
        config = info["config"]
        assert info["state"]["messages"] == 50
        assert (config["num_replicas"], config["compression"]) == (3, "none")
        assert config["deny_delete"] is True
        blocks = host.folder.glob(f"volumes/log-*/jetstream/$G/streams/{stream}/msgs/*.blk")
        sizes = [block.stat().st_size for block in blocks]
        assert len(sizes) == 3
        assert min(sizes) == max(sizes) > 50 * len(b"text" * 100)
        await request_api(client, f"STREAM.DELETE.{stream}")


async def run_program(folder: Path, address: str, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "copy_streams.py", *arguments),
        cwd=folder,
        env={"PATH": os.defpath, "NATS_URL": address},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()


async def open_session(gateway: httpx.AsyncClient) -> str:
    opened = await gateway.post("/v1/sessions", json={"blueprint": "assistant"})
    assert opened.status_code == 201, opened.text
    return str(opened.json()["session"])


async def run_turn(gateway: httpx.AsyncClient, session: str) -> int:
    """Run a turn and return the sequence of its last event."""
    url = f"/v1/sessions/{session}/turns?wait={LONG:g}"
    settled = (await gateway.post(url, json={"text": "Hello"})).json()
    assert settled["status"] == "completed", settled
    return int(settled["settled"])


async def test_turn_runs_on_three_replicas_of_every_stream(
    gateway: httpx.AsyncClient, client: Client
) -> None:
    ready = (await gateway.get("/readyz")).json()
    assert (ready["durability"], ready["checked"]) == ("replicated", True)
    await run_turn(gateway, await open_session(gateway))
    for stream in STREAMS:
        info = await request_api(client, f"STREAM.INFO.{stream}")
        assert info["config"]["num_replicas"] == 3
        assert len(info["cluster"]["replicas"]) == 2


async def test_rows_advance_after_one_of_two_projectors_is_killed(
    roles: ComposeHost, gateway: httpx.AsyncClient, store: ReadModelStore
) -> None:
    session = await open_session(gateway)
    await roles.kill_container(roles.get_container("projector", 1))
    sequence = await run_turn(gateway, session)
    signal = ProjectionSignal()
    assert await wait_until_folded(
        store=store,
        signal=signal,
        tenant="default",
        session=session,
        sequence=sequence,
        within=LONG,
    )


async def test_turns_complete_while_the_leader_of_the_sessions_stream_restarts(
    roles: ComposeHost, gateway: httpx.AsyncClient, client: Client
) -> None:
    # It takes the seconds in which a server in lame duck closes its connections one by one.
    session = await open_session(gateway)
    leader = (await request_api(client, "STREAM.INFO.SESSIONS"))["cluster"]["leader"]
    restart = asyncio.create_task(restart_server(roles, leader))
    while not restart.done():
        await run_turn(gateway, session)
    await restart
    await run_turn(gateway, session)


async def restart_server(host: ComposeHost, server: str) -> ComposeContainer:
    """Restart a server as compose does, by the signal of the file, and wait until it is healthy."""
    await host.stop_container(host.get_container(server))
    return await host.start_service(server)
