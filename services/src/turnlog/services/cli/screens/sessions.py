from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.history import PHASE, entrance
from turnlog.services.cli.screens.palette import BAD, GOOD, QUIET, WARY
from turnlog.services.cli.screens.spelling import (
    UNKNOWN,
    clock,
    counted,
    day_and_clock,
    harmless,
    money,
    one_line,
    seconds,
    short,
)
from turnlog.services.gateway.payloads.calls import CallList, CallView
from turnlog.services.gateway.payloads.sessions import ListedSession, SessionPage, SessionView
from turnlog.services.gateway.payloads.turns import HistoryView, TurnView

_STATUS = {"completed": GOOD, "failed": BAD, "cancelled": WARY, "open": WARY, "queued": QUIET}


def listing(*, whole_width: bool = False) -> Table:
    """Create a borderless table."""
    return Table(
        box=None, padding=(0, 2, 0, 0), header_style=QUIET, pad_edge=False, expand=whole_width
    )


def session_list(page: SessionPage) -> RenderableType:
    """List sessions, newest first, and how to see older ones."""
    more = f"\nolder ones: --before {page.next}" if page.next else ""
    return Group(_session_table(page), *([Text(more, QUIET)] if more else []))


def _session_table(page: SessionPage) -> Table:
    table = listing(whole_width=True)
    table.add_column("session", no_wrap=True)
    table.add_column("opened", no_wrap=True, style=QUIET)
    table.add_column("blueprint", no_wrap=True)
    table.add_column("turns", justify="right")
    table.add_column("first turn", no_wrap=True, overflow="ellipsis", ratio=1)
    for session in page.sessions:
        blueprint = f"{session.blueprint} v{session.version}"
        opened = day_and_clock(session.opened_at)
        table.add_row(session.session, opened, blueprint, str(session.turns), _title(session))
    return table


def _title(session: ListedSession) -> Text:
    title = Text()
    if session.redacted:
        title.append("redacted ", BAD)
    if session.closed_at:
        title.append("closed ", WARY)
    return title.append(one_line(session.title or ""))


def summary(
    session: SessionView,
    history: HistoryView,
    calls: CallList,
    forks: Sequence[ListedSession] = (),
) -> RenderableType:
    """Render a session with its phases, turns and calls and the sessions forked from it."""
    turns, made = turn_table(history.turns), call_table(calls.calls)
    been = [Text(), *(Text(entrance(stay), PHASE) for stay in history.stays)]
    phases = been if history.stays else ()
    return Group(facts(session, forks), *phases, Text(), turns, Text(), made)


def facts(session: SessionView, forks: Sequence[ListedSession] = ()) -> Table:
    """Render the facts of a session and its relations to others."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=QUIET, justify="right")
    grid.add_column(overflow="fold")
    for name, fact in (*_facts(session), *_kin(session, forks)):
        grid.add_row(name, fact)
    return grid


def _kin(session: SessionView, forks: Sequence[ListedSession]) -> Iterator[tuple[str, str]]:
    if origin := session.origin:
        what = "forked from" if origin.kind == "fork" else "child of"
        yield "origin", f"{what} {origin.session} at sequence {origin.sequence:,}"
    for fork in forks:
        if fork.origin:
            yield "fork", f"{fork.session} at sequence {fork.origin.sequence:,}"


def _facts(session: SessionView) -> Iterator[tuple[str, str | Text]]:
    yield "session", Text(session.session, "bold")
    blueprint = Text(f"{session.blueprint} v{session.version}")
    yield "blueprint", blueprint.append(f"  {short(session.digest)}", QUIET)
    yield "profile", session.profile + (f" · {session.model}" if session.model else "")
    given = ", ".join(f"{name}={value}" for name, value in session.attributes.items())
    yield "attributes", harmless(given)
    if session.phase is not None:
        yield "phase", f"{session.phase} · {counted(session.exchanges, 'exchange')}"
    if session.choices:
        yield "choices", ", ".join(f"{each.phase}: {each.choice}" for each in session.choices)
    yield "state", _state(session)
    yield "events", f"{session.sequence:,}"


def _state(session: SessionView) -> Text:
    state = Text().append(*(("closed", WARY) if session.closed else ("open", GOOD)))
    state.append(f" · {counted(session.turns, 'turn')}, {session.completed} with a reply")
    if session.open:
        state.append(f" · turn {session.open.turn} is being answered", WARY)
    return state


def turn_table(turns: Iterable[TurnView]) -> Table:
    table = listing(whole_width=True)
    for title in ("turn", "time", "status"):
        table.add_column(title, no_wrap=True)
    table.add_column("what was said", no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column("reply", no_wrap=True, overflow="ellipsis", ratio=3)
    for turn in turns:
        status = "redacted" if turn.redacted else turn.status
        said, reply = one_line(turn.text or ""), one_line(turn.reply or turn.reason or "")
        colour = BAD if turn.redacted else _STATUS[turn.status]
        table.add_row(str(turn.turn), clock(turn.submitted_at), Text(status, colour), said, reply)
    return table


def call_table(calls: Iterable[CallView]) -> Table:
    """List calls with the usage of all their attempts."""
    table = listing()
    for title in ("call", "kind", "model", "finish"):
        table.add_column(title, no_wrap=True)
    for title in ("prompt", "sent", "received", "cost", "took", "tries"):
        table.add_column(title, justify="right", no_wrap=True)
    for call in calls:
        what = (call.call, call.kind, call.model, call.finish or "", f"{call.tokens:,}")
        table.add_row(*what, *_took(call))
    return table


def _took(call: CallView) -> tuple[str, ...]:
    spent = [attempt.total_ms for attempt in call.attempts if attempt.total_ms is not None]
    return (
        _number(call.input_tokens),
        _number(call.output_tokens),
        money(call.micro_dollars),
        seconds(sum(spent)) if spent else UNKNOWN,
        str(len(call.attempts)),
    )


def _number(figure: int | None) -> str:
    return UNKNOWN if figure is None else f"{figure:,}"
