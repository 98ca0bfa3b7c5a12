"""What the demo shows: a conversation, then the events it left, a prompt, and the proof."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import httpx
import typer
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from turnlog.services.cli.console import answers
from turnlog.services.cli.failures import Exit
from turnlog.services.cli.reader.reader import Reader, Wanted
from turnlog.services.cli.screens.events import event_table
from turnlog.services.cli.screens.history import SAID, WIDTH
from turnlog.services.cli.screens.palette import FAMILIES, QUIET
from turnlog.services.cli.screens.prompt import prompt_screen
from turnlog.services.cli.screens.verify import report
from turnlog.services.cli.talk.conversation import Conversation
from turnlog.services.cli.talk.showing import Showing
from turnlog.services.cli.talk.typist import Typist

TURNS: Final = (
    "Hello! Who am I talking to?",
    "What does the log hold of us?",
    "And how can that be proven?",
)
_STROKE: Final = 0.02
"""Seconds a key takes."""
_BREATH: Final = 0.8
"""Seconds before the next scene."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the demo plays; there is no waiting where nobody watches."""

    client: httpx.AsyncClient
    console: Console = field(default_factory=answers)

    async def conversation(self, conversation: Conversation) -> None:
        """Put the turns, and show each reply as it comes."""
        for place, text in enumerate(TURNS):
            self.console.print("\n" if place else "", end="")
            await self._type(text)
            turn = await conversation.submit(text)
            await Showing(self.console).show(conversation.watch(turn))

    async def record(self, session: str) -> None:
        """Show what the log holds of a session; exit code 5 where it is not verified."""
        reader = Reader(self.client)
        events = [event async for event in reader.events(Wanted(session))]
        await self.scene("What the log holds", "every event in order; what follows is read from it")
        self.console.print(event_table(events))
        last = (await reader.calls(session)).calls[-1]
        await self.scene("What the model was sent", "each layer, and where it came from")
        self.console.print(prompt_screen(await reader.prompt(session, last.call)))
        await self.scene("Whether that is true", "the same checks as `turnlog verify`")
        verified = await reader.verify(session)
        self.console.print(report([verified]))
        if not verified.verified:
            raise typer.Exit(Exit.VERIFICATION_FAILED)

    async def scene(self, title: str, remark: str) -> None:
        """Begin a scene."""
        await self._pause(_BREATH)
        heading = Text().append(title, f"bold {FAMILIES['session']}").append(f"  {remark}", QUIET)
        self.console.print()
        self.console.print(Rule(heading, align="left", style=QUIET))

    async def _type(self, text: str) -> None:
        typist = Typist(self.console, "you", SAID, WIDTH)
        for word in text.split():
            await self._pause(_STROKE * len(word))
            typist.say(f"{word} ")
        typist.end()

    async def _pause(self, seconds: float) -> None:
        if self.console.is_terminal:
            await asyncio.sleep(seconds)
