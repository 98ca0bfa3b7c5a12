"""The results of queries: frozen row types, independent of SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.model.knowledge_events import EntryKind
from turnlog.events.model.tool_events import ApprovalDecision
from turnlog.events.model.turn_events import FinishReason
from turnlog.projections.session_views.call_times import CallDurations
from turnlog.projections.session_views.cost_totals import NO_COST, CostTotal
from turnlog.projections.uses.use_records import UseWay


@dataclass(frozen=True, slots=True)
class ListedOrigin:
    """The origin of a session."""

    kind: Literal["parent", "fork"]
    """Whether it is a coordinator's child or a fork."""
    session: str
    """The id of the origin."""
    sequence: int
    """The origin's sequence at which it was created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """What the attempts of a session took and cost, as far as it is known.

    Attempts that a fork copied count in the session that made them.
    """

    input_tokens: int = 0
    """Tokens sent."""
    output_tokens: int = 0
    """Tokens received."""
    total_tokens: int = 0
    """Both together."""
    micro_dollars: int = 0
    """Millionths of a dollar, as far as known; `cost` tells how well that is."""
    unknown_attempts: int = 0
    """Ended attempts whose tokens nobody counted; they are in none of the sums."""
    cost: CostTotal = NO_COST
    """The cost, and how well it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSession:
    """A session in a list; times are those of its events, RFC 3339 in UTC."""

    session: str
    """The session id."""
    sequence: int
    """The last sequence that the read models contain."""
    title: str | None
    """The title that was given, otherwise the first turn's text, shortened to one line; None if
    there is none that may be shown.
    """
    blueprint: str
    """The blueprint's name."""
    version: int
    """The blueprint's version."""
    digest: Digest
    """The digest of the blueprint."""
    profile: str
    """The current profile."""
    attributes: dict[str, JsonValue]
    """The attributes of the session."""
    turns: int
    """The number of submitted turns."""
    redacted: bool
    """Whether a reply was redacted."""
    opened_at: str
    """When it was opened."""
    last_at: str
    """When its latest event was recorded."""
    closed_at: str | None
    """When it was closed."""
    owner: str | None
    """The user whose session it is; None for one that belongs to no user."""
    usage: UsageTotal
    """The tokens and the cost of all its calls so far."""
    origin: ListedOrigin | None = None
    """The session it came from."""
    children_usage: UsageTotal | None = None
    """The same of the children that its turns asked, and of theirs; None if none was asked."""
    total_usage: UsageTotal | None = None
    """Both together; None if no child was asked."""
    labels: tuple[str, ...] = ()
    """The labels, in the order in which they were given."""
    stopped: str | None = None
    """Why its rows end before its log: an event of it cannot be read or folded."""
    stray_messages: int = 0
    """How many messages under its subjects are no events of it, which are passed over."""
    budget_share: float | None = None
    """How much of its budget the last prompt took, of those that had one: 0.94 is 94 %."""


@dataclass(frozen=True, slots=True)
class TurnUsageTotal:
    """What a turn that asked children took, and they for it."""

    turn: int
    """The turn number."""
    usage: UsageTotal
    """The tokens and the cost of its own calls."""
    children_usage: UsageTotal
    """Those of its children's turns, and of the turns that these asked for."""
    total_usage: UsageTotal
    """Both together."""


@dataclass(frozen=True, slots=True)
class SessionPageMark:
    """The last session of a page."""

    position: int
    """The stream position of its opening."""
    rank: int | str
    """What it is sorted by."""


@dataclass(frozen=True, slots=True)
class SessionRowPage:
    """A page of sessions."""

    sessions: tuple[ListedSession, ...]
    before: SessionPageMark | None
    """Parameter for the next page; None on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow:
    """An approval that a tool needed, as far as the read models know."""

    session: str
    """The session in which it is decided."""
    turn: int
    """The number of the turn in it."""
    approval: int
    """The number of the approval within the turn."""
    requested_at: str
    """When it was requested."""
    call: str
    """The call whose answer requested the tool."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The name of the tool."""
    deadline: str
    """Without a decision by then the tool is refused."""
    decision: ApprovalDecision | None
    """The decision; None while there is none."""
    decided_at: str | None
    """When it was decided."""
    decided_by: str | None
    """The person who decided; None where the deadline did, too."""
    asked_by: str | None
    """The user who submitted the turn."""


