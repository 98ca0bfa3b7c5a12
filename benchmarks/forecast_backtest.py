"""The back-test of the forecast: `python -m benchmarks.forecast_backtest`.

It plays sessions of all shipped blueprints with a scripted model, forecasts each at some of its
turns from what was on record then, and compares the forecast with what came. The bands of near,
middle and far medians are widened until each have four of five truths in one half of the sessions;
the coverage is that of the other half. With `--write` the figures go into the file that the service
answers with, and the table into `docs/forecast.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any, Final

import structlog

from benchmarks.support.played_sessions import (
    MODEL,
    PLAYED_KINDS,
    PlayedKind,
    PlayedSessions,
    import_shipped_segments,
)
from benchmarks.support.random_prose import RandomProse
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.memory_events import SummaryBegun
from turnlog.events.model.turn_events import TurnFailed, find_turn_end
from turnlog.projections.forecast.session_forecast import (
    MIDDLE_TURNS,
    NEAR_TURNS,
    BandWidening,
    ForecastInputs,
    SessionForecast,
    build_turn_band,
    compute_quantile,
    forecast_session,
)
from turnlog.services.audit.session_record import SessionRecord
from turnlog.services.extensions.plugins import collect_installed
from turnlog.services.use_cases.prompts.session_forecasts import (
    BACKTEST_FILE,
    MAX_OTHER_EVENTS,
    MAX_OTHERS,
)

SESSIONS: Final = 23
"""Sessions of each kind."""

POINTS: Final = 4
"""Most turns of a session after which it is forecast."""

TARGET: Final = 0.8
"""The share of truths that the band from the tenth to the ninetieth percentile is to have."""

MAX_WIDENING: Final = 2.0

TABLE_FILE: Final = Path("docs/forecast.md")

COMMAND: Final = "python -m benchmarks.forecast_backtest --write"


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestPoint:
    """One forecast, and what came."""

    kind: str
    is_calibration: bool
    after: int
    """The turn after which it was made."""
    truth: int | None
    """The turns until a limit was reached; None if the session reached none any more."""
    rest: int
    """The turns that the session had after it."""
    found: SessionForecast
    right_rule: bool | None
    """Whether it named the rule and component that came."""
    line: float
    """What a straight line through the prompts so far says; infinite if they do not grow."""


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """What a recorded turn came to."""

    tokens: int
    """Tokens of its largest prompt."""
    budget: int | None
    limit: tuple[str, str | None] | None
    """The rule and the component of the limit that it reached."""


def main() -> None:
    """Play, forecast, calibrate and print."""
    options = _parse_arguments()
    kinds = [each for each in PLAYED_KINDS if not options.kind or options.kind in each.name]
    points = list[BacktestPoint]()
    with ProcessPoolExecutor(options.processes) as processes:
        for kind, found in zip(
            kinds, processes.map(test_kind, kinds, repeat(options.sessions)), strict=True
        ):
            points += found
            print(f"{kind.name}: {len(found)} forecasts", flush=True)
    report = build_report(points, options.sessions * len(kinds))
    table = format_table(report)
    print(table)
    if options.write:
        BACKTEST_FILE.write_text(json.dumps(report, indent=1) + "\n")
        write_table(table)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="forecast_backtest", description=__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="of each kind")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--kind", help="only kinds with this in their name")
    parser.add_argument("--write", action="store_true", help="write the figures and the table")
    return parser.parse_args()


def test_kind(kind: PlayedKind, sessions: int) -> list[BacktestPoint]:
    """Play the sessions of a kind, and forecast them."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    return forecast_kind(kind, asyncio.run(play_kind(kind, sessions)))


async def play_kind(kind: PlayedKind, sessions: int) -> list[SessionRecord]:
    """Play the sessions of a kind."""
    played = PlayedSessions(kind=kind, prose=RandomProse())
    if kind.blueprint == "game-master":
        await import_shipped_segments(played.house)
    return [await played.play_session(f"s-{number}", number) for number in range(sessions)]


