"""Quarantine on a terminal: the stopped sessions, the events that wait, and a release."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.client.operations import build_command
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.services.api.service_payloads import (
    QuarantinedEventView,
    QuarantineRelease,
    QuarantineView,
    SessionStraysView,
    StoppedSessionList,
    StoppedSessionView,
)
from turnlog.services.cli.client.service_client import send_command
from turnlog.services.cli.console import OutputFormat, print_answer
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.views.text_format import (
    UNKNOWN_TEXT,
    format_count,
    format_date_time,
    format_one_line,
)
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, create_listing


async def send_release(target: ServiceTarget, session: str, output: OutputFormat) -> None:
    """Release a session and print how many events were folded."""
    path = format_path(api_paths.RELEASE, session=session)
    done = await send_command(target, build_command(path, {}, QuarantineRelease))
    line = Text("✓ ", GOOD).append(f"{done.session} is released", "default")
    print_answer(done, line.append(f"  {format_count(done.events, 'event')} folded", MUTED), output)


def render_stopped_sessions(found: StoppedSessionList) -> RenderableType:
    """Render the sessions whose read models are stopped, and those with stray messages."""
    strays = (_render_strays(each) for each in found.strays)
    if not found.sessions:
        return Group(Text("no session is stopped", MUTED), *strays)
    stopped = (line for each in found.sessions for line in _render_stopped_session(each))
    return Group(*stopped, *strays)


def _render_strays(strays: SessionStraysView) -> Text:
    count = format_count(strays.count, "stray message")
    heading = Text(format_one_line(strays.session), "bold")
    return heading.append(f"  {count}, the first at {strays.position:,}: {strays.reason}", MUTED)


def _render_stopped_session(stopped: StoppedSessionView) -> tuple[Text, Text]:
    facts = f"{_format_event(stopped)} · {_format_recorded(stopped)}"
    waiting = f" · {stopped.held_back:,} waiting"
    heading = Text(format_one_line(stopped.session), "bold")
    return heading.append(f"  {facts}{waiting}", MUTED), Text(
        f"  {format_one_line(stopped.reason)}", BAD
    )


def render_quarantine(found: QuarantineView) -> RenderableType:
    """Render the events of a stopped session that wait."""
    table = create_listing()
    for title in ("position", "event", "recorded"):
        table.add_column(title, no_wrap=True)
    table.add_column("reason", overflow="fold")
    for each in found.events:
        reason = Text(format_one_line(each.reason), BAD) if each.reason else Text("waits", MUTED)
        table.add_row(f"{each.position:,}", _format_event(each), _format_recorded(each), reason)
    return Group(Text(found.session, "bold"), table)


def _format_event(event: StoppedSessionView | QuarantinedEventView) -> str:
    number = "" if event.sequence is None else f"{event.sequence:,} "
    name = (event.type or UNKNOWN_TEXT).removeprefix("turnlog.").rpartition(".v")
    return format_one_line(f"{number}{name[0] or name[2]}")


def _format_recorded(event: StoppedSessionView | QuarantinedEventView) -> str:
    """Format the time in the event's bytes, which may be none."""
    if event.time is None:
        return UNKNOWN_TEXT
    try:
        return format_date_time(event.time)
    except ValueError:
        return format_one_line(event.time)
