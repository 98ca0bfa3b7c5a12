"""Attacks of one tenant on another one, by everything that names a thing or brings in a text.

Where the other one's thing is named, the answer must be the one for a thing that nobody has: that
it exists must not be told either.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.e2e.tenants.tenant_pair import (
    NAMES,
    TRYING_NAMES,
    UNIQUE_PLACES,
    PairedTenant,
    TenantPair,
    create_strange_places,
    create_tenant,
    fill_template,
    open_session,
)
from tests.services.gateway.listed_routes import iterate_routes
from tests.support.processes.process_host import POLL_INTERVAL

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("the processes of all roles start"),
    pytest.mark.promise("P15"),
]


@dataclass(frozen=True)
class CrossingRequest:
    """A request with the fields `{session}`, `{name}` and so on, also in its body."""

    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def fill(self, places: dict[str, str]) -> tuple[str, str, Any]:
        """Return method, path and body with their fields filled in."""
        body = json.loads(fill_template(json.dumps(self.body), places))
        return self.method, fill_template(self.path, places), body

    def __str__(self) -> str:
        return f"{self.method} {self.path} {json.dumps(self.body)}"


def iterate_reads() -> Iterator[CrossingRequest]:
    """Yield questions that name things of the other tenant in a query."""
    for query in (
        "sessions?q={own}",
        "sessions?q={session}",
        "sessions?origin={session}",
        "sessions?near={session}",
        "sessions?owner={user}",
        "sessions?user={user}",
        "sessions?label={user}",
        "sessions?min_sequence={session}:2",
        "events?session={session}",
        "events?session={session}&stored=true",
        "growth?session={session}",
        "growth?session={session}&group_by=turn",
        "growth?session={session}&min_sequence={session}:2",
        "cache-breaks?session={session}",
        "uses?session={session}",
        "uses?source=segment:1&session={session}",
        "reads?session={session}",
        "usage?user={user}",
        "approvals?user={user}",
        "overrides?user={user}",
        "pins?blueprint={user}",
        "segments?ref={own}",
        "segments?q={own}",
        "knowledge/collections?min_sequence={collection}:1",
        "keys?for_tenant={tenant}",
    ):
        yield CrossingRequest("GET", f"/v1/{query}")


def iterate_commands() -> Iterator[CrossingRequest]:
    """Yield commands and questions that name things of the other tenant in their body."""
    yield CrossingRequest("POST", "/v1/what-if", {"sessions": ["{session}"], "budget": 500})
    yield CrossingRequest("POST", "/v1/what-if?origin={session}", {"budget": 500})
    search = {"text": "secret", "collections": ["{collection}"]}
    yield CrossingRequest("POST", "/v1/knowledge/search", search)
    assemble = {"blueprint": "gathering", "text": "Hi", "user": "{user}"}
    yield CrossingRequest("POST", "/v1/assemble", assemble)
    picture = [{"type": "file", "digest": "{digest}", "media_type": "text/plain"}]
    with_picture = {"blueprint": "gathering", "text": "Hi", "parts": picture}
    yield CrossingRequest("POST", "/v1/assemble", with_picture)
    yield CrossingRequest("HEAD", "/v1/blobs/{digest}")
    yield CrossingRequest("POST", "/v1/blobs?digest={digest}", None)
    yield CrossingRequest("POST", "/v1/webhooks/hook/redeliver", {"session": "{session}"})
    yield CrossingRequest("POST", "/v1/keys/{name}/rotate?for_tenant={tenant}", {})
    form = {"name": "x-{name}", "roles": ["caller"], "tenant": "{tenant}"}
    yield CrossingRequest("POST", "/v1/keys", form)
    for command, body in (
        ("fork", {"at": 3}),
        ("fork", {"at": 3, "session": "{fork}"}),
        ("turns", {"text": "Hi", "parts": picture}),
        ("redactions", {"turn": 1, "reason": "x"}),
        ("purge", None),
        ("close", {}),
        ("blueprint", {}),
        ("tokens", {"may_submit": True}),
        ("references/resolve", {"intent": "x"}),
        ("window", {"text": "Hi"}),
        ("turns/1/feedback", {"vote": "up", "entry": "{collection}/one"}),
    ):
        yield CrossingRequest("POST", f"/v1/sessions/{{session}}/{command}", body)


def list_places(tenant: PairedTenant) -> dict[str, str]:
    return {**tenant.places, "own": tenant.own, "tenant": tenant.name}


async def send_both(
    attacker: PairedTenant, owner: PairedTenant, request: CrossingRequest
) -> tuple[Any, Any]:
    """Ask for what the owner has and for what nobody has; return both as the attacker sees them."""
    places = list_places(owner)
    strange = create_strange_places(places) | {"own": "only-nobody", "tenant": "nobody"}
    answers = list[tuple[int, str]]()
    for filled in (places, strange):
        method, path, body = request.fill(filled)
        form = {} if body is None else {"json": body}
        answer = await attacker.send(method, path, headers=request.headers, **form)
        assert answer.status_code < 500, (str(request), answer.text)
        assert owner.secret not in answer.text, str(request)
        told = re.sub(r'"(at|position)":("[^"]+"|[0-9]+)', r'"\1":0', answer.text)
        for place in sorted({*UNIQUE_PLACES, "own", "tenant"} & places.keys()):
            told = told.replace(filled[place], f"<{place}>")
        answers.append((answer.status_code, told))
    return answers[0], answers[1]


@pytest.mark.parametrize("request_", [*iterate_reads(), *iterate_commands()], ids=str)
@pytest.mark.parametrize("name", TRYING_NAMES)
async def test_naming_what_another_tenant_has_tells_nothing_of_it(
    pair: TenantPair, name: str, request_: CrossingRequest
) -> None:
    attacker, owner = pair.get_pair(name)
    before = await owner.read_everything()
    foreign, nobodys = await send_both(attacker, owner, request_)
    assert foreign == nobodys
    assert await owner.read_everything() == before


async def test_prompt_has_what_the_own_library_brings_and_nothing_of_the_other_one(
    pair: TenantPair,
) -> None:
    """Segments, knowledge and the user's own prompt are called the same in both tenants."""
    for name in NAMES:
        tenant, other = pair.get_pair(name)
        session = await open_session(tenant, "gathering", user="ann")
        prompt = await tenant.store("GET", f"/v1/sessions/{session}/calls/1.1/prompt")
        text = json.dumps(prompt["messages"])
        layers = {part["layer"] for part in prompt["manifest"]["parts"] if part.get("tokens")}
        assert {"own", "core", "cases"} <= layers
        assert text.count(tenant.secret) >= 4
        assert other.secret not in text
        why = await tenant.send("GET", f"/v1/sessions/{session}/calls/1.1/why")
        assert other.secret not in why.text
        await require_settled_quota(tenant, "ann")


