from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.table import Table
from rich.text import Text

from turnlog.events.envelope import RecordedEvent
from turnlog.events.kinds import EVENT_NAMES, format_event_name
from turnlog.services.cli.screens.palette import MUTED, get_event_colour
from turnlog.services.cli.screens.sentence import describe_event
from turnlog.services.cli.screens.sessions import create_listing
from turnlog.services.cli.screens.spelling import format_time, format_one_line

_EVENT_NAME_WIDTH: Final = max(len(name) for name in EVENT_NAMES) + 2
"""Columns that fit any event name."""


def render_events(events: Iterable[RecordedEvent]) -> Table:
    """Render a session's events as a table, one per line."""
    table = create_listing(whole_width=True)
    table.add_column("seq", justify="right", style=MUTED, no_wrap=True)
    table.add_column("time", style=MUTED, no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("what happened", no_wrap=True, overflow="ellipsis", ratio=1)
    for recorded in events:
        table.add_row(
            str(recorded.sequence),
            format_time(recorded.envelope.time),
            _render_event_name(recorded),
            Text(format_one_line(describe_event(recorded.event))),
        )
    return table


def render_event_line(recorded: RecordedEvent, *, with_session: bool) -> Text:
    """Render one event as a line of `turnlog tail`."""
    line = Text().append(f"{format_time(recorded.envelope.time)} ", MUTED)
    if with_session:
        line.append(f"{recorded.session} ", MUTED)
    line.append(f"{recorded.sequence:>4} ", MUTED)
    name = _render_event_name(recorded)
    name.pad_right(_EVENT_NAME_WIDTH - name.cell_len)
    return line.append_text(name).append(format_one_line(describe_event(recorded.event)))


def _render_event_name(recorded: RecordedEvent) -> Text:
    return Text(format_one_line(format_event_name(recorded.envelope.type)), get_event_colour(recorded.envelope.type))
