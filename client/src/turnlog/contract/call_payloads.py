"""The responses about calls: attempts, usage and cost, tool results, growth and the overview.

A null figure is unknown, not zero.
"""

from __future__ import annotations

from typing import Literal

from turnlog.contract.alert_payloads import RaisedAlert
from turnlog.contract.payload_models import ResponseModel
from turnlog.contract.usage_payloads import CostSum, SessionUsage, TurnUsage
from turnlog.contract.value_names import FinishReason


class CallTimes(ResponseModel):
    """How long a call took; null while it runs, and if none of its attempts was measured."""

    total_ms: int | None
    """Milliseconds from its first request to the end of its last attempt: the sum of the others."""
    attempts_ms: int | None
    """Milliseconds of all attempts together, each from its request to its end."""
    waiting_ms: int | None
    """Milliseconds between the attempts: delays before retries, and until a worker took over."""


class AttemptRow(ResponseModel):
    """An attempt at a call; a figure that is missing is unknown or not final, and not zero."""

    attempt: int
    """The attempt number within the turn."""
    worker: str
    """The id of the worker."""
    started_at: str
    """When the attempt started."""
    ended_at: str | None
    """When the attempt ended."""
    outcome: str | None
    """How the attempt ended."""
    known: str | None
    """The source of the token figures: reported, estimated or unknown."""
    input_tokens: int | None
    """Tokens sent."""
    output_tokens: int | None
    """Tokens received."""
    cached_tokens: int | None
    """Tokens sent that the provider had cached."""
    cache_write_tokens: int | None = None
    """Tokens sent that the provider put into its cache, where that has a price."""
    micro_dollars: int | None
    """The cost in millionths of a dollar."""
    price: str | None
    """How the model was found in the price table."""
    first_token_ms: int | None
    """Milliseconds from the request to the model until the first text."""
    total_ms: int | None
    """Milliseconds from the request to the model until its end."""
    fault: str | None
    """Why the attempt failed."""
    waited_ms: int | None = None
    """Milliseconds from the end of the call's previous attempt to the request of this one."""


class CallRow(ResponseModel):
    """A call with a fixed prompt, all attempts at it and their totals."""

    call: str
    """The call id: `3.1` is turn 3, call 1."""
    turn: int
    """The turn number."""
    sequence: int
    """The sequence of the event that contains the manifest."""
    at: str
    """When the prompt was recorded."""
    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """The model."""
    supersedes: str | None
    """The call that this one replaces."""
    digest: str
    """The digest of the canonical request."""
    tokens: int
    """The tokens of the prompt, as counted by `counter`."""
    counter: str
    """The token counter."""
    budget: int | None
    """The token budget."""
    parts: int
    """The number of parts in the manifest."""
    profile: str | None
    """The profile of the call; None in records from before profiles could be switched."""
    savings: int
    """Tokens saved by shortening parts of the prompt."""
    attempt: int | None
    """The attempt that answered."""
    finish: FinishReason | None
    """Why the model stopped."""
    characters: int | None
    """The length of the answer."""
    known: str
    """The source of the figures: reported, estimated or unknown."""
    input_tokens: int | None
    """Tokens sent in all attempts."""
    output_tokens: int | None
    """Tokens received in all attempts."""
    micro_dollars: int | None
    """The cost of all attempts in millionths of a dollar, as far as known."""
    cost: CostSum
    """The cost of all attempts, and how well it is known."""
    times: CallTimes
    """How long the call, its attempts and the waiting between them took."""
    attempts: tuple[AttemptRow, ...]
    """All attempts."""


class CallList(ResponseModel):
    """All calls of a session."""

    models: tuple[str, ...] = ()
    """The distinct models, in the order of their first call."""
    profiles: tuple[str, ...] = ()
    """The distinct profiles of the calls."""

    session: str
    """The session id."""
    sequence: int
    """The last sequence that the read models contain."""
    calls: tuple[CallRow, ...]
    """The calls in order."""
    usage: SessionUsage = SessionUsage()
    """What the attempts of the session took and cost."""
    turns: tuple[TurnUsage, ...] = ()
    """What the turns took that asked children, and what these took for them."""


