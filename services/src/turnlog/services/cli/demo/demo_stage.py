"""The stage of a demo: plays turns and scenes in the terminal, and shows events and verification.

Everything shown is read back over HTTP. The typing pauses apply only in a terminal.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from turnlog.contract.turn_payloads import SubmittedTurn
from turnlog.services.api.published_errors.error_code import ExitCode
from turnlog.services.cli.client.event_reads import EventQuery, read_events
from turnlog.services.cli.client.prompt_reads import fetch_prompt
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.client.verification_reads import verify_session
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.conversation.reply_display import LabelledTextWriter, ReplyDisplay
from turnlog.services.cli.conversation.session_conversation import SessionConversation
from turnlog.services.cli.views.event_view import render_events
from turnlog.services.cli.views.prompt_view import render_prompt
from turnlog.services.cli.views.session_view import LABEL_WIDTH, USER_COLOUR
from turnlog.services.cli.views.theme import FAMILY_COLOURS, MUTED
from turnlog.services.cli.views.verification_view import render_session_verification

_KEYSTROKE_SECONDS: Final = 0.02
"""Seconds for each typed character."""


EXCERPT_CHARACTERS: Final = 120
"""What is shown of each text of a prompt: two lines of a small terminal."""


_SCENE_PAUSE_SECONDS: Final = 0.8
"""Seconds before each scene."""


@dataclass(frozen=True, slots=True)
class DemoLocation:
    """Addresses and folders of the running demo, and the command that started it."""

    http: str
    data_dir: Path
    turnlog_command: str
    keep_running: bool
    """Whether the service stays up once the demo is over."""


@dataclass(frozen=True, slots=True)
class ProposedCommand:
    """A command that leads on from a demo, ready to paste."""

    purpose: str
    """What it does, for people."""
    command: str


@dataclass(frozen=True, slots=True)
class DemoStage:
    """A running demo and the console it plays on."""

    service: ServiceClient
    location: DemoLocation
    console: Console = field(default_factory=create_output_console)

    async def play_turn(self, conversation: SessionConversation, text: str) -> SubmittedTurn:
        """Submit a turn, and show its reply as it is streamed."""
        await self.print_typed_line("you", USER_COLOUR, text)
        turn = await conversation.submit_turn(text)
        await self.show_reply(conversation, turn)
        return turn

    async def show_reply(self, conversation: SessionConversation, turn: SubmittedTurn) -> None:
        """Show the reply of a turn as it is streamed."""
        await ReplyDisplay(self.console).show_turn(conversation.watch_turn(turn))

    async def show_events(self, session: str) -> int:
        """Show all events of a session; return the sequence of the last one."""
        events = [event async for event in read_events(self.service, EventQuery(session))]
        await self.begin_scene(
            "What the log holds", "every event in order; what follows is read from it"
        )
        self.console.print(render_events(events))
        return events[-1].sequence

    async def show_prompt(self, session: str, call: str, title: str, note: str) -> None:
        """Show the beginning of each text of a prompt, and the command that shows all of it."""
        prompt = await fetch_prompt(self.service, session, call)
        await self.begin_scene(title, note)
        self.console.print(render_prompt(prompt, EXCERPT_CHARACTERS))
        self.print_whole_command(f"prompt {session} {call}")

    def print_whole_command(self, arguments: str) -> None:
        """Print the command that shows the same with whole texts, if it will work."""
        if not self.location.keep_running:
            return
        command = f"{self.location.turnlog_command} {arguments} --url {self.location.http}"
        self.console.print()
        self.console.print(Text("word for word:  ", MUTED).append(command), soft_wrap=True)

    async def show_verification(self, *sessions: str) -> None:
        """Show the verification of each session; exit with code 5 where one fails."""
        await self.begin_scene("Whether that is true", "the same checks as `turnlog verify`")
        for place, session in enumerate(sessions):
            verified = await verify_session(self.service, session)
            if place:
                self.console.print()
            self.console.print(render_session_verification(verified))
            if not verified.verified:
                raise typer.Exit(ExitCode.VERIFICATION_FAILED)

    async def begin_scene(self, title: str, note: str) -> None:
        """Print the heading of the next scene."""
        await self._sleep_on_terminal(_SCENE_PAUSE_SECONDS)
        heading = (
            Text().append(title, f"bold {FAMILY_COLOURS['session']}").append(f"  {note}", MUTED)
        )
        self.console.print()
        self.console.print(Rule(heading, align="left", style=MUTED))

    async def print_typed_line(self, label: str, colour: str, text: str) -> None:
        """Type a line at the pace of a person."""
        typist = LabelledTextWriter(self.console, label, colour, LABEL_WIDTH)
        for word in text.split():
            await self._sleep_on_terminal(_KEYSTROKE_SECONDS * len(word))
            typist.write_text(f"{word} ")
        typist.end_text()

    async def _sleep_on_terminal(self, seconds: float) -> None:
        if self.console.is_terminal:
            await asyncio.sleep(seconds)
