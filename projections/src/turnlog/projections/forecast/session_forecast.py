"""The forecast of a session: how many turns until a limit, which one, and how sure that is.

Many runs continue the session, each with its own draws. The turns that they take to the first limit
give a median and a band from the tenth to the ninetieth percentile, which is widened by what a
back-test found it to be too narrow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal

from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.forecast.forward_run import (
    ForecastBase,
    ForwardRun,
    ReachedLimit,
    run_forward,
)
from turnlog.projections.forecast.input_trends import build_session_samples
from turnlog.projections.forecast.sample_turns import list_sample_turns
from turnlog.projections.forecast.turn_draws import TurnSamples, create_run_draws, measure_weight
from turnlog.projections.prompt.sources.session_material import (
    InstalledExtensions,
    build_material,
    get_pins,
)
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState

HORIZON: Final = 100
"""Most turns of a run."""

MAX_RUNS: Final = 24

MIN_RUNS: Final = 8

MAX_DRAWN_TURNS: Final = 600
"""Turns of all runs after which only the first `MIN_RUNS` are completed."""

NEAR_TURNS: Final = 3

MIDDLE_TURNS: Final = 10

SHOWN_TURNS: Final = 8
"""Most next turns whose tokens are forecast one by one."""

SilentReason = Literal["closed", "no-turns", "no-limit", "no-growth", "beyond", "unknown"]
"""Why no turn is named.

`closed`: the session takes no turn. `no-turns`: no turn is on record that could follow. `no-limit`:
no call has a budget, no view is summarised, and no limit of the model is known. `no-growth`: the
prompts do not grow. `beyond`: most runs reached no limit. `unknown`: the record lacks what the
prompts are made of.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastInputs:
    """What a session is forecast from."""

    events: tuple[RecordedEvent, ...]
    """The events of the session, without a gap up to the last one."""
    before: SessionState | None = None
    """The state before these events; None if they are all."""
    others: tuple[tuple[RecordedEvent, ...], ...]
    """Those of other sessions of its blueprint, each from its first event."""
    blobs: Mapping[Digest, str]
    """The texts that all these events name."""
    installed: InstalledExtensions
    default_model: str
    """The model of profiles that say `default`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBand:
    """After how many turns a limit is reached; 1 is the next turn, None is beyond the horizon."""

    p10: int
    p50: int
    p90: int | None


@dataclass(frozen=True, slots=True)
class TokenBand:
    """The tokens of one of the next turns' largest prompt."""

    p10: int
    p50: int
    p90: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedLimit:
    """The limit that most runs reached."""

    limit: ReachedLimit
    """As one of the runs reached it."""
    share: float
    """The share of these among the runs that reached any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForecast:
    """What the runs came to."""

    runs: int = 0
    own_turns: int = 0
    """Turns of the session that were drawn from."""
    other_turns: int = 0
    """Turns of other sessions of its blueprint."""
    other_sessions: int = 0
    lengths: tuple[float, ...] = ()
    """The turns of each run until its limit, sorted; infinite where it reached none."""
    turns: TurnBand | None = None
    """None for the reason in `silent`."""
    silent: SilentReason | None = None
    expected: ExpectedLimit | None = None
    """The limit to expect; None if no run reached any."""
    reached_share: float = 0.0
    """The share of runs that reached a limit within the horizon."""
    tokens_per_turn: float | None = None
    """By how much the largest prompt of a turn grows with each turn; None if nothing was run."""
    next_turns: tuple[TokenBand, ...] = ()
    """The next turns' prompts, as far as most runs go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandWidening:
    """By what share of its median a band is widened on both sides, as a back-test found."""

    near: float = 0.0
    """Where the median is at most `NEAR_TURNS`."""
    middle: float = 0.0
    """Where it is at most `MIDDLE_TURNS`."""
    far: float = 0.0

    def find_share(self, median: float) -> float:
        """Return the share for a median."""
        if median <= NEAR_TURNS:
            return self.near
        return self.middle if median <= MIDDLE_TURNS else self.far


def forecast_session(inputs: ForecastInputs, widening: BandWidening) -> SessionForecast:
    """Forecast a session; the same inputs give the same forecast."""
    base = _build_base(inputs)
    own = build_session_samples(list_sample_turns(inputs.events, inputs.before))
    others = tuple(build_session_samples(list_sample_turns(each)) for each in inputs.others)
    samples = TurnSamples(own, others, measure_weight(others))
    known = SessionForecast(
        own_turns=len(own.turns),
        other_turns=sum(len(each.turns) for each in others),
        other_sessions=sum(bool(each.turns) for each in others),
    )
    if base.state.closed:
        return replace(known, silent="closed")
    if samples.is_empty:
        return replace(known, silent="no-turns")
    if not _has_limit(base):
        return replace(known, silent="no-limit")
    runs = _run_all(base, samples)
    if not runs:
        return replace(known, silent="unknown")
    if not any(each.tokens for each in runs):
        return replace(known, silent="no-turns")
    return _describe_runs(known, runs, widening)