class ResultPartView(ResponseModel):
    """A picture, a recording or a file in the result of a tool."""

    kind: Literal["image", "audio", "file"]
    """What a model is sent it as."""
    digest: str
    """SHA-256 of its bytes, which `/v1/blobs` has under it."""
    size: int
    """Number of bytes."""
    media_type: str
    """Its type, such as `image/png`."""
    name: str | None
    """The name of the file."""
    data: str | None
    """The bytes in base64; null if those of all parts so far are more than a megabyte, or they
    cannot be read.
    """


class WholeResultView(ResponseModel):
    """A result that is larger than one message of the log, and so than this answer."""

    digest: str
    """SHA-256 of its text as UTF-8, which `/v1/blobs` has under it."""
    size: int
    """Number of bytes."""


class ToolResultView(ResponseModel):
    """The whole result of a tool use, and what prompts say of it."""

    session: str
    """The session id."""
    sequence: int
    """The sequence of the event that recorded the outcome."""
    call: str
    """The call that requested the tool."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The name of the tool."""
    arguments: str
    """The arguments as the model wrote them."""
    edited: str | None = None
    """The arguments that a person wrote, with which the tool ran; null if the model's stayed."""
    outcome: str | None
    """The outcome; null until the tool returns."""
    detail: str
    """Why it was refused, failed or was lost."""
    text: str | None
    """The text that prompts contain."""
    treatment: Literal["kept", "condensed"]
    """Whether prompts contain all of the result."""
    digest: str | None
    """The digest of the whole result; null when there is none."""
    characters: int
    """The length of the whole result."""
    result: str | None
    """The whole result, which has that digest; null if it is too large, and `whole` names it."""
    parts: tuple[ResultPartView, ...] = ()
    """Its pictures, recordings and files, for each of which the result has a line."""
    whole: WholeResultView | None = None
    """Where the whole result is, if it is larger than a megabyte."""


class CacheUseMetrics(ResponseModel):
    """The calls that had the same outcome for the same cause, and what was lost by it."""

    outcome: Literal["first", "kept", "missed", "broken", "small", "unknown"]
    """What became of the provider's cache. `first`: there is no earlier call of its kind. `kept`:
    it was read as far as it could be. `missed`: it was not, though the prompt repeats what was in
    it. `broken`: it could not be, because the prompt changed. `small`: nothing of the earlier
    prompt was in it, which was too short. `unknown`: the provider does not say, or nobody knows its
    terms.
    """
    cause: str | None
    """Of a broken one the first layer that changed. Of a missed one `expired` if the provider keeps
    nothing for so long, `model` if another one was called, and else `provider`. Otherwise null.
    """
    calls: int
    """The number of calls."""
    tokens: int
    """Tokens that could have been read from the cache, and were not."""
    cost: CostSum
    """What these cost more than if they had been read from it."""


class CacheBreak(ResponseModel):
    """What the calls of one version of a blueprint lost for one cause."""

    blueprint: str
    """The blueprint."""
    version: int | None
    """Its version at the calls."""
    lost: CacheUseMetrics
    """What was lost, and why."""
    session: str
    """The session of the call that lost most."""
    call: str
    """That call."""
    prefix_call: str
    """The earlier call of its kind, whose prompt was in the cache."""
    model: str
    """The model of that call."""
    tokens: int
    """The tokens that it lost."""


class CacheBreakList(ResponseModel):
    """What was not read from the caches of providers, as far as the read models have caught up."""

    breaks: tuple[CacheBreak, ...]
    """The losses, the dearest first."""


