"""Render the forecast of a session: a sentence, what it rests on, and the next turns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.memory_payloads import ForecastErrors, ForecastLimit, ForecastView
from turnlog.services.cli.views.text_format import escape_controls, format_count
from turnlog.services.cli.views.theme import MUTED, create_listing


def render_forecast(forecast: ForecastView) -> RenderableType:
    """Render the forecast, how sure it is, and the tokens of the next turns."""
    return Group(*_render_parts(forecast))


def _render_parts(forecast: ForecastView) -> Iterator[RenderableType]:
    yield Text(escape_controls(forecast.sentence), "bold")
    if forecast.runs:
        yield Text(_describe_runs(forecast), MUTED)
    if forecast.expected is not None:
        yield Text(_describe_limit(forecast.expected), MUTED)
    if forecast.turns is not None:
        yield Text(describe_errors(forecast.measured), MUTED)
    if forecast.next_turns:
        yield Text()
        table = create_listing()
        for title in ("turn", "tokens", "tenth", "ninetieth"):
            table.add_column(title, justify="right", no_wrap=True)
        for each in forecast.next_turns:
            table.add_row(str(each.turn), f"{each.p50:,}", f"{each.p10:,}", f"{each.p90:,}")
        yield table


def _describe_runs(forecast: ForecastView) -> str:
    sources = [f"{format_count(forecast.own_turns, 'turn')} of its own"]
    if forecast.other_sessions:
        others = format_count(forecast.other_turns, "turn")
        sources.append(f"{others} of {format_count(forecast.other_sessions, 'other session')}")
    growth = forecast.tokens_per_turn
    grows = "" if growth is None else f", {growth:,.0f} tokens more each turn"
    return f"{format_count(forecast.runs, 'run')}, drawn from {' and '.join(sources)}{grows}"


def _describe_limit(expected: ForecastLimit) -> str:
    of = f"{expected.limit:,} tokens" if expected.limit is not None else "its limit"
    kind = escape_controls(expected.kind)
    return f"in {expected.share:.0%} of these runs, in a prompt of {kind} above {of}"


def describe_errors(measured: ForecastErrors) -> str:
    """Say how good such forecasts are."""
    if measured.median_error is None or measured.coverage is None:
        return "not measured yet"
    rare = "" if measured.p90_error is None else f", by {measured.p90_error:g} in one of ten"
    turns = "1 turn" if measured.median_error == 1 else f"{measured.median_error:g} turns"
    return (
        f"measured on {format_count(measured.sessions, 'session')}: off by "
        f"{turns} in the median{rare}; "
        f"{measured.coverage:.0%} were within the band"
    )
