"""What an attempt at a model call used, cost and took, wherever an event or a command holds it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from turnlog.events.event_model import EventModel


class TokenUsage(EventModel):
    """Token usage of one attempt, and how reliable the figures are."""

    known: Literal["reported", "estimated", "unknown"]
    """Reported by the provider, estimated by our counter, or unknown; unknown is not zero."""
    input_tokens: int | None = None
    """Tokens sent, including cached ones."""
    output_tokens: int | None = None
    """Tokens received."""
    cached_tokens: int = 0
    """Tokens of the input that the provider had cached."""
    cache_write_tokens: int = 0
    """Tokens of the input that the provider put into its cache, where that has a price."""
    reasoning_tokens: int | None = None
    """Tokens of the output that went into reasoning, as litellm reports them; None if it reports
    none. It estimates them for a provider that sends reasoning without a count.
    """


MAX_CACHE_LIFETIME: Final = 366 * 24 * 3600
"""Seconds of a leap year; the end of a longer time could not be computed for every event."""


class CacheTerms(EventModel):
    """What a provider caches of a prompt, and what reading it saves."""

    minimum: int
    """Tokens that a prompt has at least of which anything is cached."""
    step: int | None = None
    """Tokens above these are cached in steps of this many; None where prompts are cached up to the
    marks in them.
    """
    lifetime: Annotated[int, Field(ge=1, le=MAX_CACHE_LIFETIME)] | None = None
    """Seconds after which a prompt may be cached no longer; None if the provider names no time."""
    spared: int | None = None
    """Millionths of a dollar that a million tokens cost less where they are read from the cache;
    None if the price is not known.
    """


class AttemptCost(EventModel):
    """Cost of one attempt."""

    micro_dollars: int | None = None
    """Millionths of a dollar; None if the usage is unknown."""
    price: Literal["exact", "normalised", "fallback", "unknown"]
    """How the model was found in the price table."""
    table: str
    """The price table and its version."""
    cache: CacheTerms | None = None
    """The provider's terms for caching the prompt; None if none are known."""


class AttemptTimings(EventModel):
    """Durations in milliseconds, measured with a monotonic clock."""

    first_token: int | None = None
    """From request to first text."""
    total: int
    """From request to end."""


class SafetyRating(EventModel):
    """How a provider rated a text that one of its filters cut, in the provider's words."""

    category: str
    """What was looked for: `HARM_CATEGORY_HARASSMENT`."""
    probability: str | None = None
    """How likely it is found: `HIGH`."""
    severity: str | None = None
    """How severe it is; None if the provider does not say."""
    blocked: bool = False
    """Whether this rating cut the text."""


class AttemptUsage(EventModel):
    """What one attempt used, cost and took, whether its answer is used or not."""

    usage: TokenUsage
    """Token usage."""
    cost: AttemptCost
    """Cost."""
    timings: AttemptTimings | None = None
    """Durations; None if no process measured them."""
    response_id: str | None = None
    """The provider's id of the finished answer; None if it gave none."""
    ratings: tuple[SafetyRating, ...] = ()
    """The provider's ratings of an answer that its filter cut; empty if it gave none."""
    finish_sent: str | None = None
    """Why the model stopped in the provider's words, where that is none that we know."""


def build_figures_sentence(path: str) -> str:
    """Return the end of an event's sentence: what an attempt took and cost, in fields at `path`."""
    figures = (
        "timings.total|duration",
        "usage|usage",
        "usage.reasoning_tokens|count:reasoning token",
    )
    more = (
        "response {%sresponse_id}",
        "{%sratings|count:safety rating}",
        "ended with {%sfinish_sent}",
    )
    return "".join(
        (
            *(f"[ · {{{path}{figure}}}]" for figure in figures),
            f"[ · cost {{{path}cost|cost}}]",
            *(f"[ · {each % path}]" for each in more),
        )
    )