class CallMetrics(ResponseModel):
    """The tokens of one call, and what reduced them."""

    call: str
    """The call id: `3.1` is turn 3, call 1."""
    turn_id: int
    """The turn number."""
    at: str
    """When the prompt was recorded."""
    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """The model."""
    profile: str | None
    """The profile of the call."""
    budget: int | None
    """The token budget; null without a limit."""
    tokens: int
    """The tokens of the prompt, tools included, as counted when it was assembled."""
    components: dict[str, int]
    """The tokens by component, such as `history_tokens`; the standard components are always
    present.
    """
    optimizations_applied: tuple[str, ...]
    """The rules that shortened the prompt."""
    savings_estimate: int
    """Tokens saved by all rules; estimated from lengths for texts that were not read."""
    saved: dict[str, int]
    """Tokens saved by each rule."""
    cut_turns: int
    """The number of history turns that were cut to fit."""
    copied: bool = False
    """Whether the session is a fork that copied the call; then it is in no sum of the fork."""
    prefix_call: str | None = None
    """The earlier call of its kind; null for the first."""
    prefix_tokens: int | None = None
    """How many tokens of that call's prompt this one begins with."""
    prefix_ended_by: str | None = None
    """The first layer that differs; null if the whole earlier prompt is repeated."""
    cache: CacheUseMetrics | None = None
    """What became of the provider's cache; null for a copied call."""


class RuleMetrics(ResponseModel):
    """What one rule took out of the prompts of a group of calls."""

    rule: str
    """The rule, such as a step of the ladder."""
    calls: int
    """The number of calls whose prompts it shortened."""
    tokens: int
    """The tokens that it saved."""


class PrefixBreakMetrics(ResponseModel):
    """The prompts of a group of calls that differ from those before them from the same layer on."""

    layer: str
    """The first layer that differs."""
    calls: int
    """The number of calls."""
    tokens: int
    """Tokens of the earlier prompts from there on, which no cache could be read for."""


class PromptSizeMetrics(ResponseModel):
    """How large the prompts of a group of calls are, in tokens, off by 1.6 percent at most."""

    p10: int
    """A tenth of the prompts are no larger."""
    p50: int
    """Half of them are no larger."""
    p95: int
    """Only one of twenty is larger."""


class GroupMetrics(ResponseModel):
    """The totals of a group of calls; what a fork copied counts in the session that made it."""

    key: dict[str, str | None]
    """What the calls have in common, by each of `group_by`; null where it is unknown."""
    at: str | None = None
    """When the hour or the day of the calls began, in UTC; null without `bucket`."""
    calls: int
    """The number of calls."""
    tokens: int
    """The tokens of their prompts."""
    prompt_sizes: PromptSizeMetrics | None = None
    """How large their prompts are; null in the hours of an overview."""
    components: dict[str, int]
    """The tokens by component."""
    savings_estimate: int
    """Tokens that were saved."""
    cut_calls: int = 0
    """The calls whose prompts a rule shortened."""
    cut_turns: int
    """The number of history turns that were cut to fit, counted in each call."""
    rules: tuple[RuleMetrics, ...] = ()
    """The rules that shortened their prompts, the one that saved most first."""
    prefix_breaks: tuple[PrefixBreakMetrics, ...] = ()
    """From where on their prompts differ from those before them, the most tokens first."""
    caches: tuple[CacheUseMetrics, ...] = ()
    """What became of the caches of their prompts, the dearest loss first."""
    input_tokens: int = 0
    """The tokens that their attempts sent, as far as providers reported them."""
    cached_tokens: int = 0
    """What of them providers read from their caches."""
    cost: CostSum
    """What their attempts cost."""
    retrieval_hit_rate: float | None
    """The share of the calls with a layer of the component `rag_context` that include a text of it;
    null if there is no such call.
    """


class GrowthView(ResponseModel):
    """How the context of calls grows, as far as the read models have caught up."""

    session: str | None
    """The session id; null for all sessions."""
    sequence: int | None
    """The last sequence of the session that the read models contain."""
    groups: tuple[GroupMetrics, ...]
    """The totals of each group."""
    calls: tuple[CallMetrics, ...]
    """The calls of the session, in order."""
    history_growth: float | None
    """The mean increase of the session's history tokens from one turn to the next; null before
    there are two turns.
    """


