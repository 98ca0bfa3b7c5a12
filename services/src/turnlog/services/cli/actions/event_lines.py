"""Recorded events as lines, and new ones as they arrive."""

from __future__ import annotations

import json
from contextlib import aclosing

from rich.text import Text

from turnlog.events.envelope import RecordedEvent
from turnlog.services.cli.client.event_reads import (
    EventQuery,
    UnreadableLine,
    read_events,
    watch_events,
)
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.views.event_view import render_event_line
from turnlog.services.cli.views.text_format import format_one_line
from turnlog.services.cli.views.theme import BAD


async def print_events(
    service: ServiceClient, query: EventQuery, output: OutputFormat, *, live: bool
) -> None:
    """Print one line per event; with `live`, wait for new events."""
    read = watch_events if live and service.is_live else read_events
    async with aclosing(read(service, query)) as events:
        async for event in events:
            if output == "json":
                print_json(
                    json.loads(
                        event.json_text if isinstance(event, UnreadableLine) else event.stored
                    )
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
    soft_wrap = not console.is_terminal
    console.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=soft_wrap)
