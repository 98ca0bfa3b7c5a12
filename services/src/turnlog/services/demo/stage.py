"""The stage of a demo: plays turns and scenes in the terminal, and shows events and verification.

Everything shown is read back over HTTP. The typing pauses apply only in a terminal.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
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
from turnlog.services.cli.screens.verify import report
from turnlog.services.cli.talk.conversation import Conversation
from turnlog.services.cli.talk.showing import Showing
from turnlog.services.cli.talk.typist import Typist
from turnlog.services.gateway.payloads.turns import Submitted

_STROKE: Final = 0.02
"""Seconds for each typed character."""
_BREATH: Final = 0.8
"""Seconds before each scene."""


@dataclass(frozen=True, slots=True)
class Where:
    """Addresses and folders of the running demo, and the command that started it."""

    http: str
    data_dir: Path
    turnlog: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A running demo and the console it plays on."""

    client: httpx.AsyncClient
    where: Where
    console: Console = field(default_factory=answers)

    async def turn(self, conversation: Conversation, text: str) -> Submitted:
        """Submit a turn, and show its reply as it is streamed."""
        await self.type("you", SAID, text)
        turn = await conversation.submit(text)
        await self.show(conversation, turn)
        return turn

    async def show(self, conversation: Conversation, turn: Submitted) -> None:
        """Show the reply of a turn as it is streamed."""
        await Showing(self.console).show(conversation.watch(turn))

    async def events(self, session: str) -> int:
        """Show all events of a session; return the sequence of the last one."""
        reader = Reader(self.client)
        events = [event async for event in reader.events(Wanted(session))]
        await self.scene("What the log holds", "every event in order; what follows is read from it")
        self.console.print(event_table(events))
        return events[-1].sequence

    async def proof(self, session: str) -> None:
        """Show the verification of a session; exit with code 5 where it fails."""
        await self.scene("Whether that is true", "the same checks as `turnlog verify`")
        verified = await Reader(self.client).verify(session)
        self.console.print(report(verified))
        if not verified.verified:
            raise typer.Exit(Exit.VERIFICATION_FAILED)

    async def scene(self, title: str, remark: str) -> None:
        """Print the heading of the next scene."""
        await self._pause(_BREATH)
        heading = Text().append(title, f"bold {FAMILIES['session']}").append(f"  {remark}", QUIET)
        self.console.print()
        self.console.print(Rule(heading, align="left", style=QUIET))

    async def type(self, label: str, colour: str, text: str) -> None:
        """Type a line at the pace of a person."""
        typist = Typist(self.console, label, colour, WIDTH)
        for word in text.split():
            await self._pause(_STROKE * len(word))
            typist.say(f"{word} ")
        typist.end()

    async def _pause(self, seconds: float) -> None:
        if self.console.is_terminal:
            await asyncio.sleep(seconds)
