"""What `turnlog top` counts and shows, without a terminal."""

from __future__ import annotations

from tests.services.gateway.streaming.test_overview_feed import build_overview
from turnlog.contract.alert_payloads import AlertStatusName, RaisedAlert
from turnlog.contract.call_payloads import OverviewView
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.overview.top_screen import TokenRate
from turnlog.services.cli.overview.top_view import TopScreen, render_top


def build_reading(seconds: int, tokens: int, since: str = "2026-11-29T00:00:00Z") -> OverviewView:
    view = build_overview(near=2, at=0)
    tiles = view.tiles.model_copy(update={"input_tokens": tokens, "cached_tokens": tokens // 4})
    at = f"2026-11-29T10:{seconds // 60:02}:{seconds % 60:02}Z"
    return view.model_copy(update={"tiles": tiles, "at": at, "since": since})


def test_tokens_a_second_are_those_of_the_last_minute() -> None:
    rate = TokenRate()
    assert rate.add_reading(build_reading(0, 1_000)) is None
    assert rate.add_reading(build_reading(10, 3_000)) == 200
    assert rate.add_reading(build_reading(70, 3_600)) == 10, "since the reading of a minute ago"
    assert rate.add_reading(build_reading(200, 3_600)) == 0


def test_sums_of_another_day_are_not_compared() -> None:
    rate = TokenRate()
    rate.add_reading(build_reading(0, 9_000))
    assert rate.add_reading(build_reading(10, 100, since="2026-11-29T01:00:00Z")) is None


def test_screen_without_a_keyboard_names_no_keys_and_no_rate() -> None:
    console = create_output_console()
    with console.capture() as printed:
        screen = TopScreen(overview=build_reading(0, 8_000), sessions=(), order="cost")
        console.print(render_top(screen))
    shown = printed.get()
    assert "8,000 in a day · 25% from caches" in shown
    assert "2 near their budget" in shown
    assert "cost ▼" in shown
    assert "a second" not in shown
    assert "quit" not in shown


def build_raised(name: str, status: AlertStatusName) -> RaisedAlert:
    return RaisedAlert(
        name=name,
        status=status,
        since="2026-11-29T10:00:00Z",
        measure="cost",
        unit="dollars",
        value=2,
        threshold=1,
        window="1h",
        sessions=(),
    )


def test_alerts_that_are_raised_are_named_in_the_head() -> None:
    alerts = tuple(build_raised(f"a{number}", "raised") for number in range(5))
    warned = build_raised("w\x1b[2J", "warning")
    console = create_output_console()
    for shown, words in (((*alerts, warned), "raised a0, a1, a2 and 2 more"), ((), "state")):
        overview = build_reading(0, 0).model_copy(update={"alerts": shown})
        with console.capture() as printed:
            console.print(render_top(TopScreen(overview=overview, sessions=(), order="cost")))
        text = printed.get()
        assert words in " ".join(text.split())
        assert ("warning w" in text) == bool(shown)
        assert ("raised" in text) == bool(shown)
        assert "\x1b[2J" not in text
