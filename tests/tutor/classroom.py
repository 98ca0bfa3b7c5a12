"""A classroom: the shipped trickster as a real service runs it, on a folder that a test may edit.

The model is a provider on this machine that says what a test tells it to; everything between the
student's request and the provider's socket is real.
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

from tests.parts.everything import Up, everything
from tests.parts.openai_behaviours import Answer
from tests.parts.openai_server import OpenAIServer
from tests.parts.processes import NOTHING, Machine, machine
from tests.parts.roles import telling
from tests.parts.service import Service
from tests.services.gateway.watching import Heard
from turnlog.events.envelope import RecordedEvent
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

SHARE = "share-before-reading"
DRAW = "lucky-draw"
SHARED = "Student selected 'Share without reading'"
NOTE = (
    "Your previous response was withheld by the safety check. "
    "Stay in character and go on without repeating it."
)
REPLACEMENT = "(The Trickster thinks better of it.)"
FORBIDDEN = "Write to me at trick@example.org. "
"""What the shipped rule against contact details withholds."""


@dataclass(frozen=True, slots=True)
class Classroom:
    """A running service with its provider, and the folder of its trickster."""

    up: Up
    provider: OpenAIServer
    trickster: Path

    @property
    def service(self) -> Service:
        """What students and their teachers ask."""
        return self.up.service

    async def ask_open(self, task: str, **given: JsonValue) -> httpx.Response:
        """Ask for a session of a task; `session` names it, the rest are attributes."""
        named = {"session": given.pop("session")} if "session" in given else {}
        form = {"blueprint": "trickster", "attributes": {"task": task, **given}, **named}
        return await self.service.http.post("/v1/sessions", json=form)

    async def open(self, task: str = SHARE, **given: JsonValue) -> str:
        """Open a session of a task; gives its id."""
        answer = await self.ask_open(task, **given)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["session"])

    async def talking(self, task: str = SHARE, choice: str = "share", **given: JsonValue) -> str:
        """Open a session and make the choice that leads to its dialogue; gives its id."""
        session = await self.open(task, **given)
        assert (await self.post(session, "choices", choice=choice)).status_code == 200
        return session

    async def post(self, session: str, what: str, **form: JsonValue) -> httpx.Response:
        """Ask something of a session."""
        return await self.service.http.post(f"/v1/sessions/{session}/{what}", json=form)

    async def say(self, session: str, text: str, *answers: Answer) -> list[Heard]:
        """Say something, let the provider answer, and give what a watcher of the turn sees."""
        self.provider.will(*answers)
        return await self.heard(session, await self.service.submit(session, text))

    async def heard(self, session: str, turn: int) -> list[Heard]:
        """Watch a turn to its end."""
        async with self.service.watching(session, turn) as answer:
            assert answer.status == 200
            return await answer.whole()

    async def stands(self, session: str) -> dict[str, Any]:
        """Show a session."""
        return dict(await self.service.get(f"/v1/sessions/{session}"))

    async def history(self, session: str) -> list[dict[str, Any]]:
        """Give the turns of a session as people read them."""
        return list((await self.service.get(f"/v1/sessions/{session}/history"))["turns"])

    async def prompt(self, session: str, call: str) -> dict[str, Any]:
        """Give the exact prompt of a call, which the record proves."""
        prompt = await self.service.get(f"/v1/sessions/{session}/calls/{call}/prompt")
        assert prompt["verified"], prompt["fault"]
        return dict(prompt)

    async def system(self, session: str, call: str) -> str:
        """Give the system prompt of a call."""
        first = (await self.prompt(session, call))["messages"][0]
        assert first["role"] == "system"
        return str(first["content"])

    async def events(self, session: str) -> list[RecordedEvent]:
        """Give all events of a session."""
        return await self.service.events(session)

    @property
    def sent(self) -> dict[str, Any]:
        """What the provider was sent last."""
        body: dict[str, Any] = self.provider.exchanges[-1].body
        return body

    def text_of(self, file: str) -> str:
        """Give a prompt file as it stands in prompts."""
        return (self.trickster / file).read_text().rstrip("\n")

    def task(self, name: str, cartridge: str) -> str:
        """Write the cartridge of one more task; gives its name."""
        folder = self.trickster / "tasks" / name
        folder.mkdir()
        (folder / "cartridge.yaml").write_text(cartridge)
        return name


@asynccontextmanager
async def school(
    folder: Path, provider: OpenAIServer, told: Mapping[str, str] = NOTHING
) -> AsyncGenerator[Machine]:
    """Give a machine whose service reads its trickster from a copy under `folder`."""
    shutil.copytree(SHIPPED_BLUEPRINTS / "trickster", folder / "blueprints/trickster")
    variables = telling(provider) | {
        "TURNLOG_BLUEPRINTS": str(folder / "blueprints"),
        # Nobody dies here, and a busy machine is no reason to think so
        "TURNLOG_ACK_WAIT": "60",
    }
    async with machine(folder, {**variables, **told}) as host:
        yield host


@asynccontextmanager
async def lesson(
    host: Machine, provider: OpenAIServer, told_to: Path | None = None
) -> AsyncGenerator[Classroom]:
    """Start everything; when left, everything is ended in good order and its data stays."""
    async with everything(host, said=told_to) as up:
        yield Classroom(up, provider, host.folder / "blueprints/trickster")


@contextmanager
def edited(file: Path, text: str | None) -> Generator[None]:
    """Let a prompt file say something else while the body runs, or be gone."""
    before = file.read_text() if file.exists() else None
    _write(file, text)
    try:
        yield
    finally:
        _write(file, before)


def _write(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)


def signal(name: str, *words: str) -> Answer:
    """Answer with these words and the wish to end the phase by a signal."""
    wish = ("transition_phase", f'{{"signal": "{name}"}}')
    return Answer(words or ("Enough.",), tool_calls=(wish,), finish="tool_calls")


def said(*words: str) -> Answer:
    """Answer with these words."""
    return Answer(words)


def names(heard: Sequence[Heard]) -> list[str]:
    """Name what a watcher saw."""
    return [each.name for each in heard]


def shown(heard: Sequence[Heard]) -> str:
    """Join the tokens that a watcher saw."""
    return "".join(each.json["text"] for each in heard if each.name == "token")


def tools_in(body: Mapping[str, Any]) -> list[str]:
    """Name the tools that a provider was told of."""
    return [tool["function"]["name"] for tool in body.get("tools") or ()]
