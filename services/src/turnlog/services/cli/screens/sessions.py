from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.history import PHASE_COLOUR, format_phase_heading
from turnlog.services.cli.screens.palette import BAD, GOOD, MUTED, WARNING
from turnlog.services.cli.screens.spelling import (
    UNKNOWN_TEXT,
    format_time,
    format_count,
    format_date_time,
    escape_controls,
    format_money,
    format_one_line,
    format_duration,
    format_digest,
)
from turnlog.services.gateway.payloads.calls import CallList, CallView
from turnlog.services.gateway.payloads.sessions import ListedSession, SessionPage, SessionView
from turnlog.services.gateway.payloads.turns import HistoryView, TurnView

_STATUS_COLOURS = {"completed": GOOD, "failed": BAD, "cancelled": WARNING, "open": WARNING, "queued": MUTED}


def create_listing(*, whole_width: bool = False) -> Table:
    """Create a borderless table."""
    return Table(
        box=None, padding=(0, 2, 0, 0), header_style=MUTED, pad_edge=False, expand=whole_width
    )


def render_sessions(page: SessionPage) -> RenderableType:
    """List sessions, newest first, and how to see older ones."""
    more = f"\nolder ones: --before {page.next}" if page.next else ""
    return Group(_render_session_table(page), *([Text(more, MUTED)] if more else []))


def _render_session_table(page: SessionPage) -> Table:
    table = create_listing(whole_width=True)
    table.add_column("session", no_wrap=True)
    table.add_column("opened", no_wrap=True, style=MUTED)
    table.add_column("blueprint", no_wrap=True)
    table.add_column("turns", justify="right")
    table.add_column("first turn", no_wrap=True, overflow="ellipsis", ratio=1)
    for session in page.sessions:
        blueprint = f"{session.blueprint} v{session.version}"
        opened = format_date_time(session.opened_at)
        table.add_row(session.session, opened, blueprint, str(session.turns), _render_session_title(session))
    return table


def _render_session_title(session: ListedSession) -> Text:
    title = Text()
    if session.redacted:
        title.append("redacted ", BAD)
    if session.closed_at:
        title.append("closed ", WARNING)
    return title.append(format_one_line(session.title or ""))


def render_session(
    session: SessionView,
    history: HistoryView,
    calls: CallList,
    forks: Sequence[ListedSession] = (),
) -> RenderableType:
    """Render a session with its phases, turns and calls and the sessions forked from it."""
    turns, made = render_turns(history.turns), render_calls(calls.calls)
    been = [Text(), *(Text(format_phase_heading(stay), PHASE_COLOUR) for stay in history.stays)]
    phases = been if history.stays else ()
    return Group(render_session_facts(session, forks), *phases, Text(), turns, Text(), made)


def render_session_facts(session: SessionView, forks: Sequence[ListedSession] = ()) -> Table:
    """Render the facts of a session and its relations to others."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=MUTED, justify="right")
    grid.add_column(overflow="fold")
    for name, fact in (*_list_facts(session), *_list_relations(session, forks)):
        grid.add_row(name, fact)
    return grid


def _list_relations(session: SessionView, forks: Sequence[ListedSession]) -> Iterator[tuple[str, str]]:
    if origin := session.origin:
        what = "forked from" if origin.kind == "fork" else "child of"
        yield "origin", f"{what} {origin.session} at sequence {origin.sequence:,}"
    for fork in forks:
        if fork.origin:
            yield "fork", f"{fork.session} at sequence {fork.origin.sequence:,}"


def _list_facts(session: SessionView) -> Iterator[tuple[str, str | Text]]:
    yield "session", Text(session.session, "bold")
    blueprint = Text(f"{session.blueprint} v{session.version}")
    yield "blueprint", blueprint.append(f"  {format_digest(session.digest)}", MUTED)
    yield "profile", session.profile + (f" · {session.model}" if session.model else "")
    given = ", ".join(f"{name}={value}" for name, value in session.attributes.items())
    yield "attributes", escape_controls(given)
    if session.phase is not None:
        yield "phase", f"{session.phase} · {format_count(session.exchanges, 'exchange')}"
    if session.choices:
        yield "choices", ", ".join(f"{each.phase}: {each.choice}" for each in session.choices)
    yield "state", _render_state(session)
    yield "events", f"{session.sequence:,}"


def _render_state(session: SessionView) -> Text:
    state = Text().append(*(("closed", WARNING) if session.closed else ("open", GOOD)))
    state.append(f" · {format_count(session.turns, 'turn')}, {session.completed} with a reply")
    if session.open:
        state.append(f" · turn {session.open.turn} is being answered", WARNING)
    return state


def render_turns(turns: Iterable[TurnView]) -> Table:
    table = create_listing(whole_width=True)
    for title in ("turn", "time", "status"):
        table.add_column(title, no_wrap=True)
    table.add_column("what was said", no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column("reply", no_wrap=True, overflow="ellipsis", ratio=3)
    for turn in turns:
        status = "redacted" if turn.redacted else turn.status
        said, reply = format_one_line(turn.text or ""), format_one_line(turn.reply or turn.reason or "")
        colour = BAD if turn.redacted else _STATUS_COLOURS[turn.status]
        table.add_row(str(turn.turn), format_time(turn.submitted_at), Text(status, colour), said, reply)
    return table


def render_calls(calls: Iterable[CallView]) -> Table:
    """List calls with the usage of all their attempts."""
    table = create_listing()
    for title in ("call", "kind", "model", "finish"):
        table.add_column(title, no_wrap=True)
    for title in ("prompt", "sent", "received", "cost", "took", "tries"):
        table.add_column(title, justify="right", no_wrap=True)
    for call in calls:
        what = (call.call, call.kind, call.model, call.finish or "", f"{call.tokens:,}")
        table.add_row(*what, *_format_call_figures(call))
    return table


def _format_call_figures(call: CallView) -> tuple[str, ...]:
    spent = [attempt.total_ms for attempt in call.attempts if attempt.total_ms is not None]
    return (
        _format_number(call.input_tokens),
        _format_number(call.output_tokens),
        format_money(call.micro_dollars),
        format_duration(sum(spent)) if spent else UNKNOWN_TEXT,
        str(len(call.attempts)),
    )


def _format_number(figure: int | None) -> str:
    return UNKNOWN_TEXT if figure is None else f"{figure:,}"