async def require_settled_quota(tenant: PairedTenant, user: str) -> None:
    """Wait until the worker has settled what a turn used, with its own login of NATS."""
    async with asyncio.timeout(30):
        while True:
            quota = await tenant.store("GET", f"/v1/quotas/{user}")
            if quota["unsettled_turns"] == 0 and quota["input_tokens"] > 0:
                return
            await asyncio.sleep(POLL_INTERVAL)


async def test_sessions_of_the_same_id_are_two_sessions(pair: TenantPair) -> None:
    """An id is chosen by who opens a session, so one tenant may choose that of another one."""
    owner, twin = pair.get_pair(NAMES[0])
    session = await open_session(owner)
    path = f"/v1/sessions/{session}"
    before = (await owner.send("GET", f"{path}/events")).text
    assert await open_session(twin, "gathering", session=session) == session
    assert (await owner.send("GET", f"{path}/events")).text == before
    await require_separate_answers(owner, twin, session)
    token = await owner.store("POST", f"{path}/tokens", json={"may_submit": True})
    signed = {"Authorization": f"Bearer {token['token']}"}
    history = await owner.http.get(f"{path}/history", headers=signed)
    assert owner.secret in history.text
    assert twin.secret not in history.text
    # A stream of the one gets none of the other's events and tokens.
    headers = {"Accept": "text/event-stream"}
    turns = f"{path}/turns?wait=60"
    async with owner.open_stream(f"{path}/events?tokens=true", headers) as lines:
        for tenant in (twin, owner):
            await tenant.store("POST", turns, json={"text": f"Again {tenant.secret}"})
        seen = list[str]()
        async for line in lines:
            seen.append(line)
            if f"Again {owner.secret}" in line and "turn-completed" in line:
                break
    assert twin.secret not in "\n".join(seen)
    await twin.store("POST", f"{path}/close", json={})
    refused = await twin.send("POST", turns, json={"text": "Still open?"})
    assert refused.json()["code"] == "session-closed"
    await owner.store("POST", turns, json={"text": "Still open?"})
    await require_separate_answers(owner, twin, session)


async def test_gateway_hears_of_events_and_tokens_of_every_tenant_when_they_are_stored(
    pair: TenantPair,
) -> None:
    """Otherwise readers of other tenants would get them by later looks at the log alone."""
    for tenant in pair.tenants.values():
        session = await open_session(tenant)
        path = f"/v1/sessions/{session}/events?tokens=true"
        async with tenant.open_stream(path, {"Accept": "text/event-stream"}) as lines:
            await anext(lines)
    monitor = f"{pair.roles.server.monitor_url}/connz?subs=1"
    async with httpx.AsyncClient() as http:
        connections = (await http.get(monitor)).json()["connections"]
    (gateway,) = (each for each in connections if each["name"] == "turnlog-gateway")
    live = {each for each in gateway["subscriptions_list"] if each.startswith("live.")}
    assert "live.session.>" in live
    assert live <= {"live.session.>", "live.tokens.>"}