@dataclass(frozen=True, slots=True)
class ApprovalRowPage:
    """A page of approvals, newest first."""

    approvals: tuple[ApprovalRow, ...]
    before: int | None
    """Parameter for the next page; None on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedAttempt:
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
    cache_write_tokens: int | None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCall:
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
    digest: Digest
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
    cost: CostTotal
    """The cost of all attempts, and how well it is known."""
    times: CallDurations
    """How long the call, its attempts and the waiting between them took."""
    attempts: tuple[ListedAttempt, ...]
    """All attempts."""


CacheOutcome = Literal["first", "kept", "missed", "broken", "small", "unknown"]
"""What became of the cache of a prompt: there is no earlier call of its kind; the provider read
what it could of the earlier prompt; it did not, though the prompt repeats that; it could not,
because the prompt changed; nothing of the earlier prompt was cached; the provider says nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """The calls that had the same outcome for the same cause, and what was lost by it."""

    outcome: CacheOutcome
    cause: str | None
    """Of a broken one the first layer that changed; of a missed one whether the time of the cache
    was over (`expired`), another `model` was called, or nobody but the `provider` knows; else None.
    """
    calls: int
    tokens: int
    """Tokens that could have been read from the cache, and were not."""
    cost: CostTotal
    """What they cost more than if they had been read from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGrowth:
    """What one call used, and what made it shorter."""

    call: str
    turn: int
    at: str
    kind: str
    model: str
    profile: str | None
    budget: int | None
    tokens: int
    savings: int
    """Tokens saved by all optimizations together."""
    optimizations: dict[str, int]
    """Rules that shortened the prompt, each with the tokens it saved."""
    components: dict[str, int]
    """Tokens by component, in prompt order."""
    copied: bool
    """Whether the session is a fork that copied the call; then it is in no sum of the fork."""
    cut_turns: int
    """Number of history turns that were cut to fit."""
    prefix_call: str | None
    """The earlier call of its kind; None for the first."""
    prefix_tokens: int | None
    """How many tokens of its prompt this one begins with."""
    prefix_ended_by: str | None
    """The first layer that differs; None if the whole earlier prompt is repeated."""
    cache: CacheUse | None
    """What became of its cache; None for a copied one."""


@dataclass(frozen=True, slots=True)
class RuleSavings:
    """What one rule took out of the prompts of a group of calls."""

    rule: str
    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class PrefixBreaks:
    """The prompts of a group of calls that differ from those before them from the same layer on."""

    layer: str
    calls: int
    tokens: int
    """Tokens of the earlier prompts from there on, which no cache could be read for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSizes:
    """Tokens that so many hundredths of some prompts do not exceed, off by 1.6 percent at most."""

    p10: int
    p50: int
    p95: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGrowth:
    """What a group of calls used together; those that a fork copied count where they were made."""

    key: dict[str, str | None]
    """What its calls have in common, by what they are grouped by; None is unknown, or has none."""
    at: str | None = None
    """When the hour or the day of its calls began; None where they are of any time."""
    calls: int
    tokens: int
    prompt_sizes: PromptSizes | None = None
    """None if nobody asked for them."""
    savings: int
    cut_calls: int = 0
    """Calls whose prompts a rule shortened."""
    components: dict[str, int]
    """Tokens by component."""
    cut_turns: int
    rules: tuple[RuleSavings, ...] = ()
    """What shortened the prompts, the rule that saved most first."""
    prefix_breaks: tuple[PrefixBreaks, ...] = ()
    """From where on prompts differ from those before them, the most tokens first."""
    caches: tuple[CacheUse, ...] = ()
    """What became of the caches of their prompts, the dearest first."""
    input_tokens: int = 0
    """What their attempts sent, as providers count."""
    cached_tokens: int = 0
    """What of it the providers read from their caches."""
    cost: CostTotal = NO_COST
    """What their attempts cost."""
    retrieval_hit_rate: float | None = None
    """Share of the calls with the component `rag_context` that include a text of it; None if there
    is no such call.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFigures:
    """What turns used together."""

    turns: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    guided: int = 0
    """Turns whose prompts included something that was retrieved."""
    input_tokens: int = 0
    cached_tokens: int = 0
    """Of the input tokens, those that the provider read from its cache."""
    cache_write_tokens: int = 0
    """Of the input tokens, those that the provider wrote into its cache."""
    output_tokens: int = 0
    unknown_attempts: int = 0
    """Attempts whose tokens nobody counted."""
    saved_tokens: int = 0
    """What guided turns took less than the turn before them, in output tokens."""
    saving_turns: int = 0
    """Guided turns that took less."""
    cost: CostTotal = NO_COST


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What the turns of a group used that have a model and a profile in common."""

    group: str | None
    """The common value of the group; None if there is none or it is unknown."""
    model: str | None
    """The model that was called last in them; None if none was called."""
    profile: str
    """Their profile."""
    figures: UsageFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSegment:
    """The current version of a variant of a segment."""

    id: int
    """The segment number."""
    variant: str
    """The variant."""
    scope: str
    """The part of a prompt it is for."""
    ref: str | None
    """The reference within the scope that it belongs to."""
    locale: str | None
    """The locale of the text."""
    content: str | None
    """The text; None when it was erased."""
    digest: Digest
    """The digest of the text."""
    characters: int
    """The length in code points."""
    tier: int
    """How much a reader must have discovered to see it."""
    type: str
    """The kind of text."""
    priority: str
    """`low`, `normal` or `high`."""
    active: bool
    """Whether calls may use it."""
    version: int
    """The version number within the segment."""
    edited_at: str
    """When it was last edited."""
    edited_by: str
    """The actor of the last edit."""


