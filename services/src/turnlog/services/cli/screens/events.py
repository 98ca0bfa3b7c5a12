from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.table import Table
from rich.text import Text

from turnlog.events.envelope import Recorded
from turnlog.events.kinds import NAMES, name_of
from turnlog.services.cli.screens.palette import QUIET, event_colour
from turnlog.services.cli.screens.sentence import sentence
from turnlog.services.cli.screens.sessions import listing
from turnlog.services.cli.screens.spelling import clock, one_line

_NAMES: Final = max(len(name) for name in NAMES) + 2
"""Columns that fit any event name."""


def event_table(events: Iterable[Recorded]) -> Table:
    """Render a session's events as a table, one per line."""
    table = listing(whole_width=True)
    table.add_column("seq", justify="right", style=QUIET, no_wrap=True)
    table.add_column("time", style=QUIET, no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("what happened", no_wrap=True, overflow="ellipsis", ratio=1)
    for recorded in events:
        table.add_row(
            str(recorded.sequence),
            clock(recorded.envelope.time),
            _name(recorded),
            Text(one_line(sentence(recorded.event))),
        )
    return table


def event_line(recorded: Recorded, *, with_session: bool) -> Text:
    """Render one event as a line of `turnlog tail`."""
    line = Text().append(f"{clock(recorded.envelope.time)} ", QUIET)
    if with_session:
        line.append(f"{recorded.session} ", QUIET)
    line.append(f"{recorded.sequence:>4} ", QUIET)
    name = _name(recorded)
    name.pad_right(_NAMES - name.cell_len)
    return line.append_text(name).append(one_line(sentence(recorded.event)))


def _name(recorded: Recorded) -> Text:
    return Text(one_line(name_of(recorded.envelope.type)), event_colour(recorded.envelope.type))