def forecast_kind(kind: PlayedKind, records: Sequence[SessionRecord]) -> list[BacktestPoint]:
    """Forecast each session at some turns; it draws from the sessions beside it."""
    blobs: dict[Digest, str] = {}
    for record in records:
        blobs |= record.blobs
    points = list[BacktestPoint]()
    for number, record in enumerate(records):
        others = [*records[number + 1 :], *records[:number]][:MAX_OTHERS]
        facts, ends = _read_turns(record.events), _find_ends(record.events)
        for after in _choose_points(facts, ends, number):
            inputs = ForecastInputs(
                events=record.events[: ends[after] + 1],
                others=tuple(each.events[:MAX_OTHER_EVENTS] for each in others),
                blobs=blobs,
                installed=collect_installed(),
                default_model=MODEL,
            )
            found = forecast_session(inputs, BandWidening())
            points.append(
                _compare(kind=kind.name, number=number, facts=facts, after=after, found=found)
            )
    return points


def _compare(
    *, kind: str, number: int, facts: Mapping[int, TurnFacts], after: int, found: SessionForecast
) -> BacktestPoint:
    last = max(facts)
    came = next((turn for turn in range(after + 1, last + 1) if facts[turn].limit), None)
    right = None
    if came is not None and found.expected is not None:
        limit = found.expected.limit
        right = (limit.rule, limit.component) == facts[came].limit
    return BacktestPoint(
        kind=kind,
        is_calibration=number % 2 == 0,
        after=after,
        truth=None if came is None else came - after,
        rest=last - after,
        found=found,
        right_rule=right,
        line=_extend_line(facts, after),
    )


def _read_turns(events: Sequence[RecordedEvent]) -> dict[int, TurnFacts]:
    facts: dict[int, TurnFacts] = {}
    for recorded in events:
        event = recorded.event
        turn = getattr(event, "turn", None)
        if not isinstance(turn, int):
            continue
        before = facts.get(turn, TurnFacts(0, None, None))
        tokens, budget, limit = before.tokens, before.budget, before.limit
        match event:
            case ContextAssembled(manifest=manifest) if manifest.kind != "summarise":
                steps = [each for each in manifest.steps if each.since is None]
                tokens = max(tokens, manifest.tokens)
                budget = manifest.budget or budget
                if steps and limit is None:
                    limit = steps[0].step, steps[0].component or steps[0].section
            case SummaryBegun(trigger=trigger) if limit is None:
                is_prompt = trigger is None or trigger.of == "prompt"
                limit = "summarise", None if is_prompt else "history"
            case TurnFailed(code="over-budget") if limit is None:
                limit = "over-budget", None
            case _:
                pass
        facts[turn] = TurnFacts(tokens, budget, limit)
    return facts


def _find_ends(events: Sequence[RecordedEvent]) -> dict[int, int]:
    """Return the place of the last event of each turn, with the changes that follow it."""
    ends: dict[int, int] = {}
    for place, recorded in enumerate(events):
        if (end := find_turn_end(recorded.event, ends)) is not None:
            ends[end.turn] = place
    return ends


def _choose_points(facts: Mapping[int, TurnFacts], ends: Mapping[int, int], seed: int) -> list[int]:
    """Return the turns to forecast after: those before a limit, not those of a full window."""
    last = max(facts)
    open_turns = [
        turn
        for turn in sorted(ends)
        if turn < last
        and (facts[turn].limit is None or facts[turn].limit == ("summarise", "history"))
    ]
    random = Random(seed)  # noqa: S311 - the same each time
    return sorted(random.sample(open_turns, min(POINTS, len(open_turns))))


def _extend_line(facts: Mapping[int, TurnFacts], after: int) -> float:
    """Return after how many turns a line through the prompts so far exceeds their budget."""
    budget = facts[after].budget
    points = [(turn, facts[turn].tokens) for turn in range(1, after + 1) if facts[turn].tokens]
    if budget is None or len(points) < 2:
        return math.inf
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum(
        (x - mean_x) ** 2 for x, _ in points
    )
    if slope <= 0:
        return math.inf
    return max(1, math.ceil((budget - mean_y) / slope + mean_x - after))


def build_report(points: Sequence[BacktestPoint], sessions: int) -> dict[str, Any]:
    """Calibrate the band on one half, and measure the other."""
    widening = _calibrate([each for each in points if each.is_calibration])
    measured = [each for each in points if not each.is_calibration]
    kinds = dict.fromkeys(each.kind for each in points)
    return {
        "command": COMMAND,
        "sessions": sessions,
        "forecasts": len(points),
        "target": TARGET,
        "widening": asdict(widening),
        "all": _measure(measured, widening),
        "kinds": {
            kind: _measure([each for each in measured if each.kind == kind], widening)
            for kind in kinds
        },
    }


