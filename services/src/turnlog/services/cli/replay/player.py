"""Play the scenes of a session on a terminal."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from rich.console import Console, RenderableType
from rich.text import Text

from turnlog.events.errors import Refused
from turnlog.projections.read_models.phase_visits import filter_visits, list_phase_visits
from turnlog.services.cli.client.service_reader import EventQuery, ServiceReader
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.conversation.reply_display import LabelledTextWriter
from turnlog.services.cli.replay.scenes import ReplayScene, build_scenes
from turnlog.services.cli.views.prompt_view import render_model_messages
from turnlog.services.cli.views.session_view import LABEL_WIDTH, REPLY_COLOUR, render_user_text
from turnlog.services.cli.views.text_format import format_one_line
from turnlog.services.cli.views.theme import MUTED

MAX_PAUSE_SECONDS: Final = 3.0
"""The longest pause in seconds; long breaks are shortened to it."""

_WORDS: Final = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class ScenePlayer:
    """Plays scenes one after the other."""

    console: Console
    speed: float
    """Factor to the original pace; 0 plays without pauses."""
    wait_for_page: Callable[[], Awaitable[None]] | None = None
    """Awaited before each turn but the first, when the user steps through."""
    render_prompt: Callable[[str], Awaitable[RenderableType]] | None = None
    """Returns the rendered prompt of a call."""

    async def play_scenes(self, scenes: Iterable[ReplayScene]) -> None:
        for scene in scenes:
            if scene.turn and scene.turn > 1 and self.wait_for_page:
                await self.wait_for_page()
            else:
                await self._wait_scaled(min(MAX_PAUSE_SECONDS, scene.pause_seconds))
            await self._show_scene(scene)

    async def _show_scene(self, scene: ReplayScene) -> None:
        match scene.speaker:
            case "you":
                self.console.print(render_user_text(scene.text))
            case "note":
                self.console.print(
                    Text(f"{'':{LABEL_WIDTH}}   {format_one_line(scene.text)}", MUTED)
                )
            case "reply":
                await self._write_reply(scene)
            case "prompt" if self.render_prompt:
                self.console.print(await self.render_prompt(scene.text))
            case "prompt":
                pass

    async def _write_reply(self, scene: ReplayScene) -> None:
        typist = LabelledTextWriter(self.console, "reply", REPLY_COLOUR, LABEL_WIDTH)
        words = _WORDS.findall(scene.text)
        for word in words:
            await self._wait_scaled(scene.duration_seconds / len(words))
            typist.write_text(word)
        typist.end_text()

    async def _wait_scaled(self, seconds: float) -> None:
        if self.speed:
            await asyncio.sleep(seconds / self.speed)


async def play_session(
    reader: ServiceReader,
    session: str,
    speed: float,
    phase: str | None,
    *,
    step: bool,
    prompts: bool,
) -> None:
    """Play a session or one phase as its user saw it; `prompts` adds what its models saw."""
    console = create_output_console()
    events = [event async for event in reader.read_events(EventQuery(session))]
    if phase is not None:
        there = filter_visits(list_phase_visits(events), phase)
        events = [each for each in events if any(stay.has_event(each) for stay in there)]
    if step and not sys.stdin.isatty():
        fix = "leave it out, or run it in a terminal"
        raise Refused("bad-option", "--step needs a terminal", field="--step", fix=fix)
    paced = speed if console.is_terminal else 0.0

    async def prompt(call: str) -> RenderableType:
        return render_model_messages(await reader.fetch_prompt(session, call))

    turn_page = _wait_for_enter if step else None
    player = ScenePlayer(console, paced, turn_page, prompt if prompts else None)
    await player.play_scenes(build_scenes(events, prompts=prompts))


async def _wait_for_enter() -> None:
    # Not `input` in a thread, because Ctrl-C would then wait for the key.
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, pressed.set)
    try:
        await pressed.wait()
        sys.stdin.readline()
    finally:
        loop.remove_reader(sys.stdin)