class OverviewTiles(ResponseModel):
    """The figures of now."""

    turns_in_flight: int
    """Turns that are not over: they run, wait for somebody, or are queued."""
    turns_per_minute: float
    """Turns submitted in the last five minutes, for each of them."""
    failed_last_hour: int
    """Turns submitted in the last hour that failed."""
    p95_ms: int | None
    """Milliseconds within which 95 of 100 attempts ended, of the calls of the last hour."""
    cost_today: CostSum
    """What the calls of this day (UTC) cost, without those before `since`."""
    input_tokens: int
    """Tokens sent since `since`, as far as known."""
    cached_tokens: int
    """What of them providers read from their caches."""
    near_sessions: int
    """Open sessions whose last prompt took at least 90 per cent of its budget."""
    stopped_sessions: int
    """Sessions whose read models an event stopped."""
    lag: int
    """Events of the log that the read models do not have yet."""


class NearSession(ResponseModel):
    """An open session that is close to being cut."""

    session: str
    """The session id."""
    title: str | None
    """Its title."""
    blueprint: str
    """Its blueprint."""
    version: int
    """The version it is pinned to."""
    budget_share: float
    """How much of its budget the last prompt took; 1 is all of it."""


class FailureCount(ResponseModel):
    """The turns that failed with one code."""

    code: str | None
    """The code; null if none was recorded."""
    turns: int
    """How many failed."""
    last_at: str
    """When the last of them was submitted."""


class ModelLatency(ResponseModel):
    """How long the attempts of one model took in the last hour."""

    model: str
    """The model."""
    attempts: int
    """Attempts that were measured."""
    p95_ms: int
    """Milliseconds within which 95 of 100 of them ended."""


class OverviewView(ResponseModel):
    """All sessions at once, as far as the read models have caught up."""

    at: str
    """When the figures were read."""
    since: str
    """The beginning of the time that series and tables are about."""
    tiles: OverviewTiles
    """The figures of now."""
    alerts: tuple[RaisedAlert, ...] = ()
    """The alerts that are raised, and those that warn, the longest first."""
    series: tuple[GroupMetrics, ...]
    """The calls of each hour since then."""
    versions: tuple[GroupMetrics, ...]
    """The calls of each version of a blueprint: what cut their prompts, and which caches they lost.
    """
    near: tuple[NearSession, ...]
    """The sessions next to be cut, the nearest first."""
    failures: tuple[FailureCount, ...]
    """Why turns failed, the most frequent code first."""
    slow: tuple[ModelLatency, ...]
    """The models by how long they took, the slowest first."""


class ProvenEvent(ResponseModel):
    """An event of a call, as it is stored."""

    sequence: int
    """Its sequence in the session."""
    stored: str
    """Its stored bytes, which are UTF-8; their SHA-256 is in the tree of the session."""
    key: str | None = None
    """The key of its box, in hexadecimal, if the session is sealed; events of the same leaves share
    it.
    """


class CallProofView(ResponseModel):
    """The proof that a call's events are in its session, up to the root of all its events.

    `turnlog prove` joins it with a signed checkpoint, which has that root.
    """

    session: str
    """The session id."""
    sequence: int
    """How many events of the session the root stands for."""
    hash: str
    """Digest of the last one's stored bytes."""
    root: str
    """Root of the Merkle tree of the digests of these events, RFC 9162, section 2.1."""
    call: str
    """The call."""
    turn: int
    """The turn that it is for."""
    request: str
    """What the model was sent, in the canonical form whose SHA-256 is the manifest's `digest`."""
    events: tuple[ProvenEvent, ...]
    """The events of the call, and those that opened and ended its turn."""
    path: tuple[str, ...]
    """The roots of the largest subtrees without one of these events, from left to right, in
    hexadecimal.
    """