PinKind = Literal["blueprint", "cartridge", "memory", "prompt"]
"""What open sessions can be pinned to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedText:
    """A text that open sessions of a blueprint are pinned to."""

    blueprint: str
    what: PinKind
    version: int | None
    """Version of a blueprint."""
    provider: str | None
    """Provider that a prompt file was resolved for."""
    layer: str | None
    """Layer of a prompt file."""
    path: str | None
    """Path of a prompt file."""
    digest: Digest
    sessions: int
    """Number of sessions."""


@dataclass(frozen=True, slots=True)
class ListedCollection:
    """A collection."""

    collection: str
    """Its name."""
    cases: int
    """How many cases it contains."""
    documents: int
    """How many parts of documents it contains."""
    characters: int
    """The length of all texts in code points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEntry:
    """An entry of a collection as it is now."""

    collection: str
    """The collection."""
    id: str
    """The id within the collection."""
    kind: EntryKind
    """`case` or `document`."""
    title: str
    """What it is about."""
    text: str | None
    """The text; null when it was erased."""
    digest: Digest
    """The digest of the text."""
    characters: int
    """The length in code points."""
    source: str | None
    """The file that an import read it from."""
    tags: tuple[str, ...]
    """Words that authors sort entries by."""
    attributes: dict[str, str]
    """Further properties."""
    efficiency: float | None
    """How efficient a case was, from 0 to 1."""
    revision: int
    """The sequence of the knowledge at which it got this text."""
    edited_at: str
    """When that was recorded."""
    edited_by: str
    """The actor of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedUse:
    """A call whose prompt had a source."""

    session: str
    """The session id."""
    turn: int
    """The turn number."""
    call: str
    """The call id."""
    kind: str
    """The blueprint's name of this kind of call."""
    model: str
    """The model name as passed to litellm."""
    at: str
    """When its prompt was fixed, RFC 3339."""
    sequence: int
    """Sequence of the event that fixed its prompt."""
    reply: bool
    """Whether its answer is the reply of the turn."""
    through: UseWay
    """The texts through which the source reached it; empty where its prompt has the source."""
    place: tuple[int, int]
    """The place of the call in the list: position of its session, and sequence."""
