from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text

from turnlog.services.cli.reader.frames import SseFrame
from turnlog.services.cli.screens.history import REPLY_COLOUR, LABEL_WIDTH
from turnlog.services.cli.screens.palette import BAD, MUTED, WARNING
from turnlog.services.cli.screens.spelling import format_one_line
from turnlog.services.cli.talk.typist import LabelledTextWriter


@dataclass
class ReplyDisplay:
    """Shows the stream of one turn on a terminal."""

    console: Console
    _writer: LabelledTextWriter = field(init=False)

    def __post_init__(self) -> None:
        self._writer = self._create_writer()

    async def show_turn(self, frames: AsyncGenerator[SseFrame]) -> None:
        """Show a turn until its end."""
        waiting = self.console.status(Text(_describe_progress({}), MUTED), spinner="dots")
        waiting.start()
        async with aclosing(frames):
            async for frame in frames:
                data = json.loads(frame.data)
                if frame.name == "progress":
                    waiting.update(Text(_describe_progress(data), MUTED))
                    continue
                waiting.stop()
                self._handle_frame(frame.name, data)

    def _handle_frame(self, name: str, data: Mapping[str, Any]) -> None:
        match name:
            case "token":
                self._writer.write_text(data["text"])
            case "attempt-reset" if self._writer.has_text:
                self._writer.end_text("what was said so far is void", WARNING)
                self._writer = self._create_writer()
            case "done":
                self._writer.end_text(_describe_ending(data), WARNING)
            case "redact":
                self._replace_reply(data["replacement"])
            case "failed":
                self._writer.end_text(f"failed: {data['code']}", BAD)
            case "cancelled":
                self._writer.end_text(data["reason"], WARNING)
            case _:
                pass

    def _replace_reply(self, replacement: str) -> None:
        self._writer.erase_text()
        instead = LabelledTextWriter(self.console, "withheld", BAD, LABEL_WIDTH)
        instead.write_text(replacement)
        instead.end_text()

    def _create_writer(self) -> LabelledTextWriter:
        return LabelledTextWriter(self.console, "reply", REPLY_COLOUR, LABEL_WIDTH)


def _describe_progress(progress: Mapping[str, Any]) -> str:
    """Return what a turn does before its reply begins."""
    match progress.get("doing"):
        case "summarise":
            return "summing up what was said before"
        case "plan":
            return "planning"
        case "act":
            return "choosing tools"
        case "tool":
            return f"running {format_one_line(progress['tool'])}"
        case _:
            return "waiting for the first word"


def _describe_ending(done: Mapping[str, Any]) -> str:
    """Return a remark on an unusual end: a truncated reply, or the next phase."""
    if following := done.get("next_phase"):
        return f"phase {following} begins"
    finish = done.get("finish", "stop")
    return "" if finish == "stop" else f"ended by {finish}"
