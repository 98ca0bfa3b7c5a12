"""What `turnlog forecast` says of a session."""

from __future__ import annotations

import pytest

from tests.services.cli.conftest import RecordedSession, RunCommand
from turnlog.contract.memory_payloads import (
    ForecastErrors,
    ForecastLimit,
    ForecastTokens,
    ForecastTurns,
    ForecastView,
)
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.forecasts.forecast_view import describe_errors, render_forecast
from turnlog.services.use_cases.prompts.forecast_sentences import describe_forecast

MEASURED = ForecastErrors(
    sessions=200, forecasts=300, median_error=1.0, p90_error=6.5, coverage=0.81
)

CUT = ForecastLimit(
    effect="cut",
    kind="reply",
    rule="drop_oldest_pairs\x1b",
    on="recent",
    component=None,
    tokens=8_100,
    limit=8_000,
    share=0.75,
)

FORECAST = ForecastView(
    session="s-1",
    sequence=40,
    turn=9,
    sentence="drop_oldest_pairs\x1b is expected to cut recent in 6 turns (4 to 9).",
    turns=ForecastTurns(p10=4, p50=6, p90=9),
    silence=None,
    expected=CUT,
    reached_share=1.0,
    horizon=100,
    tokens_per_turn=412.4,
    next_turns=(ForecastTokens(turn=10, p10=5_100, p50=5_400, p90=6_000),),
    runs=24,
    own_turns=9,
    other_turns=1,
    other_sessions=1,
    measured=MEASURED,
)


def render_words(forecast: ForecastView) -> str:
    console = create_output_console()
    with console.capture() as printed:
        console.print(render_forecast(forecast))
    return " ".join(printed.get().split())


def test_forecast_is_a_sentence_with_its_sources_and_its_error() -> None:
    words = render_words(FORECAST)
    assert words == (
        "drop_oldest_pairs␛ is expected to cut recent in 6 turns (4 to 9). "
        "24 runs, drawn from 9 turns of its own and 1 turn of 1 other session, "
        "412 tokens more each turn "
        "in 75% of these runs, in a prompt of reply above 8,000 tokens "
        "measured on 200 sessions: off by 1 turn in the median, by 6.5 in one of ten; "
        "81% were within the band "
        "turn tokens tenth ninetieth 10 5,400 5,100 6,000"
    )


def test_errors_that_were_not_measured_are_not_made_up() -> None:
    unknown = MEASURED.model_copy(update={"median_error": None})
    assert describe_errors(unknown) == "not measured yet"
    rare = MEASURED.model_copy(update={"p90_error": None})
    assert "in one of ten" not in describe_errors(rare)


def test_sentence_names_what_happens_and_how_far_the_band_reaches() -> None:
    soon = ForecastTurns(p10=1, p50=1, p90=1)
    assert describe_forecast(soon, None, CUT, 100).endswith("to fit the budget in the next turn.")
    late = ForecastTurns(p10=30, p50=60, p90=None)
    summary = CUT.model_copy(update={"effect": "summary", "on": "chat", "component": "history"})
    assert describe_forecast(late, None, summary, 100) == (
        "A summary of chat is expected, above the limit of history, in 60 turns (30 to more)."
    )
    refused = CUT.model_copy(update={"effect": "refused"})
    assert describe_forecast(soon, None, refused, 100) == (
        "A prompt is expected to be refused, above the budget, in the next turn."
    )
    assert describe_forecast(None, "beyond", CUT, 100) == (
        "No limit is expected within the next 100 turns."
    )


@pytest.mark.slow("it starts a service and plays a conversation")
def test_command_prints_the_forecast_of_a_session(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("forecast", played.session, *played.here)
    found = turnlog("forecast", played.session, *played.here, "-o", "json").json
    assert (ran.code, found["turn"], found["own_turns"]) == (0, 3, 3)
    assert " ".join(ran.out.split()).startswith(found["sentence"])
    assert turnlog("forecast", "nobody", *played.here).code == 3
