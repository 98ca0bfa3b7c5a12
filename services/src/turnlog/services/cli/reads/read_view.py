"""The log of reads on a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.installation.read_payloads import ReadPage, ReadView
from turnlog.services.cli.views.text_format import escape_controls, format_date_time
from turnlog.services.cli.views.theme import MUTED, create_listing


def render_reads(page: ReadPage) -> RenderableType:
    """List looks."""
    more = f"there is more: --before {page.next}" if page.next else ""
    if not page.reads:
        return Text(more or "nobody looked at anything that is recorded", MUTED)
    table = create_listing()
    for title in ("at", "who", "what", "at which", "signed in", "from"):
        table.add_column(title, no_wrap=True)
    table.add_column("why")
    for each in page.reads:
        table.add_row(
            format_date_time(each.at),
            escape_controls(each.actor),
            each.what,
            escape_controls(_format_place(each)),
            f"{each.sign_in} {each.key}" if each.key else each.sign_in,
            escape_controls(each.address or ""),
            escape_controls(each.reason or ""),
        )
    return Group(table, Text(more, MUTED)) if more else table


def _format_place(look: ReadView) -> str:
    """Return what was looked at: a session, one of its calls or turns, or a pair of calls."""
    turn = None if look.turn is None else f"turn {look.turn}"
    other = " ".join(filter(None, (look.other_session, look.other_call)))
    place = " ".join(filter(None, (look.session, look.call or turn)))
    return f"{place} and {other}" if other else place
