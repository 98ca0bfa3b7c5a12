"""One screen of `turnlog top`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.contract.call_payloads import OverviewTiles, OverviewView
from turnlog.contract.session_payloads import SessionRow
from turnlog.contract.value_names import SessionOrder
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_cost,
    format_count,
    format_date_time,
    format_duration,
)
from turnlog.services.cli.views.theme import (
    BAD,
    MUTED,
    WARNING,
    create_listing,
    render_budget_share,
)

ORDER_KEYS: Final[Mapping[str, SessionOrder]] = {
    "n": "near",
    "c": "cost",
    "f": "failed",
    "l": "last",
}
"""The key of each order of the sessions."""

_ORDER_WORDS: Final[Mapping[SessionOrder, str]] = {
    "near": "budget",
    "cost": "cost",
    "failed": "failed",
    "last": "last",
    "opened": "opened",
}

_SHOWN_ORDERS: Final[tuple[SessionOrder, ...]] = ("near", "cost", "last")
"""Those that have a column."""

_SHOWN_ALERTS: Final = 3
"""Alerts of each status that are named."""

HEADER_LINES: Final = 7
"""Lines of a screen that are not of sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopScreen:
    """What a screen shows."""

    overview: OverviewView
    sessions: Sequence[SessionRow]
    order: SessionOrder
    tokens_per_second: float | None = None
    """Tokens sent lately; None before there are two readings."""
    notice: str = ""
    """What a person has to know: that it is paused, or that the service does not answer."""
    has_keys: bool = False
    """Whether there is a keyboard that keys are named for."""


def render_top(screen: TopScreen) -> RenderableType:
    """Render the figures of now above the sessions, and the keys below."""
    tiles = screen.overview.tiles
    lines = [
        _render_turns(tiles),
        _render_tokens(screen),
        _render_troubles(screen.overview),
        Text(),
    ]
    footer = [Text(), _render_keys(screen)] if screen.has_keys else []
    return Group(*lines, _render_sessions(screen), *footer)


def _render_turns(tiles: OverviewTiles) -> Text:
    p95 = "none measured" if tiles.p95_ms is None else format_duration(tiles.p95_ms)
    failed = Text(f"{tiles.failed_last_hour:,} failed", BAD if tiles.failed_last_hour else MUTED)
    return _join_facts(
        "turns",
        Text(f"{tiles.turns_in_flight:,} in flight"),
        Text(f"{tiles.turns_per_minute:.1f} a minute"),
        failed.append(" in the last hour", MUTED),
        Text(f"p95 {p95}"),
    )


def _render_tokens(screen: TopScreen) -> Text:
    tiles, rate = screen.overview.tiles, screen.tokens_per_second
    share = tiles.cached_tokens / tiles.input_tokens if tiles.input_tokens else 0
    return _join_facts(
        "tokens",
        *([] if rate is None else [Text(f"{rate:,.0f} a second")]),
        Text(f"{tiles.input_tokens:,} in a day"),
        Text(f"{share:.0%} from caches"),
        Text(f"{format_cost(tiles.cost_today) or 'nothing'} today"),
    )


def _list_alerts(overview: OverviewView) -> list[Text]:
    """Return the names of the alerts that are raised and of those that warn."""
    found: list[Text] = []
    for status, style in (("raised", BAD), ("warning", WARNING)):
        names = [escape_controls(each.name) for each in overview.alerts if each.status == status]
        if names:
            shown, more = names[:_SHOWN_ALERTS], len(names) - _SHOWN_ALERTS
            rest = f" and {more} more" if more > 0 else ""
            found.append(Text(f"{status} {', '.join(shown)}{rest}", style))
    return found


def _render_troubles(overview: OverviewView) -> Text:
    tiles = overview.tiles
    near, stopped = tiles.near_sessions, tiles.stopped_sessions
    return _join_facts(
        "state",
        *_list_alerts(overview),
        Text(f"{near:,} near their budget", WARNING if near else ""),
        Text(f"{stopped:,} stopped", BAD if stopped else ""),
        Text(f"{format_count(tiles.lag, 'event')} behind the log"),
    )


def _join_facts(name: str, *facts: Text) -> Text:
    return Text(f"{name:<8}", MUTED).append(Text(" · ", MUTED).join(facts))


def _render_sessions(screen: TopScreen) -> Table:
    table = create_listing(whole_width=True)
    table.add_column("session", no_wrap=True)
    table.add_column("blueprint", no_wrap=True)
    table.add_column("turns", no_wrap=True, justify="right")
    for order in _SHOWN_ORDERS:
        word = _ORDER_WORDS[order]
        title = Text(f"{word} ▼") if order == screen.order else Text(word)
        table.add_column(title, no_wrap=True, justify="right")
    table.add_column("title", no_wrap=True, overflow="ellipsis", ratio=1)
    for session in screen.sessions:
        table.add_row(
            escape_controls(session.session),
            f"{escape_controls(session.blueprint)} v{session.version}",
            f"{session.turns:,}",
            render_budget_share(session.budget_share),
            format_cost(session.usage.cost),
            format_date_time(session.last_at),
            _render_title(session),
        )
    return table


def _render_title(session: SessionRow) -> Text:
    stopped = Text("stopped ", BAD) if session.stopped else Text()
    return stopped.append(escape_controls(session.title or ""), MUTED)


def _render_keys(screen: TopScreen) -> Text:
    keys = [
        *((key.upper(), _ORDER_WORDS[order]) for key, order in ORDER_KEYS.items()),
        ("F6", "next order"),
        ("Z", "pause"),
        ("Q", "quit"),
    ]
    words = (Text(key, "reverse").append(f" {word}", "not reverse") for key, word in keys)
    line = Text("  ").join(words)
    return line.append(f"   {screen.notice}", WARNING) if screen.notice else line
