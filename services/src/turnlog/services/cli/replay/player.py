"""Play the scenes of a session on a terminal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from rich.console import Console, RenderableType
from rich.text import Text

from turnlog.services.cli.replay.scenes import Scene
from turnlog.services.cli.screens.history import REPLY, WIDTH, said
from turnlog.services.cli.screens.palette import QUIET
from turnlog.services.cli.screens.spelling import one_line
from turnlog.services.cli.talk.typist import Typist

MOST_PAUSE: Final = 3.0
"""The longest pause in seconds; long breaks are shortened to it."""
_WORDS: Final = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Player:
    """Plays scenes one after the other."""

    console: Console
    speed: float
    """Factor to the original pace; 0 plays without pauses."""
    turn_page: Callable[[], Awaitable[None]] | None = None
    """Awaited before each turn but the first, when the user steps through."""
    prompt: Callable[[str], Awaitable[RenderableType]] | None = None
    """Returns the rendered prompt of a call."""

    async def play(self, scenes: Iterable[Scene]) -> None:
        for scene in scenes:
            if scene.turn and scene.turn > 1 and self.turn_page:
                await self.turn_page()
            else:
                await self._wait(min(MOST_PAUSE, scene.pause))
            await self._show(scene)

    async def _show(self, scene: Scene) -> None:
        match scene.who:
            case "you":
                self.console.print(said(scene.text))
            case "note":
                self.console.print(Text(f"{'':{WIDTH}}   {one_line(scene.text)}", QUIET))
            case "reply":
                await self._say(scene)
            case "prompt" if self.prompt:
                self.console.print(await self.prompt(scene.text))
            case "prompt":
                pass

    async def _say(self, scene: Scene) -> None:
        typist = Typist(self.console, "reply", REPLY, WIDTH)
        words = _WORDS.findall(scene.text)
        for word in words:
            await self._wait(scene.lasts / len(words))
            typist.say(word)
        typist.end()

    async def _wait(self, seconds: float) -> None:
        if self.speed:
            await asyncio.sleep(seconds / self.speed)
