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

from tests.support.processes.live_service import LiveService
from tests.support.processes.process_host import run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.call_events import ContextAssembled

ENTRY = {"entry_point": "ep.gate", "world": "world.coast", "ruleset": "ruleset.dice"}

GUARD = "npc.guard"

CUE = "He shrugs."


def build_row(
    scope: str, content: str, ref: str | None = None, **more: JsonValue
) -> dict[str, JsonValue]:
    """Return a segment in the form of an import."""
    return {"scope": scope, "content": content, **({"ref": ref} if ref else {}), **more}


COAST_SEGMENTS = [
    build_row("core", "Tell the story in the second person."),
    build_row("core", "Never roll for the player."),
    build_row("ruleset", "A six always succeeds.", "ruleset.dice"),
    build_row("world", "The coast is always foggy.", "world.coast"),
    build_row("entry", "A gate stands in the fog.", "ep.gate"),
    build_row("entry_start", "Greet the traveller.", "ep.gate"),
    build_row("npc", "The guard is bored.", GUARD, tier=0, priority="high"),
    build_row("npc", "He takes bribes.", GUARD, tier=1),
    build_row("npc", "He serves the count.", GUARD, tier=2),
    build_row("npc", CUE, GUARD, type="npc_cue"),
    build_row("npc", "The dog barks.", "npc.dog", tier=0, priority="low"),
    build_row("npc", "The dog has a key.", "npc.dog", tier=1, priority="low"),
    build_row("npc", "The dog wags.", "npc.dog", type="npc_cue"),
]


@dataclass(frozen=True, slots=True, repr=False)
class GameService:
    """A running service and its provider."""

    up: TurnlogUp
    provider: OpenAIServer

    @property
    def service(self) -> LiveService:
        return self.up.service

    @property
    def http(self) -> httpx.AsyncClient:
        """The HTTP client of the service."""
        return self.up.service.http

    async def import_segments(self, *rows: Mapping[str, JsonValue]) -> dict[str, Any]:
        answer = await self.http.post("/v1/segments/import", json={"segments": list(rows)})
        assert answer.status_code in {200, 201}, answer.text
        return dict(answer.json())

    async def edit_segment(self, segment: int, **change: JsonValue) -> None:
        answer = await self.http.patch(f"/v1/segments/{segment}", json=change)
        assert answer.status_code == 200, answer.text

    @property
    def blueprints(self) -> Path:
        """The folder of blueprints that the service reads beside the shipped ones."""
        return self.up.ready_file.parent.parent / "blueprints"

    async def open_session(self, blueprint: str = "game-master", /, **attributes: JsonValue) -> str:
        """Open a session and return its id."""
        form = {"blueprint": blueprint, "attributes": {**ENTRY, **attributes}}
        answer = await self.http.post("/v1/sessions", json=form)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["session"])

    async def request_turn(self, session: str, text: str, **inputs: JsonValue) -> httpx.Response:
        """Submit a turn and wait until it settles."""
        form = {"text": text, "inputs": inputs}
        return await self.http.post(f"/v1/sessions/{session}/turns?wait=60", json=form)

    async def play_turn(self, session: str, text: str, **inputs: JsonValue) -> dict[str, Any]:
        """Run a turn and return the assembly report of its call."""
        answer = await self.request_turn(session, text, **inputs)
        assert answer.status_code == 200, answer.text
        settled = answer.json()
        assert settled["status"] == "completed", settled
        return await self.fetch_assembly(session, f"{settled['turn']}.1")

    async def play_failing_turn(
        self, session: str, text: str, **inputs: JsonValue
    ) -> dict[str, Any]:
        """Run a turn that must fail and return the settled turn."""
        answer = await self.request_turn(session, text, **inputs)
        assert answer.status_code == 200, answer.text
        settled = dict(answer.json())
        assert settled["status"] == "failed", settled
        return settled

    async def fetch_assembly(self, session: str, call: str) -> dict[str, Any]:
        """Return the assembly report of a call and require that its prompt is verified."""
        path = f"/v1/sessions/{session}/calls/{call}"
        prompt = await self.service.get_json(f"{path}/prompt")
        assert prompt["verified"], prompt["fault"]
        found = await self.service.get_json(f"{path}/assembly")
        assert found["prompt"] == prompt["messages"][0]["content"]
        return dict(found)

    async def load_context_event(self, session: str, call: str) -> ContextAssembled:
        """Return the event that recorded the prompt of a call."""
        events = (event.event for event in await self.service.list_events(session))
        fixed = [each for each in events if isinstance(each, ContextAssembled)]
        return next(each for each in fixed if each.call == call)

    @property
    def sent(self) -> str:
        """The prompt of the provider's last request."""
        body: dict[str, Any] = self.provider.exchanges[-1].body
        assert [message["role"] for message in body["messages"]] == ["user"]
        return str(body["messages"][0]["content"])


@asynccontextmanager
async def start_game_service(folder: Path, provider: OpenAIServer) -> AsyncGenerator[GameService]:
    """Start a service with the coast segments in its library."""
    # No process dies in these tests; a busy machine must not look like one that does.
    variables = build_settings(provider) | {
        "TURNLOG_ACK_WAIT": "60",
        "TURNLOG_BLUEPRINTS": str(folder / "blueprints"),
    }
    (folder / "blueprints").mkdir()
    async with run_process_host(folder, variables) as host, run_turnlog_up(host) as up:
        made = GameService(up, provider)
        await made.import_segments(*COAST_SEGMENTS)
        yield made


def build_npc_inputs(*tiers: tuple[str, int]) -> list[JsonValue]:
    """Return the `npcs` input: each person and the tier of what is known."""
    return [{"npc": npc, "tier": tier} for npc, tier in tiers]


def parse_blocks(prompt: str) -> dict[str, str]:
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
