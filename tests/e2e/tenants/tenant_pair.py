"""Two tenants on separate processes: each has one of everything, with words that it alone has.

`secret` is in what a tenant stores and in no request of the other one, so an answer to the other
one that has it has crossed. Names of things are partly the same for both, and partly the own.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.faults.suite_extent import RUN_EVERYTHING
from tests.support.processes.separate_roles import SeparateRoles, run_separate_roles
from tests.support.servers.model_behaviours import EchoAnswer
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.postgres_server import PostgresServer
from turnlog.services.identity.permissions import ROLE_PERMISSIONS

ROOT_KEY: Final = "the-root-key-of-a-pair-of-tenants-in-a-test"

SETTINGS: Final = {
    "TURNLOG_ROOT_KEY": ROOT_KEY,
    "TURNLOG_WEBHOOK_KEY": "5e" * 32,
    "TURNLOG_WEBHOOK_TARGETS": "http://127.0.0.1:9",
    "TURNLOG_ALERT_INTERVAL": "0.5",
}

NAMES: Final = ("travel", "review")

TRYING_NAMES: Final = NAMES if RUN_EVERYTHING else NAMES[:1]
"""The tenants that try each request; both are made alike, so the suite sends those of one."""

EVERY_ROLE: Final = "every-role"

READ_PATHS: Final = (
    *("/v1/events", "/v1/segments", "/v1/knowledge/collections", "/v1/overrides", "/v1/quotas"),
    *("/v1/media-limit", "/v1/webhooks", "/v1/alerts", "/v1/keys", "/v1/sessions"),
)
"""What shows whether anything of a tenant was changed."""


GATHERING: Final = """
blueprint: gathering
version: 1
summary: Has in its prompt all that the library of a tenant can bring into one.
retrieval:
  cases: {collections: notes, min_score: 0.0}
layers:
  own: {override: {category: master_system}}
  core: {segments: {scope: core}}
  cases: {retrieval: cases}
history:
  recent: {}
calls:
  reply: {messages: [{system: [own, core, cases]}, {history: recent}, {user: [input]}]}
profiles:
  chat: {default: true, call: reply}