def _build_base(inputs: ForecastInputs) -> ForecastBase:
    state = fold(inputs.events, inputs.before)
    if state is None:
        raise Corrupt("event 1", "it does not open a session")
    calls = [each.event for each in inputs.events if isinstance(each.event, ContextAssembled)]
    return ForecastBase(
        events=inputs.events,
        state=replace(state, open=None, waiting=()),
        material=build_material(get_pins(state), inputs.blobs, inputs.installed),
        blobs=inputs.blobs,
        installed=inputs.installed,
        default_model=inputs.default_model,
        latest_calls={call.manifest.kind: call for call in calls},
    )


def _has_limit(base: ForecastBase) -> bool:
    """Return whether any prompt of the session can be too long."""
    blueprint: Blueprint = base.material.blueprint
    dialects = (each.manifest.dialect for each in base.latest_calls.values())
    return (
        any(each.budget for each in blueprint.calls.values())
        or any(view.summary for view in blueprint.history.values())
        or any(each is not None and each.context_tokens for each in dialects)
        or bool(base.state.corrections)
    )


def _run_all(base: ForecastBase, samples: TurnSamples) -> list[ForwardRun]:
    """Return the runs, without those that drew a turn whose prompts cannot be made."""
    runs, drawn = list[ForwardRun](), 0
    for number in range(MAX_RUNS):
        if len(runs) >= MIN_RUNS and drawn >= MAX_DRAWN_TURNS:
            break
        draws = create_run_draws(samples, f"{base.state.head.hash}:{number}")
        with suppress(Corrupt, Refused):
            run = run_forward(base, draws, HORIZON)
            runs.append(run)
            drawn += len(run.tokens)
    return runs


def _describe_runs(
    known: SessionForecast, runs: Sequence[ForwardRun], widening: BandWidening
) -> SessionForecast:
    reached = [each.reached for each in runs if each.reached]
    growth = _compute_growth(runs)
    found = replace(
        known,
        runs=len(runs),
        expected=_find_expected(reached),
        reached_share=len(reached) / len(runs),
        tokens_per_turn=growth,
        next_turns=_list_token_bands(runs),
    )
    lengths = sorted(len(each.tokens) if each.reached else math.inf for each in runs)
    found = replace(found, lengths=tuple(lengths))
    if compute_quantile(lengths, 0.5) == math.inf:
        return replace(found, silent="beyond" if reached or growth >= 1 else "no-growth")
    return replace(found, turns=build_turn_band(lengths, widening))


def build_turn_band(lengths: Sequence[float], widening: BandWidening) -> TurnBand:
    """Return the band of sorted lengths, of which more than half are finite."""
    p10, p50, p90 = (compute_quantile(lengths, share) for share in (0.1, 0.5, 0.9))
    margin = widening.find_share(p50) * p50
    upper = math.inf if p90 == math.inf else math.ceil(p90 + margin)
    return TurnBand(
        p10=max(1, math.floor(p10 - margin)),
        p50=max(1, round(p50)),
        p90=int(upper) if upper <= HORIZON else None,
    )


def compute_quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, between two of them where it falls there."""
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    if low == high or math.inf in {low, high}:
        return high if place > math.floor(place) else low
    return low + (high - low) * (place - math.floor(place))


def _find_expected(reached: Sequence[ReachedLimit]) -> ExpectedLimit | None:
    if not reached:
        return None
    key: Callable[[ReachedLimit], tuple[object, ...]] = lambda each: (  # noqa: E731 - named once
        each.effect,
        each.kind,
        each.rule,
        each.on,
        each.component,
    )
    (most, count), *_ = Counter(map(key, reached)).most_common(1)
    limit = next(each for each in reached if key(each) == most)
    return ExpectedLimit(limit=limit, share=count / len(reached))


def _compute_growth(runs: Sequence[ForwardRun]) -> float:
    """Return the median over the runs of the tokens that a prompt grows by in each turn."""
    slopes = sorted(
        (sizes[-1] - sizes[0]) / (len(sizes) - 1)
        for sizes in ([each for each in run.tokens if each] for run in runs)
        if len(sizes) > 1
    )
    return compute_quantile(slopes, 0.5) if slopes else 0.0


def _list_token_bands(runs: Sequence[ForwardRun]) -> tuple[TokenBand, ...]:
    bands = list[TokenBand]()
    for turn in range(SHOWN_TURNS):
        sizes = sorted(run.tokens[turn] for run in runs if len(run.tokens) > turn)
        if 2 * len(sizes) <= len(runs):
            break
        p10, p50, p90 = (round(compute_quantile(sizes, share)) for share in (0.1, 0.5, 0.9))
        bands.append(TokenBand(p10, p50, p90))
    return tuple(bands)
