"""The responses about memory: summaries, exclusions, references, and the next cut or summary.

A forecast says when a prompt is next cut or summarised, by which rule, and how sure that is.
Recorded turns continue the session, and the assembler makes their prompts. How good such forecasts
are comes from a back-test.
"""

from __future__ import annotations

from typing import Literal

from turnlog.contract.payload_models import JsonObject, ResponseModel
from turnlog.contract.usage_payloads import CostSum

InheritanceReason = Literal[
    "in-text",
    "inherited",
    "not-remembered",
    "not-enabled",
    "intent-not-listed",
    "entity-not-allowed",
    "no-reference",
    "too-old",
]
"""Why an identifier was or was not inherited; `in-text` means that the turn names its own."""


class TurnRangeView(ResponseModel):
    """A range of consecutive turns."""

    first: int
    """The first turn."""
    last: int
    """The last turn."""


class SummaryView(ResponseModel):
    """A summary that replaces older turns in windows."""

    sequence: int
    """The sequence of its event, by which it is undone."""
    view: str
    """The history view of the blueprint that contains it."""
    turns: tuple[TurnRangeView, ...]
    """The turns it replaces."""
    former: int | None
    """The earlier summary that it includes."""
    phases: tuple[str, ...]
    """The phases of those turns."""
    text: str | None
    """The summary text in prompts; null when it is no longer readable."""
    call: str
    """The call that generated it."""
    inputs: str
    """The digest of the request that it answers."""
    model: str
    """The model as it was passed to litellm."""
    micro_dollars: int | None
    """The cost of the call in millionths of a dollar; null when unknown."""
    guessed: bool
    """Whether that price is a guess, because no table has the very model."""
    at: str
    """When it was recorded, RFC 3339."""


class SummariesView(ResponseModel):
    """The active summaries of a session, oldest first."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    summaries: tuple[SummaryView, ...]
    """The latest summary of each view that was not undone."""
    purged: int
    """The last turn that a purge excluded from windows; 0 without a purge."""


class UncoveredTurns(ResponseModel):
    """Turns of a view that no summary covers any more."""

    view: str
    """The history view of the blueprint."""
    turns: tuple[TurnRangeView, ...]
    """The turns, without the excluded one; the next turn may have a model summarise them again."""


class ExclusionPreviewView(ResponseModel):
    """What excluding a turn would undo; nothing is recorded."""

    session: str
    """The session id."""
    turn: int
    """The turn."""
    sequence: int
    """The sequence that the response reflects."""
    undone: tuple[SummaryView, ...]
    """The summaries that cover the turn and would be undone, the latest first."""
    uncovered: tuple[UncoveredTurns, ...]
    """The turns that windows would show again, by view."""
    cost: CostSum
    """What writing the undone summaries cost, as an estimate for writing them again."""


class ReferencesView(ResponseModel):
    """What the latest answered turn of a session was about."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    last_reference: JsonObject | None
    """Its identifiers, with `intent`, `entity`, `updated_at` and `turn_index`; null before any."""


class ResolvedReferencesView(ResponseModel):
    """The references that a turn would have if it were submitted now."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    identifiers: JsonObject
    """The identifiers that the turn states, then those it would inherit."""
    used: bool
    """Whether any would be inherited."""
    reason: InheritanceReason
    """Why they would be inherited or not."""


ForecastEffect = Literal["cut", "summary", "refused"]
"""What becomes of the prompt: a rule shortens it, older turns are summarised before it, or it is
refused because it cannot be made to fit.
"""

ForecastSilence = Literal["closed", "no-turns", "no-limit", "no-growth", "beyond", "unknown"]
"""Why no turn is named.

`closed`: the session takes no turn. `no-turns`: no turn is on record that could follow. `no-limit`:
nothing limits a prompt. `no-growth`: the prompts do not grow. `beyond`: most runs reached no limit
within the horizon. `unknown`: the record lacks what the prompts are made of.
"""


class ForecastTurns(ResponseModel):
    """After how many turns a prompt reaches a limit; 1 is the next turn."""

    p10: int
    """The lower end of the band."""
    p50: int
    """The median of all runs."""
    p90: int | None
    """The upper end of the band; null if it is beyond the horizon."""


class ForecastLimit(ResponseModel):
    """The limit that most runs reached."""

    effect: ForecastEffect
    """What becomes of the prompt."""
    kind: str
    """The kind of call."""
    rule: str
    """The step of the ladder, `summarise`, or the code of the refusal."""
    on: str
    """The layer or history view; empty for a refusal."""
    component: str | None
    """The component or section whose limit it is; null for that of the whole prompt."""
    tokens: int
    """What was measured in one of these runs."""
    limit: int | None
    """The limit in tokens; null if it is that of a component whose limit was not noted."""
    share: float
    """The share of these runs among all that reached a limit."""


class ForecastTokens(ResponseModel):
    """The largest prompt of a coming turn, before anything is cut, in tokens."""

    turn: int
    """The number of the turn."""
    p10: int
    """The tenth percentile of the runs."""
    p50: int
    """The median."""
    p90: int
    """The ninetieth percentile."""


class ForecastErrors(ResponseModel):
    """What the back-test found on sessions of the shipped blueprints."""

    sessions: int
    """Sessions that were played."""
    forecasts: int
    """Forecasts of the half that the band was not widened on, where a limit was reached."""
    median_error: float | None
    """The median of the turns between forecast and truth."""
    p90_error: float | None
    """Nine of ten errors are at most this; null if more than one of ten named no turn."""
    coverage: float | None
    """The share of truths within the band."""


class ForecastView(ResponseModel):
    """When a prompt of a session is next cut, summarised or refused."""

    session: str
    """The session."""
    sequence: int
    """The sequence of its last event."""
    turn: int
    """The number of its latest turn."""
    sentence: str
    """The forecast in a sentence."""
    turns: ForecastTurns | None
    """The turns until then; null for the reason in `silence`."""
    silence: ForecastSilence | None
    """Why no turn is named; null if one is."""
    expected: ForecastLimit | None
    """The limit to expect; null if no run reached any."""
    reached_share: float
    """The share of runs that reached a limit within the horizon."""
    horizon: int
    """Most turns of a run."""
    tokens_per_turn: float | None
    """By how much the largest prompt of a turn grows with each turn; null if nothing was run."""
    next_turns: tuple[ForecastTokens, ...]
    """The next turns, as far as most runs go before a limit."""
    runs: int
    """How often the session was continued."""
    own_turns: int
    """Its recorded turns that were drawn from."""
    other_turns: int
    """Those of other sessions of its blueprint."""
    other_sessions: int
    """These sessions."""
    measured: ForecastErrors
    """How good such forecasts are."""
