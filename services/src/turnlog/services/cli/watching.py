from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing

from rich.console import RenderableType
from rich.text import Text

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.projections.stays import filter_visits, list_phase_visits
from turnlog.services.cli.console import create_output_console, print_json
from turnlog.services.cli.reader.reader import ServiceReader, UnreadableLine, EventQuery
from turnlog.services.cli.replay.player import ScenePlayer
from turnlog.services.cli.replay.scenes import build_scenes
from turnlog.services.cli.screens.events import render_event_line
from turnlog.services.cli.screens.palette import BAD
from turnlog.services.cli.screens.prompt import render_model_messages
from turnlog.services.cli.screens.spelling import format_one_line
from turnlog.services.cli.show import OutputFormat


async def print_events(reader: ServiceReader, query: EventQuery, output: OutputFormat, *, live: bool) -> None:
    """Print one line per event; with `live`, wait for new events."""
    events = reader.watch_events(query) if live and reader.is_live else reader.read_events(query)
    async with aclosing(events):
        async for event in events:
            if output == "json":
                print_json(
                    json.loads(event.json_text if isinstance(event, UnreadableLine) else event.stored)
                )
            else:
                _print_event(event, with_session=query.session is None)


def _print_event(event: RecordedEvent | UnreadableLine, *, with_session: bool) -> None:
    console = create_output_console()
    line = (
        Text(format_one_line(f"unreadable {event.json_text}"), BAD)
        if isinstance(event, UnreadableLine)
        else render_event_line(event, with_session=with_session)
    )
    # On a terminal a long line ends at the edge; piped output has the whole line.
    whole = not console.is_terminal
    console.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=whole)


async def play_session(
    reader: ServiceReader,
    session: str,
    speed: float,
    phase: str | None,
    *,
    step: bool,
    prompts: bool,
) -> None:
    """Play a session or one phase as its user saw it; `prompts` adds what its models saw."""
    console = create_output_console()
    events = [event async for event in reader.read_events(EventQuery(session))]
    if phase is not None:
        there = filter_visits(list_phase_visits(events), phase)
        events = [each for each in events if any(stay.has_event(each) for stay in there)]
    if step and not sys.stdin.isatty():
        fix = "leave it out, or run it in a terminal"
        raise Refused("bad-option", "nobody is there to turn the page", field="--step", fix=fix)
    paced = speed if console.is_terminal else 0.0

    async def prompt(call: str) -> RenderableType:
        return render_model_messages(await reader.fetch_prompt(session, call))

    turn_page = _wait_for_enter if step else None
    player = ScenePlayer(console, paced, turn_page, prompt if prompts else None)
    await player.play_scenes(build_scenes(events, prompts=prompts))


async def _wait_for_enter() -> None:
    # Not `input` in a thread, because Ctrl-C would then wait for the key.
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, pressed.set)
    try:
        await pressed.wait()
        sys.stdin.readline()
    finally:
        loop.remove_reader(sys.stdin)
