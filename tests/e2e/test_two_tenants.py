"""A travel desk and a review bot in one installation: nobody sees what is the other's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.support.processes.process_host import run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("it starts the whole service"),
]

ROOT_KEY = "the-root-key-of-two-tenants-in-a-test"

WORDS = {"travel": "A ferry to Holm for two", "review": "Judge the change of the parser"}


@dataclass(repr=False, kw_only=True)
class Tenant:
    """One tenant: its keys, and the session that its application has opened."""

    http: httpx.AsyncClient
    keys: dict[str, str]
    session: str = ""
    call: str = ""

    async def send(self, role: str, method: str, path: str, **form: Any) -> httpx.Response:  # noqa: ANN401
        """Send a request with the key of a role."""
        headers = {"Authorization": f"Bearer {self.keys[role]}"}
        return await self.http.request(method, path, headers=headers, **form)

    async def fetch(self, role: str, path: str) -> Any:  # noqa: ANN401 - JSON of any shape
        """Fetch what a role may have."""
        answer = await self.send(role, "GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tenants(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, Tenant]]:
    """Both tenants of one service, each with a session of the shipped assistant and a turn."""
    settings = build_settings(provider) | {"TURNLOG_ROOT_KEY": ROOT_KEY}
    async with (
        run_process_host(tmp_path_factory.mktemp("tenants"), settings) as host,
        run_turnlog_up(host) as up,
        httpx.AsyncClient(base_url=up.service.http.base_url, timeout=60) as http,
    ):
        found = {name: await create_tenant(http, name) for name in WORDS}
        for name, tenant in found.items():
            await run_turn(tenant, WORDS[name])
        yield found


async def create_tenant(http: httpx.AsyncClient, name: str) -> Tenant:
    """Create a key of each role for a tenant."""
    keys = dict[str, str]()
    for role in ("caller", "watcher", "auditor", "operator"):
        body = {"name": role, "roles": [role], "tenant": name}
        root = {"Authorization": f"Bearer {ROOT_KEY}"}
        answer = await http.post("/v1/keys", json=body, headers=root)
        assert answer.status_code == 201, answer.text
        keys[role] = answer.json()["secret"]
    return Tenant(http=http, keys=keys)


async def run_turn(tenant: Tenant, text: str) -> None:
    """Open a session of the shipped assistant and complete a turn."""
    opened = await tenant.send("caller", "POST", "/v1/sessions", json={"blueprint": "assistant"})
    assert opened.status_code == 201, opened.text
    tenant.session = opened.json()["session"]
    path = f"/v1/sessions/{tenant.session}/turns?wait=30"
    turn = await tenant.send("caller", "POST", path, json={"text": text})
    assert (turn.status_code, turn.json()["status"]) == (200, "completed"), turn.text
    reached = (await tenant.fetch("watcher", f"/v1/sessions/{tenant.session}"))["sequence"]
    path = f"/v1/sessions/{tenant.session}/calls?min_sequence={reached}"
    calls = await tenant.fetch("watcher", path)
    tenant.call = calls["calls"][0]["call"]


def choose_other(tenants: dict[str, Tenant], name: str) -> Tenant:
    return next(tenant for other, tenant in tenants.items() if other != name)


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.promise("P15")
async def test_a_tenant_has_its_own_sessions_events_figures_and_prompts_only(
    tenants: dict[str, Tenant], name: str
) -> None:
    own, other = tenants[name], choose_other(tenants, name)
    listed = await own.fetch("watcher", f"/v1/sessions?min_sequence={own.session}:2")
    assert [each["session"] for each in listed["sessions"]] == [own.session]
    sought = await own.fetch("watcher", f"/v1/sessions?q={other.session}")
    assert sought["sessions"] == []
    events = (await own.fetch("watcher", "/v1/events"))["events"]
    assert {each["subject"] for each in events} == {own.session}
    prompt = await own.fetch("auditor", f"/v1/sessions/{own.session}/calls/{own.call}/prompt")
    assert WORDS[name] in json.dumps(prompt["messages"])
    foreign = f"/v1/sessions/{other.session}"
    for path in (foreign, f"{foreign}/calls/{other.call}/prompt"):
        refused = await own.send("auditor", "GET", path)
        assert (refused.status_code, refused.json()["code"]) == (404, "unknown-session")
    looks = await own.fetch("auditor", "/v1/reads")
    assert {each["session"] for each in looks["reads"] if each["what"] == "prompt"} == {own.session}
    assert other.session not in json.dumps(looks)


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.promise("P15")
async def test_a_consumer_of_a_tenant_hears_of_nobody_elses_turns(
    tenants: dict[str, Tenant], name: str
) -> None:
    own, other = tenants[name], choose_other(tenants, name)
    headers = {"Authorization": f"Bearer {own.keys['watcher']}", "Accept": "text/event-stream"}
    async with own.http.stream("GET", "/v1/events?after=0", headers=headers) as stream:
        assert stream.status_code == 200
        turn = 0
        for tenant in (other, own):
            path = f"/v1/sessions/{tenant.session}/turns?wait=30"
            done = await tenant.send("caller", "POST", path, json={"text": "And back?"})
            assert done.status_code == 200, done.text
            turn = done.json()["turn"]
        # The other's turn ended first, so a stream that had it would show it before this end.
        seen = set[str]()
        async for line in stream.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            seen.add(event["subject"])
            if event["type"].startswith("turnlog.turn-completed") and event["data"]["turn"] == turn:
                break
    assert seen == {own.session}


@pytest.mark.parametrize("name", WORDS)
async def test_roles_of_a_tenant_do_not_do_what_the_others_are_for(
    tenants: dict[str, Tenant], name: str
) -> None:
    own = tenants[name]
    for role, method, path, lacking in (
        ("watcher", "POST", "/v1/sessions", "sessions:write"),
        ("caller", "GET", "/v1/events", "events:read"),
        ("watcher", "GET", f"/v1/sessions/{own.session}/calls/{own.call}/prompt", "prompts:read"),
        ("operator", "GET", f"/v1/sessions/{own.session}/events?stored=true", "withheld:read"),
        ("auditor", "PUT", "/v1/quotas/ann", "limits:write"),
        ("operator", "GET", "/v1/keys", "keys:write"),
    ):
        refused = await own.send(role, method, path)
        assert (refused.status_code, refused.json()["code"]) == (403, "not-permitted")
        assert f"`{lacking}`" in refused.json()["detail"]
