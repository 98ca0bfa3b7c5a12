"""Formatting of digests, durations, money, times and quoted text, the same in all views."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, assert_never

from turnlog.contract.usage_payloads import CostSum
from turnlog.events.content import Content, Digest, ErasedText, PlainText, SealedText
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.memory_events import TurnRange
from turnlog.projections.session_views.cost_totals import CostTotal

UNKNOWN_TEXT: Final = "unknown"
"""Shown for a missing figure; a zero or a dash would be misleading."""

_MILLISECONDS: Final = 1_000

_LOW_CONTROLS: Final = (*range(9), *range(11, 32))
"""Control characters with a Unicode picture; tab and line feed are left as they are."""

_VISIBLE_CONTROLS: Final = {code: chr(0x2400 + code) for code in _LOW_CONTROLS} | dict.fromkeys(
    range(127, 160), "\ufffd"
)


def format_digest(digest: Digest) -> str:
    """Format a digest with its first twelve digits.

    An event of a withheld text has the word `withheld` in place of a digest; it stays as it is.
    """
    algorithm, colon, digits = digest.partition(":")
    return f"{algorithm}{colon}{digits[:12]}"


def format_time(time: str) -> str:
    """Format the local time of day of an RFC 3339 time."""
    return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S")


def format_date_time(time: str) -> str:
    """Format the local date and time of an RFC 3339 time."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")


def format_duration(milliseconds: int) -> str:
    """Format a duration in milliseconds or, from one second on, in tenths of a second."""
    tenths = (milliseconds + 50) // 100
    return (
        f"{tenths // 10}.{tenths % 10} s" if milliseconds >= _MILLISECONDS else f"{milliseconds} ms"
    )


def format_money(micro_dollars: int | None, *, guessed: bool = False) -> str:
    """Format dollars with up to six decimals, and say if they are a guess; empty if unknown."""
    if micro_dollars is None:
        return ""
    dollars = micro_dollars / 1_000_000
    amount = f"${dollars:.2f}" if micro_dollars % 10_000 == 0 else f"${dollars:.6f}".rstrip("0")
    return f"{amount} (guessed)" if guessed else amount


def format_cost(cost: CostSum | CostTotal) -> str:
    """Format what is known of a cost, `≥` if that is not all of it; empty if nothing is known."""
    at_least = "≥ " if cost.unpriced_calls and cost.micro_dollars is not None else ""
    return f"{at_least}{format_money(cost.micro_dollars, guessed=cost.guessed)}"


def format_cost_sum(cost: CostSum | CostTotal) -> str:
    """Format the cost of several calls, and how many of them have no price."""
    unpriced = cost.unpriced_calls
    lacking = f"{format_count(unpriced, 'call')} without a price" if unpriced else ""
    return " · ".join(filter(None, (format_cost(cost), lacking)))


def format_count(number: int, thing: str) -> str:
    """Format a number of things: `1 turn`, `2,000 turns`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def escape_controls(text: str) -> str:
    """Replace control characters by visible ones, so that a text cannot control the terminal."""
    return text.translate(_VISIBLE_CONTROLS)


def format_one_line(text: str) -> str:
    """Return a text on one line, with control characters made visible."""
    return escape_controls(" ".join(text.split()))


def format_excerpt(text: str, most_characters: int | None) -> str:
    """Return a text, or the beginning of a longer one on one line, to the end of a word."""
    if most_characters is None or len(text) <= most_characters:
        return text
    beginning = " ".join(text.split())[:most_characters].rpartition(" ")[0]
    return f"{beginning} … ({format_count(len(text), 'character')})"


def format_turn_ranges(turns: Sequence[TurnRange]) -> str:
    """Format turn ranges: `turn 3`, `turns 1 to 4 and 6`."""
    ends = [dict.fromkeys((run.first, run.last)) for run in turns]
    runs = [" to ".join(map(str, each)) for each in ends]
    several = "s" if len(runs) > 1 or any(len(each) > 1 for each in ends) else ""
    return f"turn{several} {' and '.join(filter(None, (', '.join(runs[:-1]), *runs[-1:])))}"


def format_content(content: Content | None) -> str:
    """Format a content as a quote, or as a note that it is sealed or erased."""
    match content:
        case None:
            return ""
        case PlainText(text=text):
            return f"“{format_one_line(text)}”"
        case SealedText(characters=characters):
            return f"(sealed, {format_count(characters, 'character')})"
        case ErasedText(characters=characters):
            return f"(erased, {format_count(characters, 'character')})"
        case _ as never:
            assert_never(never)


def format_usage(usage: TokenUsage) -> str:
    """Format tokens in and out, marked if they are an estimate."""
    if usage.known == "unknown":
        return "tokens unknown"
    sent, received = (UNKNOWN_TEXT if n is None else f"{n:,}" for n in _list_token_counts(usage))
    about = "about " if usage.known == "estimated" else ""
    return f"{about}{sent} → {received} tokens"


def _list_token_counts(usage: TokenUsage) -> tuple[int | None, int | None]:
    return usage.input_tokens, usage.output_tokens
