from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import httpx
from pydantic import JsonValue
from rich.console import Console
from rich.text import Text

from turnlog.events.errors import Refused
from turnlog.services.cli.console import answers
from turnlog.services.cli.given import named
from turnlog.services.cli.options import Served
from turnlog.services.cli.place import service
from turnlog.services.cli.reader.opened import client as open_client
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.history import SAID, WIDTH
from turnlog.services.cli.screens.palette import QUIET
from turnlog.services.cli.talk.conversation import Conversation, opened
from turnlog.services.cli.talk.following import following
from turnlog.services.cli.talk.keyboard import unechoed
from turnlog.services.cli.talk.showing import Showing
from turnlog.services.gateway.payloads.turns import Submitted


def hold(served: Served, session: str | None, blueprint: str, attributes: Sequence[str]) -> None:
    """Chat at this terminal with an existing session or a new one."""
    url = service(served).url
    given = named(attributes, "--attribute")
    console = answers()
    with asyncio.Runner() as runner:
        client = open_client(url)
        try:
            conversation = runner.run(_conversation(client, session, blueprint, given))
            console.print(Text(f"session {conversation.session}  {url}\n", QUIET))
            Chat(runner, conversation, console).hold()
        finally:
            runner.run(client.aclose())


async def _conversation(
    client: httpx.AsyncClient, session: str | None, blueprint: str, given: dict[str, JsonValue]
) -> Conversation:
    if session is None:
        return Conversation(client, (await opened(client, blueprint, given)).session)
    return Conversation(client, (await Reader(client).session(session)).session)


_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat with one person at a terminal."""

    runner: asyncio.Runner
    conversation: Conversation
    console: Console

    def hold(self) -> None:
        """Read and run turns until the person leaves."""
        asked = self._asked()
        while (line := self._line(asked)) is not None:
            if line.strip():
                self.runner.run(self._turn(line))
        self.console.print()

    async def _turn(self, text: str) -> None:
        turn: Submitted | None = await self.conversation.submit(text)
        loop = asyncio.get_running_loop()
        cancelling = set[asyncio.Task[None]]()
        loop.add_signal_handler(
            signal.SIGINT, lambda: cancelling.add(loop.create_task(self._cancel()))
        )
        try:
            with unechoed():
                while turn is not None:
                    await Showing(self.console).show(self.conversation.watch(turn))
                    turn = await following(self.conversation, turn)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await asyncio.gather(*cancelling)

    async def _cancel(self) -> None:
        # The reply may have been completed before the key was pressed.
        with suppress(Refused):
            await self.conversation.cancel()

    def _line(self, asked: str) -> str | None:
        try:
            return input(asked)
        except EOFError:
            return None
        except KeyboardInterrupt:
            self.console.print(Text("\n(Ctrl-D leaves)", QUIET))
            return ""

    def _asked(self) -> str:
        """Return the input prompt; readline must know which characters take no columns."""
        if not self.console.is_terminal:
            return ""
        with self.console.capture() as captured:
            label = Text(f" {'you':>{WIDTH}} ", f"bold {SAID}").append("▌ ", f"not bold {SAID}")
            self.console.print(label, end="")
        return _ESCAPES.sub(lambda escape: f"\x01{escape[0]}\x02", captured.get())
