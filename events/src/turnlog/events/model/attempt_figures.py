"""What an attempt at a model call used, cost and took, wherever an event or a command holds it."""

from __future__ import annotations

from typing import Literal

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


class AttemptCost(EventModel):
    """Cost of one attempt."""

    micro_dollars: int | None = None
    """Millionths of a dollar; None if the usage is unknown."""
    price: Literal["exact", "normalised", "fallback", "unknown"]
    """How the model was found in the price table."""
    table: str
    """The price table and its version."""


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
