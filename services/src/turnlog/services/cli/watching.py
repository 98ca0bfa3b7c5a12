"""Watching events as they come, and replaying those that came."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing

from turnlog.events.errors import Refused
from turnlog.services.cli.console import answers, print_json
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.replay.player import Player
from turnlog.services.cli.replay.scenes import scenes
from turnlog.services.cli.screens.events import event_line
from turnlog.services.cli.show import Form


async def tail(
    reader: Reader, session: str | None, types: str | None, after: int, form: Form, *, live: bool
) -> None:
    """Write one line an event, for as long as somebody watches."""
    console = answers()
    events = reader.events(session, after=after, types=types, live=live and reader.live)
    async with aclosing(events):
        async for recorded in events:
            if form == "json":
                print_json(json.loads(recorded.stored))
            else:
                # A person's line ends at the edge; whoever reads by program gets it whole.
                whole = not console.is_terminal
                line = event_line(recorded, with_session=session is None)
                console.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=whole)


async def replay(reader: Reader, session: str, speed: float, *, step: bool) -> None:
    """Play a session as its user saw it."""
    console = answers()
    events = [event async for event in reader.events(session, live=False)]
    if step and not sys.stdin.isatty():
        fix = "leave it out, or run it in a terminal"
        raise Refused("bad-option", "nobody is there to turn the page", field="--step", fix=fix)
    paced = speed if console.is_terminal else 0.0
    await Player(console, paced, _next_page if step else None).play(scenes(events))


async def _next_page() -> None:
    # Not `input` in a thread: Ctrl-C would have to wait for the key.
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, pressed.set)
    try:
        await pressed.wait()
        sys.stdin.readline()
    finally:
        loop.remove_reader(sys.stdin)
