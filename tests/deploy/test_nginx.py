"""The configurations of nginx, run by nginx: whom they name, and where they pass requests on to."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.deploy.compose_file import ROOT, SECRETS, load_services
from tests.deploy.compose_processes import NGINX, ComposeHost, run_compose_host
from tests.services.gateway.gateway_service import MemoryBackend, start_service
from tests.support.processes.process_host import find_free_port

FOLDER = ROOT / "deploy/nginx"

GATEWAY_PORT = 8700

WAIT = 30.0
"""A bound on hanging."""

pytestmark = pytest.mark.skipif(NGINX is None, reason="no `nginx` on PATH or in /usr/sbin")


def write_users(folder: Path) -> Path:
    """Write the passwords of nginx: ada's is `secret`."""
    digest = base64.b64encode(hashlib.sha1(b"secret", usedforsecurity=False).digest()).decode()
    users = folder / "turnlog.users"
    users.write_text(f"ada:{{SHA}}{digest}\n")
    return users


def write_site(folder: Path, port: int, gateway: str) -> Path:
    """Write a configuration that includes turnlog.conf with the ports and files of this test."""
    changes = {
        "listen 8080;": f"listen 127.0.0.1:{port};",
        "server 127.0.0.1:8700;": f"server {gateway};",
        "/etc/nginx/turnlog/": f"{folder}/",
    }
    write_users(folder)
    for name in ("turnlog.conf", "proxy.conf", "passwords.conf"):
        text = (FOLDER / name).read_text()
        for sample, here in changes.items():
            text = text.replace(sample, here)
        (folder / name).write_text(text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "\n".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\nmaster_process off;\npid {folder / 'pid'};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}\ninclude {folder / 'turnlog.conf'};\n}}\n"
    )
    return config


