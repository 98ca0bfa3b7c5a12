from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing

from rich.console import RenderableType
from rich.text import Text

from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.projections.stays import in_phase, stays
from turnlog.services.cli.console import answers, print_json
from turnlog.services.cli.reader.reader import Reader, Unreadable, Wanted
from turnlog.services.cli.replay.player import Player
from turnlog.services.cli.replay.scenes import scenes
from turnlog.services.cli.screens.events import event_line
from turnlog.services.cli.screens.palette import BAD
from turnlog.services.cli.screens.prompt import shown_to_model
from turnlog.services.cli.screens.spelling import one_line
from turnlog.services.cli.show import Form


async def tail(reader: Reader, wanted: Wanted, form: Form, *, live: bool) -> None:
    """Print one line per event; with `live`, wait for new events."""
    events = reader.watch(wanted) if live and reader.live else reader.events(wanted)
    async with aclosing(events):
        async for event in events:
            if form == "json":
                print_json(
                    json.loads(event.said if isinstance(event, Unreadable) else event.stored)
                )
            else:
                _write(event, with_session=wanted.session is None)


def _write(event: Recorded | Unreadable, *, with_session: bool) -> None:
    console = answers()
    line = (
        Text(one_line(f"unreadable {event.said}"), BAD)
        if isinstance(event, Unreadable)
        else event_line(event, with_session=with_session)
    )
    # On a terminal a long line ends at the edge; piped output has the whole line.
    whole = not console.is_terminal
    console.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=whole)


async def replay(
    reader: Reader,
    session: str,
    speed: float,
    phase: str | None,
    *,
    step: bool,
    prompts: bool,
) -> None:
    """Play a session or one phase as its user saw it; `prompts` adds what its models saw."""
    console = answers()
    events = [event async for event in reader.events(Wanted(session))]
    if phase is not None:
        there = in_phase(stays(events), phase)
        events = [each for each in events if any(stay.holds(each) for stay in there)]
    if step and not sys.stdin.isatty():
        fix = "leave it out, or run it in a terminal"
        raise Refused("bad-option", "nobody is there to turn the page", field="--step", fix=fix)
    paced = speed if console.is_terminal else 0.0

    async def prompt(call: str) -> RenderableType:
        return shown_to_model(await reader.prompt(session, call))

    turn_page = _next_page if step else None
    player = Player(console, paced, turn_page, prompt if prompts else None)
    await player.play(scenes(events, prompts=prompts))


async def _next_page() -> None:
    # Not `input` in a thread, because Ctrl-C would then wait for the key.
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, pressed.set)
    try:
        await pressed.wait()
        sys.stdin.readline()
    finally:
        loop.remove_reader(sys.stdin)
