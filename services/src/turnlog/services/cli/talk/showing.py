"""Showing a reply while it is being said."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from turnlog.services.cli.reader.frames import Frame
from turnlog.services.cli.screens.history import REPLY, WIDTH
from turnlog.services.cli.screens.palette import BAD, QUIET, WARY
from turnlog.services.cli.talk.conversation import Conversation
from turnlog.services.cli.talk.typist import Typist
from turnlog.services.gateway.payloads.turns import Submitted


@dataclass
class Showing:
    """Shows one turn's stream on a terminal."""

    console: Console
    _typist: Typist = field(init=False)

    def __post_init__(self) -> None:
        self._typist = self._fresh()

    async def show(self, conversation: Conversation, turn: Submitted) -> None:
        """Show a turn until its end."""
        waiting = self.console.status(Text("waiting for the first word", QUIET), spinner="dots")
        waiting.start()
        async with aclosing(conversation.watch(turn)) as frames:
            async for frame in frames:
                waiting.stop()
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        data = json.loads(frame.data)
        match frame.name:
            case "token":
                self._typist.say(data["text"])
            case "attempt-reset":
                self._typist.end("what was said so far is void", WARY)
                self._typist = self._fresh()
            case "done":
                finish = data["finish"]
                self._typist.end("" if finish == "stop" else f"ended by {finish}", WARY)
            case "redact":
                self._typist.end(f"withheld: {data['replacement']}", BAD)
            case "failed":
                self._typist.end(f"failed: {data['code']}", BAD)
            case "cancelled":
                self._typist.end(data["reason"], WARY)
            case _:
                pass

    def _fresh(self) -> Typist:
        return Typist(self.console, "reply", REPLY, WIDTH)