@asynccontextmanager
async def run_site(folder: Path, gateway: str) -> AsyncGenerator[str]:
    """Run nginx with turnlog.conf in front of a gateway and yield its URL."""
    assert NGINX
    port, errors = find_free_port(), folder / "errors.log"
    words = ("-e", str(errors), "-c", str(write_site(folder, port, gateway)))
    process = await asyncio.create_subprocess_exec(NGINX, *words)
    try:
        while not await can_connect(port):
            assert process.returncode is None, errors.read_text()
            await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def can_connect(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@dataclass
class FakeGateway:
    """A gateway at an address of its own that records requests, and answers by its `manner`."""

    address: str
    manner: str = "answers"
    """`answers` each request, or `breaks`: closes the connection when it has read one."""
    requests: list[str] = field(default_factory=list[str])
    """Method and path of each, health checks left out."""
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a test that wants the rest of a streamed answer."""

    async def serve_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        length = re.search(r"^content-length: (\d+)", head, re.MULTILINE | re.IGNORECASE)
        await reader.readexactly(int(length[1]) if length else 0)
        if path != "/readyz":
            self.requests.append(f"{method} {path}")
        if self.manner == "answers" or path == "/readyz":
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfirst\n")
            if path == "/stream":
                await writer.drain()
                await self.written.wait()
                writer.write(b"second\n")
        writer.close()


@asynccontextmanager
async def run_fake_gateway(address: str, manner: str = "answers") -> AsyncGenerator[FakeGateway]:
    gateway = FakeGateway(address, manner)
    server = await asyncio.start_server(gateway.serve_request, address, GATEWAY_PORT)
    async with server:
        yield gateway


@asynccontextmanager
async def run_composed_nginx(
    folder: Path, access: str = "open"
) -> AsyncGenerator[tuple[ComposeHost, httpx.AsyncClient]]:
    """Run the nginx of docker-compose.yml without the rest, and yield a client of it.

    A test names the gateways; one that answers health checks must be among the first.
    """
    services = load_services(SECRETS | {"NGINX_ACCESS": access})
    async with run_compose_host(folder, services) as host:
        url = f"http://{host.get_address('nginx')}:8080"
        async with httpx.AsyncClient(base_url=url, timeout=WAIT) as client:
            yield host, client


async def test_events_have_the_user_authenticated_by_nginx_as_actor(tmp_path: Path) -> None:
    async with (
        start_service(MemoryBackend(), "proxied", tmp_path, working=False) as service,
        service.start_another_gateway(actor_proxies=(ip_network("127.0.0.1"),)) as gateway,
        run_site(tmp_path, urlsplit(gateway.address).netloc) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as http,
    ):
        await check_named_user(http)


async def test_composed_nginx_with_passwords_names_users_to_the_gateway(tmp_path: Path) -> None:
    async with (
        run_composed_nginx(tmp_path, "passwords") as (host, http),
        start_service(MemoryBackend(), "proxied", tmp_path, working=False) as service,
    ):
        address = host.get_address("gateway")
        host.places["/etc/nginx/turnlog/turnlog.users"] = str(write_users(tmp_path))
        trusted = host.services["nginx"].networks["front"]["ipv4_address"]
        assert trusted in (ROOT / "deploy/example.env").read_text()
        settings = {"http": f"{address}:8700", "actor_proxies": (ip_network("127.0.0.1"),)}
        async with service.start_another_gateway(**settings):
            host.name_server.addresses["gateway"] = [address]
            await host.start_service("nginx")
            await check_named_user(http)


async def check_named_user(http: httpx.AsyncClient) -> None:
    """Check that a request needs a password, and that its events name its user and no other."""
    assert (await http.get("/v1/sessions")).status_code == 401
    body = {"session": "s-1", "blueprint": "clerk", "attributes": {"desk": "1"}}
    # As a browser sends it, and with the name of somebody else
    headers = {"Origin": str(http.base_url), "X-Forwarded-User": "bo"}
    opened = await http.post("/v1/sessions", json=body, headers=headers, auth=("ada", "secret"))
    assert opened.status_code == 201, opened.text
    refused = await http.post("/v1/sessions", json=body, auth=("bo", "secret"))
    assert refused.status_code == 401
    events = await http.get("/v1/sessions/s-1/events", auth=("ada", "secret"))
    assert [each["actor"] for each in events.json()["events"]] == ["user:ada"]
    raised = await http.put("/v1/quotas/ada", json={}, auth=("ada", "secret"))
    assert (raised.status_code, raised.json()["code"]) == (403, "not-permitted")


async def test_command_that_a_gateway_may_have_executed_is_not_sent_to_another(
    tmp_path: Path,
) -> None:
    async with (
        run_composed_nginx(tmp_path) as (host, client),
        run_fake_gateway(host.get_address("gateway", 1), "breaks") as breaking,
        run_fake_gateway(host.get_address("gateway", 2)) as other,
    ):
        host.name_server.addresses["gateway"] = [breaking.address, other.address]
        await host.start_service("nginx")
        for method in ("POST", "PATCH"):
            assert await send_until_broken(client, method, breaking, other) == (502, 0)
        for method in ("GET", "PUT", "DELETE"):
            assert await send_until_broken(client, method, breaking, other) == (200, 1)


async def send_until_broken(
    client: httpx.AsyncClient, method: str, breaking: FakeGateway, other: FakeGateway
) -> tuple[int, int]:
    """Send requests, which nginx gives to one of two gateways by chance, until one was broken.

    Returns its status, and how many times the other gateway got it.
    """
    breaking.requests.clear()
    async with asyncio.timeout(WAIT):
        while True:
            before = len(other.requests)
            answer = await client.request(method, "/v1/sessions")
            if breaking.requests:
                return answer.status_code, len(other.requests) - before


async def test_unreachable_gateway_fails_no_request(tmp_path: Path) -> None:
    async with (
        run_composed_nginx(tmp_path) as (host, client),
        run_fake_gateway(host.get_address("gateway", 2)) as running,
    ):
        nobody = [host.get_address("gateway", number) for number in (1, 3, 4)]
        host.name_server.addresses["gateway"] = [*nobody, running.address]
        await host.start_service("nginx")
        for _ in range(20):
            assert (await client.post("/v1/sessions", json={})).status_code == 200
        assert running.requests == ["POST /v1/sessions"] * 20


async def test_gateway_started_later_is_found_without_a_restart(tmp_path: Path) -> None:
    async with (
        run_composed_nginx(tmp_path) as (host, client),
        run_fake_gateway(host.get_address("gateway", 1)) as first,
        run_fake_gateway(host.get_address("gateway", 2)) as second,
        # Ten times what nginx may take; the first answer counts for 600 s.
        asyncio.timeout(10),
    ):
        host.name_server.addresses["gateway"] = [first.address]
        await host.start_service("nginx")
        assert (await client.get("/v1/sessions")).status_code == 200
        host.name_server.addresses["gateway"] = [second.address]
        while not second.requests:
            assert (await client.get("/v1/sessions")).status_code == 200
            await asyncio.sleep(0.02)


async def test_nginx_passes_response_chunks_without_buffering(tmp_path: Path) -> None:
    async with (
        run_composed_nginx(tmp_path) as (host, client),
        run_fake_gateway(host.get_address("gateway", 1)) as gateway,
    ):
        host.name_server.addresses["gateway"] = [gateway.address]
        await host.start_service("nginx")
        async with asyncio.timeout(WAIT), client.stream("GET", "/stream") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "first"
            gateway.written.set()
            assert await anext(lines) == "second"


async def test_nginx_passes_paths_unchanged_and_bodies_up_to_25_mib(tmp_path: Path) -> None:
    async with (
        run_composed_nginx(tmp_path) as (host, client),
        run_fake_gateway(host.get_address("gateway", 1)) as gateway,
    ):
        host.name_server.addresses["gateway"] = [gateway.address]
        await host.start_service("nginx")
        # A name may hold what nginx would decode; a picture is more than it keeps in memory.
        path = "/v1/quotas/a%2Fb%20c?wait=1&x=%2e"
        assert (await client.put(path, content=b"x" * 2**20)).status_code == 200
        assert gateway.requests == [f"PUT {path}"]
        too_large = await client.put(path, content=b"x" * (25 * 2**20 + 1))
        assert too_large.status_code == 413
