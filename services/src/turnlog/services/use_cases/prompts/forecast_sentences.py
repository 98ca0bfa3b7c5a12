"""The forecast of a session in a sentence, the same on the page and on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnlog.contract.memory_payloads import ForecastLimit, ForecastSilence, ForecastTurns

_SILENCES: Final[Mapping[ForecastSilence, str]] = {
    "closed": "The session is closed: it takes no more turns.",
    "no-turns": "Nothing can be said yet: no turn is on record that could come next.",
    "no-limit": "Nothing limits the prompts: no call has a budget and no history is summarised.",
    "no-growth": "The prompts do not grow, and no limit is near.",
    "beyond": "No limit is expected within the next {horizon} turns.",
    "unknown": "Nothing can be said: the record lacks what the prompts are made of.",
}


def describe_forecast(
    turns: ForecastTurns | None,
    silence: ForecastSilence | None,
    expected: ForecastLimit | None,
    horizon: int,
) -> str:
    """Say when a prompt reaches a limit, and what becomes of it then."""
    if turns is None or expected is None:
        return _SILENCES[silence or "beyond"].format(horizon=horizon)
    return f"{_describe_effect(expected)} {_describe_turns(turns)}."


def _describe_turns(turns: ForecastTurns) -> str:
    if turns.p50 == turns.p90 == 1:
        return "in the next turn"
    upper = "more" if turns.p90 is None else f"{turns.p90}"
    band = "" if turns.p10 == turns.p90 else f" ({turns.p10} to {upper})"
    return f"in {turns.p50} {'turn' if turns.p50 == 1 else 'turns'}{band}"


def _describe_effect(expected: ForecastLimit) -> str:
    of = f"the limit of {expected.component}" if expected.component else "the budget"
    match expected.effect:
        case "cut":
            return f"{expected.rule} is expected to cut {expected.on} to fit {of}"
        case "summary":
            return f"A summary of {expected.on} is expected, above {of},"
        case "refused":
            return f"A prompt is expected to be refused, above {of},"
