"""Play the scenes of a session on a terminal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from rich.console import Console, RenderableType
from rich.text import Text

from turnlog.services.cli.replay.scenes import ReplayScene
from turnlog.services.cli.screens.history import REPLY_COLOUR, LABEL_WIDTH, render_user_text
from turnlog.services.cli.screens.palette import MUTED
from turnlog.services.cli.screens.spelling import format_one_line
from turnlog.services.cli.talk.typist import LabelledTextWriter

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
                self.console.print(Text(f"{'':{LABEL_WIDTH}}   {format_one_line(scene.text)}", MUTED))
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
