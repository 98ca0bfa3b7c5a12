"""docker-compose.yml started as written, with local processes in place of containers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from sqlalchemy import select

from tests.deploy.compose_file import SIGNED_IN, load_services
from tests.deploy.compose_processes import NGINX, ComposeHost, run_compose_host
from tests.support.servers.postgres_server import PostgresServer
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_until_folded
from turnlog.projections.store.read.row_filters import match_session
from turnlog.projections.store.schema.read_model_tables import CALLS, TURNS

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("the processes of the composition start"),
]

TENANT = "default"
REPLY_WITHIN = 60.0
"""A bound on hanging: the worker may still be loading litellm."""

SCALE = {"nats": 1, "gateway": 2, "worker": 2, "projector": 1}

needs_nginx = pytest.mark.skipif(NGINX is None, reason="no `nginx` on PATH or in /usr/sbin")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> AsyncGenerator[ComposeHost]:
    """The composition with two gateways and two workers, started once for this file."""
    async with (
        postgres_server.create_database() as database,
        run_compose_host(tmp_path_factory.mktemp("host"), load_services(), database) as running,
    ):
        await running.start_services(**SCALE, **({"nginx": 1} if NGINX else {}))
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def front(host: ComposeHost) -> AsyncIterator[httpx.AsyncClient]:
    """A client of nginx, or of a gateway where there is no nginx."""
    address = f"{host.get_address('nginx')}:8080" if NGINX else get_gateway_address(host, 1)
    async with httpx.AsyncClient(
        base_url=f"http://{address}", headers=SIGNED_IN, timeout=REPLY_WITHIN
    ) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def gateways(host: ComposeHost) -> AsyncIterator[list[httpx.AsyncClient]]:
    """A client of each gateway."""
    addresses = [f"http://{get_gateway_address(host, number)}" for number in (1, 2)]
    async with (
        httpx.AsyncClient(base_url=addresses[0], headers=SIGNED_IN, timeout=REPLY_WITHIN) as first,
        httpx.AsyncClient(base_url=addresses[1], headers=SIGNED_IN, timeout=REPLY_WITHIN) as second,
    ):
        yield [first, second]


@pytest_asyncio.fixture(loop_scope="module")
async def store(host: ComposeHost) -> AsyncIterator[ReadModelStore]:
    opened = open_store(host.database)
    yield opened
    await opened.close()


def get_gateway_address(host: ComposeHost, number: int) -> str:
    return f"{host.get_address('gateway', number)}:8700"


async def open_session(client: httpx.AsyncClient) -> str:
    opened = await client.post("/v1/sessions", json={"blueprint": "assistant"})
    assert opened.status_code == 201, opened.text
    return str(opened.json()["session"])


def count_requests(host: ComposeHost, number: int) -> int:
    """Count the requests for events that a gateway has logged."""
    return host.get_container("gateway", number).read_log().count("{session}/events")


async def test_conversation_runs_through_the_composition_and_is_stored_in_postgres(
    front: httpx.AsyncClient, store: ReadModelStore
) -> None:
    ready = (await front.get("/readyz")).json()
    assert (ready["durability"], ready["checked"]) == ("fsync-acked", True)

    session = await open_session(front)
    turns = f"/v1/sessions/{session}/turns?wait={REPLY_WITHIN:g}"
    settled = (await front.post(turns, json={"text": "What does the log hold?"})).json()
    assert settled["status"] == "completed"
    assert settled["reply"].startswith("Everything that happened, in order:")

    sequence = settled["settled"]
    assert await wait_until_folded(
        store=store,
        signal=ProjectionSignal(),
        tenant=TENANT,
        session=session,
        sequence=sequence,
        within=REPLY_WITHIN,
    )
    listed = (await front.get("/v1/sessions")).json()["sessions"]
    assert (session, 1) in [(each["session"], each["turns"]) for each in listed]
    assert await select_turn_rows(store, session) == [("completed", "scripted/demo")]


async def select_turn_rows(store: ReadModelStore, session: str) -> list[tuple[object, ...]]:
    """Read a session's turns with the model that answered them."""
    mine = (match_session(table, TENANT, session) for table in (TURNS, CALLS))
    columns = select(TURNS.c.status, CALLS.c.model)
    query = columns.join(CALLS, CALLS.c.turn == TURNS.c.turn).where(*mine)
    async with store.open_reader() as connection:
        return [tuple(row) for row in await connection.execute(query)]


