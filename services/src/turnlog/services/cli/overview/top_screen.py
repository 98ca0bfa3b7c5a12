"""The screen of `turnlog top`: what the service sends, and what a person presses.

The service sends an overview whenever it has changed, at most once a second. The sessions are read
after each, and after a key that lists them in another order.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections import deque
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.live import Live

from turnlog.client import ClientOperation
from turnlog.client.operations import build_read, list_sessions
from turnlog.contract import api_paths
from turnlog.contract.call_payloads import OverviewView
from turnlog.contract.session_payloads import SessionRow
from turnlog.contract.value_names import SessionOrder
from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import TurnlogError, Unavailable
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.console import OutputFormat, create_output_console, print_answer
from turnlog.services.cli.overview.top_view import (
    HEADER_LINES,
    ORDER_KEYS,
    TopScreen,
    render_top,
)

RETRY_SECONDS: Final = 1.0
"""Seconds until a service that did not answer is asked again."""

RATE_SECONDS: Final = 60.0
"""Over how many seconds tokens a second are counted."""

PRINTED_ROWS: Final = 20
"""Sessions of a screen that is printed without a terminal."""

_ORDERS: Final = tuple(ORDER_KEYS.values())

_NEXT_ORDER: Final = ("\x1b[17~", ">")
"""F6, as terminals send it, and `>`."""

_QUIT: Final = ("q", "\x1b[21~", "\x03")
"""Also F10, and Ctrl-C where the terminal sends it as a key."""

_PAUSE: Final = "z"

_OVERVIEW: Final = build_read(api_paths.OVERVIEW, OverviewView, {})

_OVERVIEW_STREAM: Final = ClientOperation(
    method="GET",
    path=api_paths.OVERVIEW,
    answer=object,
    headers={"Accept": "text/event-stream"},
)


async def show_sessions_live(
    service: ServiceClient, order: SessionOrder, output: OutputFormat
) -> None:
    """Show what happens until a person leaves, or one screen where there is no terminal."""
    console = create_output_console()
    if output == "table" and service.is_live and console.is_terminal and sys.stdin.isatty():
        await _LiveScreen(service=service, console=console, order=order).run()
        return
    overview = await service.send(_OVERVIEW)
    sessions = await _list_sessions(service, order)
    screen = TopScreen(overview=overview, sessions=sessions[:PRINTED_ROWS], order=order)
    print_answer(overview, render_top(screen), output)


async def _list_sessions(service: ServiceClient, order: SessionOrder) -> tuple[SessionRow, ...]:
    return (await service.send(list_sessions({}, order, None))).sessions


@dataclass
class TokenRate:
    """Tokens a second, by the sums of the readings of the last minute."""

    readings: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])
    since: str = ""

    def add_reading(self, overview: OverviewView) -> float | None:
        """Take a reading, and return the rate; None before there are two."""
        if overview.since != self.since:  # Sums of another time cannot be compared
            self.readings.clear()
            self.since = overview.since
        at = datetime.fromisoformat(overview.at).timestamp()
        self.readings.append((at, overview.tiles.input_tokens))
        # Readings come only when something changed, so the first is the latest that is old enough.
        while len(self.readings) > 1 and at - self.readings[1][0] >= RATE_SECONDS:
            self.readings.popleft()
        (began, before), (ended, after) = self.readings[0], self.readings[-1]
        return (after - before) / (ended - began) if ended > began else None


Change = OverviewView | TurnlogError | str
"""An overview, why there is none, or a key."""


@dataclass(kw_only=True)
class _LiveScreen:
    service: ServiceClient
    console: Console
    order: SessionOrder
    changes: asyncio.Queue[Change] = field(default_factory=asyncio.Queue["Change"])
    rate: TokenRate = field(default_factory=TokenRate)
    screen: TopScreen | None = None
    is_paused: bool = False

    async def run(self) -> None:
        with (
            open_keyboard(self.changes),
            Live(console=self.console, screen=True, auto_refresh=False) as live,
        ):
            async with run_tasks(self._read_overviews()):
                while (change := await self.changes.get()) not in _QUIT:
                    await self._apply_change(change)
                    if self.screen is not None:
                        live.update(render_top(self.screen), refresh=True)

    async def _read_overviews(self) -> None:
        while True:
            try:
                async with aclosing(self.service.stream_messages(_OVERVIEW_STREAM)) as messages:
                    async for message in messages:
                        self.changes.put_nowait(OverviewView.model_validate_json(message.data))
            except TurnlogError as error:
                self.changes.put_nowait(error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _apply_change(self, change: Change) -> None:
        match change:
            case OverviewView():
                rate = self.rate.add_reading(change)
                if not self.is_paused:
                    await self._show(change, rate)
            case Unavailable():
                self._note("the service does not answer")
            case TurnlogError():
                raise change
            case key if key == _PAUSE:
                self.is_paused = not self.is_paused
                self._note("paused" if self.is_paused else "")
            case key:
                await self._change_order(key)

    async def _change_order(self, key: str) -> None:
        if key in _NEXT_ORDER:
            at = _ORDERS.index(self.order) if self.order in _ORDERS else -1
            self.order = _ORDERS[(at + 1) % len(_ORDERS)]
        elif key in ORDER_KEYS:
            self.order = ORDER_KEYS[key]
        if self.screen is not None:
            await self._show(self.screen.overview, self.screen.tokens_per_second)

    async def _show(self, overview: OverviewView, rate: float | None) -> None:
        try:
            sessions = await _list_sessions(self.service, self.order)
        except Unavailable:
            self._note("the service does not answer")
            return
        rows = max(1, self.console.height - HEADER_LINES)
        self.screen = TopScreen(
            overview=overview,
            sessions=sessions[:rows],
            order=self.order,
            tokens_per_second=rate,
            notice="paused" if self.is_paused else "",
            has_keys=True,
        )

    def _note(self, notice: str) -> None:
        if self.screen is not None:
            self.screen = replace(self.screen, notice=notice)


@contextmanager
def open_keyboard(changes: asyncio.Queue[Change]) -> Generator[None]:
    """Put each key that is pressed into a queue, in lower case, while the body runs."""
    number, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(number)

    def read_keys() -> None:
        pressed = os.read(number, 64).decode(errors="replace")
        for key in [pressed] if pressed.startswith("\x1b") else pressed.lower():
            changes.put_nowait(key)

    tty.setcbreak(number)
    loop.add_reader(number, read_keys)
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