async def require_separate_answers(owner: PairedTenant, twin: PairedTenant, session: str) -> None:
    """Read all about a session that both tenants have; each must get the own one's."""
    seen = 0
    for tenant, other in ((owner, twin), (twin, owner)):
        places = tenant.places | {"session": session}
        paths = [
            path for method, path in iterate_routes() if method == "GET" and "{session}" in path
        ]
        paths += ["/v1/growth?session={session}", "/v1/cache-breaks?session={session}"]
        paths += ["/v1/uses?session={session}", "/v1/sessions?q={session}", "/v1/reads"]
        for path in paths:
            answer = await tenant.send("GET", fill_template(path, places))
            assert answer.status_code < 500, path
            assert other.secret not in answer.text, path
            seen += tenant.secret in answer.text
    assert seen > 20


async def test_cursor_of_another_tenant_shows_the_own_events_only(pair: TenantPair) -> None:
    """A position is one of all tenants, and whoever reads after it gets the own events alone."""
    attacker, owner = pair.get_pair(NAMES[0])
    keys = {"/v1/sessions": "before", "/v1/reads": "before", "/v1/events": "after"}
    for path, key in keys.items():
        page = await owner.store("GET", f"{path}?limit=1")
        cursor = page["after"] if path == "/v1/events" else page["next"]
        assert cursor is not None, path
        answer = await attacker.send("GET", f"{path}?{key}={quote(str(cursor))}")
        assert answer.status_code in {200, 400, 422}, (path, answer.text)
        assert owner.secret not in answer.text
        # What the attacker has looked for is in its own log of reads.
        assert path == "/v1/reads" or owner.places["session"] not in answer.text


async def test_text_that_another_tenant_has_stored_is_stored_as_if_nobody_had(
    pair: TenantPair,
) -> None:
    attacker, owner = pair.get_pair(NAMES[0])
    kind = {"Content-Type": "text/plain"}
    common = "a text that both have"
    await owner.store("POST", "/v1/blobs", content=common.encode(), headers=kind)
    answers = list[tuple[int, set[str]]]()
    for content in (common, "a text that one has"):
        stored = await attacker.send("POST", "/v1/blobs", content=content.encode(), headers=kind)
        answers.append((stored.status_code, set(stored.json()) | set(stored.headers)))
    assert answers[0] == answers[1]


async def test_idempotency_key_of_another_tenant_is_the_own_one(pair: TenantPair) -> None:
    """Both send the same keys and bodies, and each command is carried out in both tenants."""
    keys = {"Idempotency-Key": "the-same-key-of-both-tenants"}
    commands = [
        ("POST", "/v1/sessions", {"blueprint": "assistant"}),
        ("POST", "/v1/segments", {"scope": "core", "content": "same", "ref": "same"}),
        ("POST", "/v1/webhooks", {"name": "same", "url": "http://127.0.0.1:9/same"}),
        ("POST", "/v1/keys", {"name": "same", "roles": ["caller"]}),
    ]
    for method, path, body in commands:
        for name in NAMES:
            answer = await pair.tenants[name].send(method, path, json=body, headers=keys)
            assert answer.is_success, answer.text
    for path in ("/v1/webhooks", "/v1/keys"):
        for name in NAMES:
            assert '"name":"same"' in (await pair.tenants[name].send("GET", path)).text
    opened = [
        (
            await pair.tenants[name].send(
                "POST", "/v1/sessions", json={"blueprint": "assistant"}, headers=keys
            )
        ).json()["session"]
        for name in NAMES
    ]
    assert opened[0] != opened[1]


async def test_record_is_verified_and_signed_for_the_own_tenant_only(pair: TenantPair) -> None:
    attacker, owner = pair.get_pair(NAMES[0])
    checkpoint = await owner.store("GET", "/v1/checkpoint")
    for method, path, form in (
        ("GET", "/v1/verify", {}),
        ("GET", "/v1/checkpoint", {}),
        ("POST", "/v1/verify", {"json": checkpoint}),
        ("POST", "/v1/checkpoint", {"json": checkpoint}),
    ):
        answer = await attacker.send(method, path, **form)
        assert answer.status_code < 500, answer.text
        assert owner.secret not in answer.text
        for place in ("session", "fork", "redacted"):
            assert owner.places[place] not in answer.text, (method, path)


async def test_figures_count_nothing_of_the_other_tenant(pair: TenantPair) -> None:
    """A tenant that has no session has no figures, whatever others do meanwhile."""
    attacker, owner = pair.get_pair(NAMES[0])
    empty = await create_tenant(attacker.http, "empty")
    rule = {"name": "any-cost", "measure": "turns_waiting", "above": 0}
    assert (await empty.send("PUT", "/v1/alerts", json={"alerts": [rule]})).status_code < 500
    for path in ("growth", "usage", "overview", "cache-breaks", "approvals", "quarantine", "pins"):
        answer = await empty.send("GET", f"/v1/{path}")
        assert answer.status_code == 200, (path, answer.text)
        for tenant in (attacker, owner):
            assert tenant.secret not in answer.text, path
            assert tenant.places["session"] not in answer.text, path
    assert (await empty.store("GET", "/v1/growth"))["groups"] == []
    assert (await empty.store("GET", "/v1/events"))["events"] == []
