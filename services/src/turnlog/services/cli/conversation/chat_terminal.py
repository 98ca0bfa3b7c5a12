"""A chat at the terminal: a line is a turn, Ctrl-C cancels it, Ctrl-D leaves.

When a turn waits for an approval, the person is asked, or told how to decide where there is no
terminal.

Reading a line blocks, so the event loop runs only while a turn is being answered; between turns the
terminal handles Ctrl-C. Echo is off while a reply is shown, so that typed keys do not appear in the
middle of it; they are kept for the next line.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import termios
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from turnlog.client import operations
from turnlog.client.sse_events import ApprovalEvent
from turnlog.contract.session_payloads import OpenedSession
from turnlog.contract.turn_payloads import SubmittedTurn
from turnlog.events.errors import Refused
from turnlog.services.cli.actions.query_actions import parse_attributes
from turnlog.services.cli.client.attached_files import MediaInput, upload_files
from turnlog.services.cli.client.service_client import ServiceClient, create_running_client
from turnlog.services.cli.client.service_location import require_service
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.conversation.approval_questions import describe_decision, request_decision
from turnlog.services.cli.conversation.reply_display import AskedApproval, ReplyDisplay
from turnlog.services.cli.conversation.session_conversation import (
    SessionConversation,
    find_follow_up_turn,
)
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.views.session_view import LABEL_WIDTH, USER_COLOUR
from turnlog.services.cli.views.text_format import escape_controls
from turnlog.services.cli.views.theme import MUTED, WARNING

_LOCAL_MODES: Final = 3
"""Index of the local modes among the attributes of a terminal."""


@contextmanager
def suppress_echo() -> Generator[None]:
    """Turn off the echo of the terminal; without a terminal do nothing."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    silent = [*before]
    silent[_LOCAL_MODES] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """What a new session is opened with."""

    blueprint: str
    attributes: Sequence[str]
    _: KW_ONLY
    title: str | None = None
    labels: Sequence[str] | None = None


def run_chat(
    target: ServiceTarget,
    session: str | None,
    new: SessionChoice,
    attached: Sequence[Path] = (),
    *,
    has_reasoning: bool = False,
) -> None:
    """Chat at this terminal with an existing session or a new one.

    The attached files are sent with the first turn.
    """
    running = require_service(target)
    console = create_output_console()
    with asyncio.Runner() as runner:
        service = create_running_client(running)
        try:
            if session is None:
                opened = runner.run(_open_session(service, new))
                for warning in opened.warnings:
                    console.print(Text(f"! {escape_controls(warning)}", WARNING))
                session = opened.session
            else:
                session = runner.run(service.send(operations.fetch_state(session))).session
            conversation = SessionConversation(service, session, has_reasoning=has_reasoning)
            console.print(Text(f"session {session}  {running.url}\n", MUTED))
            uploads = runner.run(upload_files(service, attached))
            ChatTerminal(runner, conversation, console).run_turns(uploads)
        finally:
            runner.run(service.close())


async def _open_session(service: ServiceClient, new: SessionChoice) -> OpenedSession:
    values = await parse_attributes(service, new.blueprint, new.attributes)
    operation = operations.open_session(new.blueprint, values, title=new.title, labels=new.labels)
    return await service.send(operation)


_ANSI_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class ChatTerminal:
    """A chat with one person at a terminal."""

    runner: asyncio.Runner
    conversation: SessionConversation
    console: Console

    def run_turns(self, attached: Sequence[MediaInput] = ()) -> None:
        """Read and run turns until the person leaves; the first is sent with what is attached."""
        prompt = self._format_prompt()
        while (line := self._read_line(prompt)) is not None:
            if line.strip():
                self._run_turn(line, attached)
                attached = ()
        self.console.print()

    def _run_turn(self, text: str, attached: Sequence[MediaInput] = ()) -> None:
        submitting = self.conversation.submit_turn(text, attached)
        turn: SubmittedTurn | None = self.runner.run(submitting)
        while turn is not None:
            can_ask = self.console.is_terminal and sys.stdin.isatty()
            asked = set[AskedApproval]() if can_ask else None
            display, cursor, is_interrupted = ReplyDisplay(self.console, asked), "", False
            while True:
                try:
                    showing = self._show_turn(display, turn, cursor, cancels=is_interrupted)
                    waiting, is_interrupted = self.runner.run(showing), False
                    if waiting is None:
                        break
                    cursor = waiting.cursor
                    self._decide_approval(waiting)
                except (KeyboardInterrupt, asyncio.CancelledError):
                    # At the question, or just before or after it; in the moment in which a runner
                    # begins, it raises the latter. Nothing is done here, where one more Ctrl-C
                    # would end the chat.
                    is_interrupted = True
            turn = self.runner.run(find_follow_up_turn(self.conversation, turn))

    async def _show_turn(
        self, display: ReplyDisplay, turn: SubmittedTurn, cursor: str, *, cancels: bool
    ) -> ApprovalEvent | None:
        """Show a turn until its end, or until a person has to be asked, and return about what.

        `cancels` cancels it first; Ctrl-C cancels it meanwhile.
        """
        loop = asyncio.get_running_loop()
        cancelling = set[asyncio.Task[None]]()
        loop.add_signal_handler(
            signal.SIGINT, lambda: cancelling.add(loop.create_task(self._cancel_turn()))
        )
        try:
            if cancels:
                self.console.print()
                await self._cancel_turn()
            with suppress_echo():
                return await display.show_turn(self.conversation.watch_turn(turn, cursor))
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await asyncio.gather(*cancelling)

    def _decide_approval(self, waiting: ApprovalEvent) -> None:
        found = request_decision(waiting, self.console)
        if found.decision is None:
            self.console.print(describe_decision(waiting), soft_wrap=True)
            return
        deciding = self.conversation.decide_approval(waiting, found.decision, found.reason)
        try:
            self.runner.run(deciding)
        except Refused as refused:  # Somebody else was faster, or the deadline was.
            self.console.print(Text(escape_controls(refused.detail), WARNING))

    async def _cancel_turn(self) -> None:
        # The reply may have been completed before the key was pressed.
        with suppress(Refused):
            await self.conversation.cancel_turn()

    def _read_line(self, prompt: str) -> str | None:
        try:
            return input(prompt)
        except EOFError:
            return None
        except KeyboardInterrupt:
            self.console.print(Text("\n(Ctrl-D leaves)", MUTED))
            return ""

    def _format_prompt(self) -> str:
        """Return the input prompt; readline must know which characters take no columns."""
        if not self.console.is_terminal:
            return ""
        with self.console.capture() as captured:
            label = Text(f" {'you':>{LABEL_WIDTH}} ", f"bold {USER_COLOUR}").append(
                "▌ ", f"not bold {USER_COLOUR}"
            )
            self.console.print(label, end="")
        return _ANSI_ESCAPES.sub(lambda escape: f"\x01{escape[0]}\x02", captured.get())
