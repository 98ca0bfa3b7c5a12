from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text

from turnlog.services.cli.reader.frames import Frame
from turnlog.services.cli.screens.history import REPLY, WIDTH
from turnlog.services.cli.screens.palette import BAD, QUIET, WARY
from turnlog.services.cli.screens.spelling import one_line
from turnlog.services.cli.talk.typist import Typist


@dataclass
class Showing:
    """Shows the stream of one turn on a terminal."""

    console: Console
    _typist: Typist = field(init=False)

    def __post_init__(self) -> None:
        self._typist = self._fresh()

    async def show(self, frames: AsyncGenerator[Frame]) -> None:
        """Show a turn until its end."""
        waiting = self.console.status(Text(_doing({}), QUIET), spinner="dots")
        waiting.start()
        async with aclosing(frames):
            async for frame in frames:
                data = json.loads(frame.data)
                if frame.name == "progress":
                    waiting.update(Text(_doing(data), QUIET))
                    continue
                waiting.stop()
                self._take(frame.name, data)

    def _take(self, name: str, data: Mapping[str, Any]) -> None:
        match name:
            case "token":
                self._typist.say(data["text"])
            case "attempt-reset" if self._typist.has_said:
                self._typist.end("what was said so far is void", WARY)
                self._typist = self._fresh()
            case "done":
                self._typist.end(_remark(data), WARY)
            case "redact":
                self._withhold(data["replacement"])
            case "failed":
                self._typist.end(f"failed: {data['code']}", BAD)
            case "cancelled":
                self._typist.end(data["reason"], WARY)
            case _:
                pass

    def _withhold(self, replacement: str) -> None:
        self._typist.take_back()
        instead = Typist(self.console, "withheld", BAD, WIDTH)
        instead.say(replacement)
        instead.end()

    def _fresh(self) -> Typist:
        return Typist(self.console, "reply", REPLY, WIDTH)


def _doing(progress: Mapping[str, Any]) -> str:
    """Return what a turn does before its reply begins."""
    match progress.get("doing"):
        case "summarise":
            return "summing up what was said before"
        case "plan":
            return "planning"
        case "act":
            return "choosing tools"
        case "tool":
            return f"running {one_line(progress['tool'])}"
        case _:
            return "waiting for the first word"


def _remark(done: Mapping[str, Any]) -> str:
    """Return a remark on an unusual end: a truncated reply, or the next phase."""
    if following := done.get("next_phase"):
        return f"phase {following} begins"
    finish = done.get("finish", "stop")
    return "" if finish == "stop" else f"ended by {finish}"
