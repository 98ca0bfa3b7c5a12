"""Two tenants with keys of their own: each pays for its own calls, and no key is ever recorded."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.e2e.test_two_tenants import Tenant, create_tenant
from tests.e2e.watching.trace_collector import run_collector
from tests.support.processes.process_host import run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.platform.process_settings import ModelAdapter

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("it starts the whole service, once for each adapter"),
]

ROOT_KEY = "the-root-key-of-two-tenants-in-a-test"

ROOT = {"Authorization": f"Bearer {ROOT_KEY}"}

KEYS = {
    "travel": "sk-of-the-travel-desk-0123456789",
    "review": "sk-of-the-review-bot-9876543210",
    "nobody": "sk-of-nobody",
}
"""Who pays with which key; `nobody` is the installation's."""


async def configure(http: httpx.AsyncClient, tenant: str, place: str) -> None:
    """Say where the key of a tenant is."""
    answer = await http.patch(
        f"/v1/tenants/{tenant}", json={"provider_keys": {"openai": place}}, headers=ROOT
    )
    assert answer.status_code == 200, answer.text


async def run_turn(tenant: Tenant, text: str) -> str:
    """Run a turn of the shipped assistant, and return what came of it."""
    opened = await tenant.send("caller", "POST", "/v1/sessions", json={"blueprint": "assistant"})
    assert opened.status_code == 201, opened.text
    path = f"/v1/sessions/{opened.json()['session']}/turns?wait=30"
    return (await tenant.send("caller", "POST", path, json={"text": text})).text


def find_authorization(provider: OpenAIServer, text: str) -> str:
    """Return what the calls with a text were signed in with."""
    found = {
        each.headers["authorization"]
        for each in provider.exchanges
        if text in json.dumps(each.body)
    }
    (authorization,) = found
    return authorization


def list_files_with(folder: Path, secret: str) -> list[Path]:
    """Return the files below a folder that have a text."""
    files = (each for each in folder.rglob("*") if each.is_file())
    return [each for each in files if secret.encode() in each.read_bytes()]


@pytest.mark.parametrize("adapter", ["direct", "litellm"])
async def test_calls_carry_the_key_of_their_tenant_and_no_record_has_one(
    provider: OpenAIServer, tmp_path: Path, adapter: ModelAdapter
) -> None:
    secret = tmp_path / "secrets" / "review"
    secret.parent.mkdir()
    secret.write_text(f"{KEYS['review']}\n")
    settings = build_settings(provider) | {
        "TURNLOG_ROOT_KEY": ROOT_KEY,
        "TURNLOG_MODEL_ADAPTER": adapter,
        "TURNLOG_LOG_LEVEL": "debug",
        "TRAVEL_OPENAI_KEY": KEYS["travel"],
    }
    (tmp_path / "host").mkdir()
    output = tmp_path / "output"
    with run_collector() as collector:
        variables = {"TURNLOG_OTLP_ENDPOINT": collector.url}
        async with (
            run_process_host(tmp_path / "host", settings) as host,
            run_turnlog_up(host, output_file=output, variables=variables) as up,
            httpx.AsyncClient(base_url=up.service.http.base_url, timeout=60) as http,
        ):
            tenants = {name: await create_tenant(http, name) for name in KEYS}
            await configure(http, "travel", "env:TRAVEL_OPENAI_KEY")
            await configure(http, "review", f"file:{secret}")
            for name, tenant in tenants.items():
                answer = await run_turn(tenant, f"{adapter}, says {name}")
                assert json.loads(answer)["status"] == "completed", answer
            for name, key in KEYS.items():
                found = find_authorization(provider, f"{adapter}, says {name}")
                assert found == f"Bearer {key}", name
            sent = len(provider.exchanges)
            secret.unlink()
            failed = await run_turn(tenants["review"], "Who pays?")
            assert "the tenant's own key of openai is not there" in failed
            assert str(secret) not in failed
            assert len(provider.exchanges) == sent
        spans = "".join(each.everything for each in collector.spans)
    assert "assistant" in spans
    assert list_files_with(tmp_path / "host", "env:TRAVEL_OPENAI_KEY"), "events can be searched"
    assert output.stat().st_size
    for key in KEYS.values():
        assert key not in spans
        assert list_files_with(tmp_path, key) == []
