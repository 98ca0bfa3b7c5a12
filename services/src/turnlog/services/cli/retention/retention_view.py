"""Policies, holds and what is due, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.installation.retention_payloads import (
    DueSessions,
    DueSessionView,
    HoldResult,
    HoldView,
    PolicyResult,
    PolicyView,
    RetentionOutcome,
    RetentionScopeView,
    RetentionView,
)
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_count,
    format_date_time,
    format_one_line,
)
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING

_STYLES: Final[dict[RetentionOutcome, str]] = {
    "due": WARNING,
    "erased": GOOD,
    "begun": WARNING,
    "waiting": WARNING,
    "held": MUTED,
    "retained": MUTED,
    "not-sealed": BAD,
}


def render_retention(found: RetentionView) -> RenderableType:
    """List the policies and holds."""
    lines = [_render_policy(each) for each in found.policies]
    for each in (*found.holds, *found.released):
        lines += _render_hold(each)
    return Group(*lines) if lines else Text("there is no policy, and no hold", MUTED)


def render_policy_result(result: PolicyResult) -> RenderableType:
    """Render a policy that was set."""
    return Group(_render_policy(result.policy), _render_covered(result.sessions))


def render_policy_removal(result: PolicyResult) -> RenderableType:
    """Render a policy that was removed."""
    return Text("✓ ", GOOD).append(f"{result.policy.name} removed", "default")


def render_hold_result(result: HoldResult) -> RenderableType:
    """Render a hold that was placed or released."""
    lines = [*_render_hold(result.hold), _render_covered(result.sessions)]
    if result.hold.released is None:
        lines += [
            Text(f"an erasure of {each} had begun before: what is gone stays gone", BAD)
            for each in result.erasing or ()
        ]
        if result.erasing is None:
            lines.append(Text("the read models are behind: see which erasures had begun", WARNING))
    return Group(*lines)


def render_due_sessions(found: DueSessions) -> RenderableType:
    """Render what is due, and what keeps it."""
    counts = {
        "erased": found.erased,
        "due": found.due,
        "waiting": found.waiting,
        "held": found.held,
        "kept by law": found.retained,
        "not sealed, so that it cannot be erased": found.not_sealed,
    }
    shown = [f"{count} {what}" for what, count in counts.items() if count]
    examined = f"of {format_count(found.examined, 'session')}"
    title = Text(f"{', '.join(shown) or 'nothing is due'} {examined}")
    if not found.complete:
        title.append(" · there are more", WARNING)
    return Group(title, *(_render_due(each) for each in found.sessions))


def _render_due(each: DueSessionView) -> Text:
    line = Text(f"{each.outcome:10}", _STYLES[each.outcome])
    line.append(f" {each.session} · {each.policy} · due {format_date_time(each.due)}", "default")
    return line.append(_format_fact(each.detail), MUTED) if each.detail else line


def _render_policy(policy: PolicyView) -> Text:
    line = Text(policy.name, "bold").append(_format_fact(_format_scope(policy.where)), "default")
    if policy.keep_for is not None:
        line.append(_format_fact(f"kept for {policy.keep_for}: {policy.law}"), "default")
    if policy.erase_after is not None:
        line.append(_format_fact(f"erased after {policy.erase_after}"), "default")
    return line.append(f" · set by {escape_controls(policy.by)}", MUTED)


def _render_hold(hold: HoldView) -> Iterator[Text]:
    over = hold.released
    yield (
        Text("released " if over else "hold ", MUTED if over else WARNING)
        .append(hold.name, "bold")
        .append(_format_fact(_format_scope(hold.where)), "default")
        .append(_format_fact(hold.reason), "default")
        .append(f" · by {escape_controls(hold.by)}, {format_date_time(hold.at)}", MUTED)
    )
    if over is not None:
        by = f"by {escape_controls(over.by)}, {format_date_time(over.at)}"
        yield Text(f"  {format_one_line(f'released {by}: {over.reason}')}", MUTED)


def _format_fact(fact: str) -> str:
    return f" · {format_one_line(fact)}"


def _render_covered(sessions: int) -> Text:
    return Text(f"for {format_count(sessions, 'session')} now", MUTED if sessions else WARNING)


def _format_scope(where: RetentionScopeView) -> str:
    given = {
        "blueprint": where.blueprint,
        "labels": ", ".join(where.labels) or None,
        "session": where.session,
        "user": where.user,
    }
    said = [f"{name} {value}" for name, value in given.items() if value is not None]
    return " and ".join(said) or "all sessions"