def _calibrate(points: Sequence[BacktestPoint]) -> BandWidening:
    """Return the least widening with which the bands have as many truths as wanted."""
    return BandWidening(
        near=_find_share(points, 0, NEAR_TURNS),
        middle=_find_share(points, NEAR_TURNS, MIDDLE_TURNS),
        far=_find_share(points, MIDDLE_TURNS, math.inf),
    )


def _find_share(points: Sequence[BacktestPoint], above: float, upto: float) -> float:
    """Return by what share the bands are widened whose median is between these."""
    known = [
        each
        for each in points
        if each.truth is not None
        and each.found.turns is not None
        and above < compute_quantile(each.found.lengths, 0.5) <= upto
    ]
    for step in range(round(MAX_WIDENING * 100)):
        share = step / 100
        widening = BandWidening(near=share, middle=share, far=share)
        if sum(_is_covered(each, widening) for each in known) >= TARGET * len(known):
            return share
    return MAX_WIDENING


def _is_covered(point: BacktestPoint, widening: BandWidening) -> bool:
    if point.truth is None or point.found.turns is None:
        return False
    band = build_turn_band(point.found.lengths, widening)
    return band.p10 <= point.truth and (band.p90 is None or point.truth <= band.p90)


def _measure(points: Sequence[BacktestPoint], widening: BandWidening) -> dict[str, Any]:
    known = [each for each in points if each.truth is not None]
    named = [each for each in known if each.found.turns is not None]
    none = [each for each in points if each.truth is None]
    errors = sorted(_find_error(each) for each in known)
    lines = sorted(abs(each.line - each.truth) for each in known if each.truth is not None)
    rules = [each.right_rule for each in known if each.right_rule is not None]
    return {
        "forecasts": len(points),
        "reached": len(known),
        "named": len(named),
        "median_error": _read_quantile(errors, 0.5),
        "p90_error": _read_quantile(errors, 0.9),
        "line_median_error": _read_quantile(lines, 0.5),
        "line_p90_error": _read_quantile(lines, 0.9),
        "coverage": _share(sum(_is_covered(each, widening) for each in known), len(known)),
        "coverage_unwidened": _share(
            sum(_is_covered(each, BandWidening()) for each in known), len(known)
        ),
        "right_rule": _share(sum(rules), len(rules)),
        "none_reached": len(none),
        "none_said": sum(_says_none(each) for each in none),
    }


def _find_error(point: BacktestPoint) -> float:
    if point.truth is None or point.found.turns is None:
        return math.inf
    return abs(point.found.turns.p50 - point.truth)


def _says_none(point: BacktestPoint) -> bool:
    """Return whether a forecast is right for a session that reached no limit any more."""
    band = point.found.turns
    return band is None or band.p90 is None or band.p90 > point.rest


def _read_quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return a quantile; None if there is none, or if it is infinite."""
    found = compute_quantile(ordered, share) if ordered else math.inf
    return None if found == math.inf else round(found, 1)


def _share(count: int, of: int) -> float | None:
    return round(count / of, 2) if of else None


def format_table(report: Mapping[str, Any]) -> str:
    """Return the report as a table of Markdown."""
    heads = (
        *("sessions of", "forecasts", "median error", "p90", "line: median", "p90"),
        *("in the band", "unwidened", "right rule", "none to come, and said so"),
    )
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    rows = {**report["kinds"], "**all**": report["all"]}
    for name, each in rows.items():
        none = f"{each['none_said']} of {each['none_reached']}" if each["none_reached"] else ""
        cells = (
            name,
            str(each["reached"]),
            _format_turns(each, "median_error"),
            _format_turns(each, "p90_error"),
            _format_turns(each, "line_median_error"),
            _format_turns(each, "line_p90_error"),
            _format_share(each["coverage"]),
            _format_share(each["coverage_unwidened"]),
            _format_share(each["right_rule"]),
            none,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _format_turns(row: Mapping[str, Any], name: str) -> str:
    if not row["reached"]:
        return ""
    return "never" if row[name] is None else f"{row[name]:g}"


def _format_share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def write_table(table: str) -> None:
    """Put the table between its marks in the page."""
    text = TABLE_FILE.read_text()
    before, _, rest = text.partition("<!-- back-test -->\n")
    _, _, after = rest.partition("<!-- /back-test -->")
    TABLE_FILE.write_text(f"{before}<!-- back-test -->\n{table}\n<!-- /back-test -->{after}")


if __name__ == "__main__":
    main()
