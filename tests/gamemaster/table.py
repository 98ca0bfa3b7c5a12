"""The shipped `game-master` blueprint on a real service, with a segment library.

The model is a provider on loopback; everything between a client's request and the provider's socket
is real. Each world has its own segments, so that one service serves many tests.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pydantic import JsonValue

from tests.parts.everything import Up, everything
from tests.parts.openai_server import OpenAIServer
from tests.parts.processes import machine
from tests.parts.roles import telling
from tests.parts.service import Service
from turnlog.events.model.call_events import ContextAssembled

ENTRY = {"entry_point": "ep.gate", "world": "world.coast", "ruleset": "ruleset.dice"}
GUARD = "npc.guard"
CUE = "He shrugs."


def row(
    scope: str, content: str, ref: str | None = None, **more: JsonValue
) -> dict[str, JsonValue]:
    """Return a segment in the form of an import."""
    return {"scope": scope, "content": content, **({"ref": ref} if ref else {}), **more}


COAST = [
    row("core", "Tell the story in the second person."),
    row("core", "Never roll for the player."),
    row("ruleset", "A six always succeeds.", "ruleset.dice"),
    row("world", "The coast is always foggy.", "world.coast"),
    row("entry", "A gate stands in the fog.", "ep.gate"),
    row("entry_start", "Greet the traveller.", "ep.gate"),
    row("npc", "The guard is bored.", GUARD, tier=0, priority="high"),
    row("npc", "He takes bribes.", GUARD, tier=1),
    row("npc", "He serves the count.", GUARD, tier=2),
    row("npc", CUE, GUARD, type="npc_cue"),
    row("npc", "The dog barks.", "npc.dog", tier=0, priority="low"),
    row("npc", "The dog has a key.", "npc.dog", tier=1, priority="low"),
    row("npc", "The dog wags.", "npc.dog", type="npc_cue"),
]


@dataclass(frozen=True, slots=True)
class Table:
    """A running service and its provider."""

    up: Up
    provider: OpenAIServer

    @property
    def service(self) -> Service:
        return self.up.service

    @property
    def http(self) -> httpx.AsyncClient:
        """The HTTP client of the service."""
        return self.up.service.http

    async def import_(self, *rows: Mapping[str, JsonValue]) -> dict[str, Any]:
        answer = await self.http.post("/v1/segments/import", json={"segments": list(rows)})
        assert answer.status_code in {200, 201}, answer.text
        return dict(answer.json())

    async def edit(self, segment: int, **change: JsonValue) -> None:
        answer = await self.http.patch(f"/v1/segments/{segment}", json=change)
        assert answer.status_code == 200, answer.text

    async def open(self, **attributes: JsonValue) -> str:
        """Open a session and return its id."""
        form = {"blueprint": "game-master", "attributes": {**ENTRY, **attributes}}
        answer = await self.http.post("/v1/sessions", json=form)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["session"])

    async def ask_play(self, session: str, text: str, **inputs: JsonValue) -> httpx.Response:
        """Submit a turn and wait until it settles."""
        form = {"text": text, "inputs": inputs}
        return await self.http.post(f"/v1/sessions/{session}/turns?wait=60", json=form)

    async def play(self, session: str, text: str, **inputs: JsonValue) -> dict[str, Any]:
        """Run a turn and return the assembly report of its call."""
        answer = await self.ask_play(session, text, **inputs)
        assert answer.status_code == 200, answer.text
        settled = answer.json()
        assert settled["status"] == "completed", settled
        return await self.assembly(session, f"{settled['turn']}.1")

    async def failed(self, session: str, text: str, **inputs: JsonValue) -> dict[str, Any]:
        """Run a turn that must fail and return the settled turn."""
        answer = await self.ask_play(session, text, **inputs)
        assert answer.status_code == 200, answer.text
        settled = dict(answer.json())
        assert settled["status"] == "failed", settled
        return settled

    async def assembly(self, session: str, call: str) -> dict[str, Any]:
        """Return the assembly report of a call and require that its prompt is verified."""
        path = f"/v1/sessions/{session}/calls/{call}"
        prompt = await self.service.get(f"{path}/prompt")
        assert prompt["verified"], prompt["fault"]
        found = await self.service.get(f"{path}/assembly")
        assert found["prompt"] == prompt["messages"][0]["content"]
        return dict(found)

    async def context(self, session: str, call: str) -> ContextAssembled:
        """Return the event that recorded the prompt of a call."""
        events = (event.event for event in await self.service.events(session))
        fixed = [each for each in events if isinstance(each, ContextAssembled)]
        return next(each for each in fixed if each.call == call)

    @property
    def sent(self) -> str:
        """The prompt of the provider's last request."""
        body: dict[str, Any] = self.provider.exchanges[-1].body
        assert [message["role"] for message in body["messages"]] == ["user"]
        return str(body["messages"][0]["content"])


@asynccontextmanager
async def table(folder: Path, provider: OpenAIServer) -> AsyncGenerator[Table]:
    """Start a service with the coast segments in its library."""
    # No process dies in these tests; a busy machine must not look like one that does.
    variables = telling(provider) | {"TURNLOG_ACK_WAIT": "60"}
    async with machine(folder, variables) as host, everything(host) as up:
        made = Table(up, provider)
        await made.import_(*COAST)
        yield made


def npcs(*tiers: tuple[str, int]) -> list[JsonValue]:
    """Return the `npcs` input: each person and the tier of what is known."""
    return [{"npc": npc, "tier": tier} for npc, tier in tiers]


def blocks(prompt: str) -> dict[str, str]:
    """Parse a prompt strictly into its layers and their contents, in order."""
    found: dict[str, str] = {}
    lines = iter(prompt.split("\n"))
    for first in lines:
        layer = first.removeprefix("=== ").removesuffix("_BEGIN ===")
        assert first == f"=== {layer}_BEGIN ==="
        assert layer not in found
        found[layer] = "\n".join(iter(lines.__next__, f"=== {layer}_END ==="))
        assert next(lines, "") == ""
    return found
