"""The sample configuration of nginx, run by nginx: it names its users to the gateway behind it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.deploy.compose_file import ROOT
from tests.services.gateway.gateway_service import MemoryBackend, start_service
from tests.support.processes.process_host import find_free_port

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SAMPLE = ROOT / "deploy/nginx/turnlog.conf"

pytestmark = pytest.mark.skipif(NGINX is None, reason="no `nginx` on PATH or in /usr/sbin")


def write_config(folder: Path, port: int, gateway: str) -> Path:
    """Write a configuration that includes the sample with the ports and files of this test."""
    users = folder / "users"
    digest = base64.b64encode(hashlib.sha1(b"secret", usedforsecurity=False).digest()).decode()
    users.write_text(f"ada:{{SHA}}{digest}\n")
    changes = {
        "listen 8080;": f"listen 127.0.0.1:{port};",
        "server 127.0.0.1:8700;": f"server {gateway};",
        "auth_basic_user_file /etc/nginx/turnlog.users;": f"auth_basic_user_file {users};",
    }
    site = SAMPLE.read_text()
    for sample, here in changes.items():
        assert site.count(f" {sample}") == 1
        site = site.replace(f" {sample}", f" {here}")
    (folder / "site.conf").write_text(site)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "\n".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\nmaster_process off;\npid {folder / 'pid'};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}\ninclude {folder / 'site.conf'};\n}}\n"
    )
    return config


@asynccontextmanager
async def run_nginx(folder: Path, gateway: str) -> AsyncGenerator[str]:
    """Run nginx in front of a gateway and yield its URL."""
    assert NGINX
    port, errors = find_free_port(), folder / "errors.log"
    words = ("-e", str(errors), "-c", str(write_config(folder, port, gateway)))
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


async def test_events_have_the_user_whom_nginx_authenticated_as_their_actor(tmp_path: Path) -> None:
    async with (
        start_service(MemoryBackend(), "proxied", tmp_path, working=False) as service,
        service.start_another_gateway(actor_proxies=(ip_network("127.0.0.1"),)) as gateway,
        run_nginx(tmp_path, urlsplit(gateway.address).netloc) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as http,
    ):
        assert (await http.get("/v1/sessions")).status_code == 401
        body = {"session": "s-1", "blueprint": "clerk", "attributes": {"desk": "1"}}
        # As a browser sends it, and with the name of somebody else
        headers = {"Origin": url, "X-Forwarded-User": "bo"}
        opened = await http.post("/v1/sessions", json=body, headers=headers, auth=("ada", "secret"))
        assert opened.status_code == 201, opened.text
        refused = await http.post("/v1/sessions", json=body, auth=("bo", "secret"))
        assert refused.status_code == 401
        events = await http.get("/v1/sessions/s-1/events", auth=("ada", "secret"))
        assert [each["actor"] for each in events.json()["events"]] == ["user:ada"]
