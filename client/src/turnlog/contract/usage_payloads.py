"""What attempts and turns used, of a session, a turn or a group, and what users may use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.contract.payload_models import MAX_INT, RequestModel, ResponseModel


class CostSum(ResponseModel):
    """What one call or several cost, and how well that is known."""

    micro_dollars: int | None = 0
    """Millionths of a dollar, as far as known; null if nothing of it is known."""
    guessed: bool = False
    """Whether a price in it is a guess, because no table has that very model."""
    unpriced_calls: int = 0
    """Calls that have an attempt without a price; what such an attempt cost is in no sum."""


class SessionUsage(ResponseModel):
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
    cost: CostSum = CostSum()
    """The cost, and how well it is known."""


class TurnUsage(ResponseModel):
    """What a turn that asked children took, and they for it."""

    turn: int
    """The turn number."""
    usage: SessionUsage
    """The tokens and the cost of its own calls."""
    children_usage: SessionUsage
    """Those of its children's turns, and of the turns that these asked for."""
    total_usage: SessionUsage
    """Both together."""


class UsageView(ResponseModel):
    """What the turns of a group used."""

    group: str | None
    """What they have in common; null for all turns, and where it is unknown."""
    turns: int
    """Turns that somebody asked for; a fork's copies count in its origin."""
    completed: int
    """Turns that got a reply."""
    failed: int
    """Turns that failed."""
    cancelled: int
    """Turns that were cancelled."""
    open: int
    """Turns that are not over yet: they run, wait for somebody, or are queued."""
    guided: int
    """Turns whose prompts included something that was retrieved."""
    activation_rate: float | None
    """Share of the turns that were guided by retrieval; null without a turn."""
    success_rate: float | None
    """Share of the turns that ended with a reply or a failure which got a reply; null without one.
    """
    input_tokens: int
    """Tokens sent by all attempts, as far as known."""
    cached_tokens: int
    """What of them providers read from their caches."""
    cache_write_tokens: int
    """What of them providers wrote into their caches."""
    output_tokens: int
    """Tokens received by all attempts, as far as known."""
    total_tokens: int
    """Tokens sent and received."""
    unknown_attempts: int
    """Attempts whose tokens nobody counted."""
    saved_tokens: int
    """Output tokens that guided turns took less than the turn before them in their session."""
    saving_turns: int
    """Guided turns that took less."""
    average_saved_tokens: float | None
    """The mean of what a saving turn saved; null without one."""
    saved_cost: CostSum
    """What the saved tokens would have cost, by today's price of an output token of each model."""
    cost: CostSum
    """What their attempts cost."""


class UsageReport(ResponseModel):
    """What turns used, as far as the read models have caught up."""

    total: UsageView
    """What all of them used."""
    groups: tuple[UsageView, ...]
    """What each group used, by its name; empty where no grouping is asked for."""
    models: dict[str, int]
    """Turns by the model that was called last in them."""
    profiles: dict[str, int]
    """Turns by their profile."""


LimitName = Literal[
    "input_tokens", "output_tokens", "requests_per_hour", "requests_per_day", "unsettled_turns"
]

LimitNumber = Annotated[int, Field(ge=0, le=MAX_INT)]


class QuotaRequest(RequestModel):
    """Sets all limits of a user; null is unlimited."""

    input_tokens: LimitNumber | None = None
    """Tokens that the user's turns may send to models in a calendar month, UTC."""
    output_tokens: LimitNumber | None = None
    """Tokens that the user's turns may receive from models in a calendar month, UTC."""
    requests_per_hour: LimitNumber | None = None
    """Turns that the user may begin in a clock hour, UTC."""
    requests_per_day: LimitNumber | None = None
    """Turns that the user may begin in a calendar day, UTC."""


class LimitUseView(ResponseModel):
    """One limit of a user, and how much of it is left."""

    name: LimitName
    """Which limit: `input_tokens`, `output_tokens`, `requests_per_hour`, `requests_per_day`, or
    `unsettled_turns`, which nobody sets: so many turns of one user may be unsettled at once.
    """
    limit: int
    """The limit."""
    used: int
    """What is used of it."""
    reserved: int
    """What turns that are not settled may still use."""
    left: int
    """What is left; a turn is allowed while it is not 0, and may use more than that."""
    resets_at: str
    """When nothing of it is used any more, RFC 3339, in whole seconds."""


class UserLimitsView(ResponseModel):
    """The limits of a user; null is unlimited."""

    user: str
    """The user's name."""
    input_tokens: int | None
    """Tokens sent to models in a calendar month, UTC."""
    output_tokens: int | None
    """Tokens received from models in a calendar month, UTC."""
    requests_per_hour: int | None
    """Turns that begin in a clock hour, UTC."""
    requests_per_day: int | None
    """Turns that begin in a calendar day, UTC."""


class MediaLimitRequest(RequestModel):
    """Sets how many bytes the media of the tenant may have together; null is unlimited."""

    limit: LimitNumber | None = None
    """Bytes of all pictures, recordings, files and large results of tools."""


class MediaLimitView(ResponseModel):
    """What the tenant may store of media, and what it has stored."""

    sequence: int
    """The sequence of the last change of it; 0 before the first."""
    limit: int | None
    """Bytes that all of it may have together; null is unlimited."""
    stored: int | None
    """Bytes that are stored, each item once; null without a limit, when nothing is counted."""
    items: int | None
    """How many items those are."""
    reserved: int
    """Bytes of items that are being stored."""
    left: int | None
    """Bytes that there is room for."""


class QuotaPage(ResponseModel):
    """The users who have a limit, and the limit of the tenant's media."""

    sequence: int
    """The sequence of the last edit of a user's limit; 0 before the first."""
    quotas: tuple[UserLimitsView, ...]
    """By name."""
    media: MediaLimitView
    """What all users of the tenant may store together."""


class QuotaView(ResponseModel):
    """The quota of a user in a month, and whether a turn is allowed now."""

    sequence: int
    """The sequence of the last edit of any limit; 0 before the first."""
    period: str
    """The month, such as `2026-11`, UTC."""
    allowed: bool
    """Whether a turn is allowed now: something is left of every limit."""
    message: str
    """Why it is not allowed; empty if it is."""
    limits: UserLimitsView
    """All limits."""
    uses: tuple[LimitUseView, ...]
    """The limits that the user has, with what is left of each."""
    input_tokens: int
    """Tokens sent by the turns that were settled since the user has a quota."""
    output_tokens: int
    """Tokens received by them."""
    unsettled_turns: int
    """Turns that are not settled yet."""