async def test_session_opened_through_one_gateway_is_read_through_another(
    gateways: list[httpx.AsyncClient],
) -> None:
    one, other = gateways
    session = await open_session(one)
    url = f"/v1/sessions/{session}/turns?wait={REPLY_WITHIN:g}"
    settled = (await other.post(url, json={"text": "Hello"})).json()
    events = [(await each.get(f"/v1/sessions/{session}/events")).json() for each in gateways]
    assert events[0] == events[1]
    assert events[0]["events"][-1]["sequence"] == settled["settled"]


@needs_nginx
async def test_requests_through_nginx_reach_every_gateway(
    host: ComposeHost, front: httpx.AsyncClient
) -> None:
    session = await open_session(front)
    await read_until_reached(host, front, session, 1)
    await read_until_reached(host, front, session, 2)


async def read_until_reached(
    host: ComposeHost, front: httpx.AsyncClient, session: str, number: int
) -> None:
    """Read a session's events until a gateway has logged one more such request."""
    before = count_requests(host, number)
    async with asyncio.timeout(REPLY_WITHIN):
        while count_requests(host, number) == before:
            assert (await front.get(f"/v1/sessions/{session}/events")).status_code == 200


@needs_nginx
async def test_nginx_passes_events_one_by_one_while_their_stream_is_open(
    front: httpx.AsyncClient,
) -> None:
    session = await open_session(front)
    headers = {"Accept": "text/event-stream"}
    async with (
        asyncio.timeout(REPLY_WITHIN),
        front.stream("GET", f"/v1/sessions/{session}/events", headers=headers) as stream,
    ):
        lines = stream.aiter_lines()
        assert await read_event_type(lines) == "turnlog.session-opened.v1"
        # The stream stays open, so an event that waited for its end would never come.
        await front.post(f"/v1/sessions/{session}/turns", json={"text": "Hello"})
        assert await read_event_type(lines) == "turnlog.turn-submitted.v1"


async def read_event_type(lines: AsyncIterator[str]) -> str:
    """Read a stream up to the next event, and return its type."""
    async for line in lines:
        if line.startswith("data:"):
            return str(json.loads(line.removeprefix("data:"))["type"])
    raise AssertionError("the stream has ended")


@needs_nginx
async def test_user_header_of_a_client_does_not_pass_nginx(
    front: httpx.AsyncClient,
) -> None:
    session = await open_session(front)
    claims = [("X-Forwarded-User", "ada"), ("x-forwarded-user", "bo"), ("X_Forwarded_User", "cy")]
    turns = f"/v1/sessions/{session}/turns"
    submitted = await front.post(turns, json={"text": "Hello"}, headers=claims)
    assert submitted.status_code == 202, submitted.text
    events = (await front.get(f"/v1/sessions/{session}/events")).json()["events"]
    assert {each["actor"] for each in events if each["type"].startswith("turnlog.turn-sub")} == {
        "key:root"
    }


@needs_nginx
async def test_cross_site_commands_and_unknown_hosts_are_refused_behind_nginx(
    front: httpx.AsyncClient,
) -> None:
    body = {"blueprint": "assistant"}
    strange = await front.get("/v1/sessions", headers={"Host": "attacker.example"})
    assert strange.json()["code"] == "unknown-host"
    crossed = await front.post(
        "/v1/sessions", json=body, headers={"Origin": "https://attacker.example"}
    )
    assert crossed.json()["code"] == "cross-site"
    own = await front.post("/v1/sessions", json=body, headers={"Origin": str(front.base_url)})
    assert own.status_code == 201, own.text


@needs_nginx
async def test_no_request_fails_when_a_gateway_is_killed_and_a_new_one_receives_requests(
    host: ComposeHost, front: httpx.AsyncClient
) -> None:
    session = await open_session(front)
    # nginx has the addresses of both, and learns only by trying that one is gone.
    await host.kill_container(host.get_container("gateway", 2))
    for number in range(20):
        turn = await front.post(f"/v1/sessions/{session}/turns", json={"text": f"{number}"})
        assert turn.status_code == 202, turn.text
        assert (await front.get(f"/v1/sessions/{session}")).status_code == 200
    await host.start_service("gateway", 2)
    await read_until_reached(host, front, session, 2)


async def test_every_role_refuses_a_server_that_acknowledges_before_fsync(
    tmp_path: Path,
) -> None:
    services = load_services()
    async with run_compose_host(tmp_path, services, "postgresql://127.0.0.1:1/none") as host:
        host.places = {"sync_interval: always": "sync_interval: 2m"}
        await host.start_service("nats")
        roles = [service for service in services.values() if service.role]
        ends = await asyncio.gather(*(host.run_command(each, each.command) for each in roles))
        for code, output in ends:
            assert code != 0
            assert "acknowledges before fsync" in output
