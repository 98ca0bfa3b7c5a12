"""The shipped `trickster` blueprint on a real service, in a folder that a test may edit.

The model is a provider on loopback that gives the answers a test sets. Everything between the
client's request and the provider's socket is real.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pydantic import JsonValue

from tests.services.gateway.streaming.sse_client import ReceivedEvent
from tests.support.processes.live_service import LiveService
from tests.support.processes.process_host import NO_VARIABLES, ProcessHost, run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.envelope import RecordedEvent
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

SHIPPED_TRICKSTER = SHIPPED_BLUEPRINTS / "trickster"

SHARE = "share-before-reading"

DRAW = "lucky-draw"

SHARED = "Student selected 'Share without reading'"

NOTE = (
    "Your previous response was withheld by the safety check. "
    "Stay in character and go on without repeating it."
)

REPLACEMENT = "(Triksteris apsigalvojo ir nutilo.)"
"""What stands in place of a withheld reply in a session in Lithuanian, the default."""

FORBIDDEN = "Write to me at trick@example.org. "
"""A text that the shipped safety rule against contact details withholds."""


@dataclass(frozen=True, slots=True, repr=False)
class TutorService:
    """A running service with its provider and its blueprint folder."""

    up: TurnlogUp
    provider: OpenAIServer
    trickster: Path

    @property
    def service(self) -> LiveService:
        return self.up.service

    async def request_session(self, task: str, **attributes: JsonValue) -> httpx.Response:
        """Request a session of a task; `session` is its id, all other keywords are attributes."""
        named = {"session": attributes.pop("session")} if "session" in attributes else {}
        form = {"blueprint": "trickster", "attributes": {"task": task, **attributes}, **named}
        return await self.service.http.post("/v1/sessions", json=form)

    async def open_session(self, task: str = SHARE, **attributes: JsonValue) -> str:
        """Open a session of a task and return its id."""
        answer = await self.request_session(task, **attributes)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["session"])

    async def open_dialogue(
        self, task: str = SHARE, choice: str = "share", **attributes: JsonValue
    ) -> str:
        """Open a session, record the choice that leads to its dialogue, and return its id."""
        session = await self.open_session(task, **attributes)
        assert (await self.post_command(session, "choices", choice=choice)).status_code == 200
        return session

    async def post_command(self, session: str, what: str, **form: JsonValue) -> httpx.Response:
        return await self.service.http.post(f"/v1/sessions/{session}/{what}", json=form)

    async def submit_and_watch(
        self, session: str, text: str, *answers: ModelAnswer
    ) -> list[ReceivedEvent]:
        """Submit a text, set the provider's answers, and return the events of the turn stream."""
        self.provider.queue_behaviours(*answers)
        return await self.watch_turn(session, await self.service.submit_turn(session, text))

    async def watch_turn(self, session: str, turn: int) -> list[ReceivedEvent]:
        """Return all events of a turn stream."""
        async with self.service.watch_turn(session, turn) as answer:
            assert answer.status == 200
            return await answer.read_all()

    async def fetch_session(self, session: str) -> dict[str, Any]:
        return dict(await self.service.get_json(f"/v1/sessions/{session}"))

    async def fetch_history(self, session: str) -> list[dict[str, Any]]:
        return list((await self.service.get_json(f"/v1/sessions/{session}/history"))["turns"])

    async def fetch_prompt(self, session: str, call: str) -> dict[str, Any]:
        """Return the prompt of a call and require that it is verified."""
        prompt = await self.service.get_json(f"/v1/sessions/{session}/calls/{call}/prompt")
        assert prompt["verified"], prompt["fault"]
        return dict(prompt)

    async def fetch_system_prompt(self, session: str, call: str) -> str:
        first = (await self.fetch_prompt(session, call))["messages"][0]
        assert first["role"] == "system"
        return str(first["content"])

    async def load_events(self, session: str) -> list[RecordedEvent]:
        """Give all events of a session."""
        return await self.service.list_events(session)

    @property
    def sent(self) -> dict[str, Any]:
        """The body of the provider's last request."""
        body: dict[str, Any] = self.provider.exchanges[-1].body
        return body

    def read_prompt_file(self, file: str) -> str:
        """Return a shipped prompt file without trailing newlines, as prompts include it."""
        return (SHIPPED_TRICKSTER / file).read_text().rstrip("\n")

    def write_task(self, name: str, cartridge: str) -> str:
        """Write the cartridge of another task and return the task's name."""
        folder = self.trickster / "tasks" / name
        folder.mkdir()
        (folder / "cartridge.yaml").write_text(cartridge)
        return name


@asynccontextmanager
async def prepare_tutor_host(
    folder: Path, provider: OpenAIServer, extra_variables: Mapping[str, str] = NO_VARIABLES
) -> AsyncGenerator[ProcessHost]:
    """Give a machine whose service reads its trickster from a copy under `folder`."""
    shutil.copytree(SHIPPED_TRICKSTER, folder / "blueprints/trickster")
    variables = build_settings(provider) | {
        "TURNLOG_BLUEPRINTS": str(folder / "blueprints"),
        # No process dies in these tests; a busy machine must not look like one that does.
        "TURNLOG_ACK_WAIT": "60",
    }
    async with run_process_host(folder, {**variables, **extra_variables}) as host:
        yield host


@asynccontextmanager
async def start_tutor_service(
    host: ProcessHost,
    provider: OpenAIServer,
    told_to: Path | None = None,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> AsyncGenerator[TutorService]:
    """Start the service; it is stopped on exit and its data stays."""
    async with run_turnlog_up(host, output_file=told_to, variables=variables) as up:
        yield TutorService(up, provider, host.folder / "blueprints/trickster")


@contextmanager
def edit_file(file: Path, text: str | None) -> Generator[None]:
    """Replace the text of a prompt file while the block runs; None removes the file."""
    before = file.read_text() if file.exists() else None
    _write_or_remove(file, text)
    try:
        yield
    finally:
        _write_or_remove(file, before)


def _write_or_remove(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)


def answer_with_signal(name: str, *words: str) -> ModelAnswer:
    """Return an answer that requests the end of the phase by a signal."""
    wish = ("transition_phase", f'{{"signal": "{name}"}}')
    return ModelAnswer(tokens=words or ("Enough.",), tool_calls=(wish,), finish="tool_calls")


def answer_with_text(*words: str) -> ModelAnswer:
    return ModelAnswer(tokens=words)


def list_event_names(received: Sequence[ReceivedEvent]) -> list[str]:
    return [each.name for each in received]


def join_tokens(received: Sequence[ReceivedEvent]) -> str:
    """Return the joined text of all token events."""
    return "".join(each.json["text"] for each in received if each.name == "token")


def list_tool_names(body: Mapping[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools") or ()]