"""


def write_blueprint(folder: Path) -> None:
    """Write the blueprint that gathers, with a file for what no user has replaced."""
    (folder / "gathering").mkdir(parents=True)
    (folder / "gathering/blueprint.yaml").write_text(GATHERING)
    (folder / "gathering/master_system.md").write_text("You are terse.")


def create_root_headers() -> dict[str, str]:
    return {"Authorization": f"Bearer {ROOT_KEY}"}


@dataclass(repr=False, kw_only=True)
class PairedTenant:
    """One of both tenants: its keys, and the ids of what it has."""

    name: str
    http: httpx.AsyncClient
    keys: dict[str, str]
    places: dict[str, str] = field(default_factory=dict[str, str])
    """Values for the fields of paths, as far as it has them."""

    @property
    def secret(self) -> str:
        """What is in all that it stores."""
        return f"secret-of-{self.name}"

    @property
    def own(self) -> str:
        """What the things are called that it alone has."""
        return f"only-{self.name}"

    async def send(
        self,
        method: str,
        path: str,
        role: str = EVERY_ROLE,
        **form: Any,  # noqa: ANN401
    ) -> httpx.Response:
        """Send a request with a key of this tenant."""
        headers = {"Authorization": f"Bearer {self.keys[role]}", **form.pop("headers", {})}
        return await self.http.request(method, path, headers=headers, **form)

    async def store(self, method: str, path: str, **form: Any) -> Any:  # noqa: ANN401
        """Send a request that has to succeed, and return its answer."""
        answer = await self.send(method, path, **form)
        assert answer.is_success, (method, path, answer.text)
        return answer.json() if answer.content else None

    @asynccontextmanager
    async def open_stream(
        self, path: str, headers: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[str]]:
        """Yield the lines of a stream."""
        signed = {"Authorization": f"Bearer {self.keys[EVERY_ROLE]}", **headers}
        async with self.http.stream("GET", path, headers=signed) as stream:
            assert stream.status_code == 200
            yield stream.aiter_lines()

    async def read_everything(self) -> dict[str, str]:
        """Read all that another tenant could have changed.

        How many positions wait for a webhook is a number of all tenants (docs/keys.md).
        """
        texts = {path: (await self.send("GET", path)).text for path in READ_PATHS}
        return {path: re.sub(r'"waiting":[0-9]+', "", text) for path, text in texts.items()}


async def create_tenant(http: httpx.AsyncClient, name: str) -> PairedTenant:
    """Create a key of each role, and one of all roles."""
    keys = dict[str, str]()
    roles = {role: [role] for role in ROLE_PERMISSIONS} | {EVERY_ROLE: list(ROLE_PERMISSIONS)}
    for key, held in roles.items():
        form = {"name": key, "roles": held, "tenant": name}
        answer = await http.post("/v1/keys", json=form, headers=create_root_headers())
        assert answer.status_code == 201, answer.text
        keys[key] = answer.json()["secret"]
    return PairedTenant(name=name, http=http, keys=keys)


async def open_session(
    tenant: PairedTenant,
    blueprint: str = "assistant",
    *,
    user: str | None = None,
    session: str | None = None,
) -> str:
    """Open a session with a turn, both with the secret; return its id."""
    secret = tenant.secret
    form = {"title": secret, "labels": [secret], "metadata": {"note": secret}, "session": session}
    opened = await tenant.store("POST", "/v1/sessions", json={"blueprint": blueprint, **form})
    turns = f"/v1/sessions/{opened['session']}/turns?wait=60"
    body = {"text": f"Say {secret}", "user": user or secret}
    turn = await tenant.store("POST", turns, json=body)
    assert turn["status"] == "completed", turn
    return str(opened["session"])


async def fill_tenant(tenant: PairedTenant) -> None:
    """Store one of everything."""
    secret, own = tenant.secret, tenant.own
    session = await open_session(tenant)
    state = await tenant.store("GET", f"/v1/sessions/{session}")
    at = {"at": state["sequence"]}
    fork = await tenant.store("POST", f"/v1/sessions/{session}/fork", json=at)
    gone = {"turn": 1, "reason": secret, "replacement": "Withheld."}
    other = await open_session(tenant)
    redacted = await tenant.store("POST", f"/v1/sessions/{other}/redactions", json=gone)
    kind = {"Content-Type": "text/plain"}
    blob = await tenant.store("POST", "/v1/blobs", content=secret.encode(), headers=kind)
    segment = {"scope": "core", "content": secret}
    stored = await tenant.store("POST", "/v1/segments", json=segment)
    last = await tenant.store("POST", "/v1/segments", json=segment | {"ref": own})
    for collection in ("notes", own):
        entries = [{"id": "one", "text": secret}]
        form = {"collection": collection, "entries": entries}
        imported = await tenant.store("POST", "/v1/knowledge/import", json=form)
    for user in ("ann", own):
        override = f"/v1/overrides/gathering/master_system/{user}"
        await tenant.store("PUT", override, json={"text": secret})
    for user in ("ann", own):
        await tenant.store("PUT", f"/v1/quotas/{user}", json={"requests_per_day": 77_777})
    for name in ("hook", own):
        hook = {"name": name, "url": "http://127.0.0.1:9/hook", "attributes": {"k": secret}}
        await tenant.store("POST", "/v1/webhooks", json=hook)
        await tenant.store("POST", f"/v1/webhooks/{name}/pause")  # It stays as it is now.
        where = {"blueprint": secret}
        rule = {"name": name, "measure": "cost", "window": "1h", "above": 0, "where": where}
        await tenant.store("PUT", "/v1/alerts", json={"alerts": [rule]})
        key = {"name": name, "roles": ["caller"], "user": secret}
        await tenant.store("POST", "/v1/keys", json=key)
    await tenant.store("GET", f"/v1/sessions/{session}/calls/1.1/prompt")
    # Lists are read from rows, which follow the log.
    for path, sequence in (
        ("/v1/sessions", f"{other}:{redacted['sequence']}"),
        ("/v1/segments", last["sequence"]),
        ("/v1/knowledge/collections", imported["sequence"]),
    ):
        await tenant.store("GET", path, params={"min_sequence": sequence})
    tenant.places = {
        "session": session,
        "fork": str(fork["session"]),
        "redacted": other,
        "turn": "1",
        "call": "1.1",
        "second": "1.1",
        "blueprint": "gathering",
        "category": "master_system",
        "user": own,
        "name": own,
        "collection": own,
        "entry": "one",
        "segment": str(stored["segment"]),
        "digest": str(blob["digest"]),
        "sequence": "3",
    }


@dataclass(repr=False, kw_only=True)
class TenantPair:
    """Both tenants, and the processes that serve them."""

    roles: SeparateRoles
    tenants: Mapping[str, PairedTenant]

    @property
    def address(self) -> str:
        """Where the gateway listens."""
        return str(self.roles.service.http.base_url).rstrip("/")

    def get_pair(self, name: str) -> tuple[PairedTenant, PairedTenant]:
        """Return a tenant and the other one."""
        other = next(each for each in NAMES if each != name)
        return self.tenants[name], self.tenants[other]


@asynccontextmanager
async def run_tenant_pair(folder: Path, postgres: PostgresServer) -> AsyncGenerator[TenantPair]:
    """Run a gateway, a worker and a projector for two tenants that have one of everything."""
    write_blueprint(folder / "blueprints")
    blueprints = {"TURNLOG_BLUEPRINTS": str(folder / "blueprints")}
    async with (
        OpenAIServer(EchoAnswer()) as provider,
        run_separate_roles(folder, provider, postgres, SETTINGS | blueprints) as roles,
    ):
        await roles.start_worker()
        address = str(roles.service.http.base_url)
        async with httpx.AsyncClient(base_url=address, timeout=60) as http:
            tenants = {name: await create_tenant(http, name) for name in NAMES}
            for tenant in tenants.values():
                await fill_tenant(tenant)
            yield TenantPair(roles=roles, tenants=tenants)


UNIQUE_PLACES: Final = frozenset(
    {"session", "fork", "redacted", "digest", "user", "name", "collection"}
)
"""Places that a tenant shares with no other one; numbers, and what ships, are everybody's."""


def create_strange_places(places: Mapping[str, str]) -> dict[str, str]:
    """Return places of the same form that nobody has."""
    strange = dict(places)
    for name in ("session", "fork", "redacted"):
        strange[name] = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
    strange["digest"] = f"sha256:{'ab' * 32}"
    for name in ("user", "name", "collection"):
        strange[name] = "only-nobody"
    return strange


def fill_template(template: str, places: Mapping[str, str]) -> str:
    """Return a path with its fields filled in, those without a place by 1."""
    return re.sub(r"\{(\w+)(:path)?\}", lambda found: places.get(found[1], "1"), template)
