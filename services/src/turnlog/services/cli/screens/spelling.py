"""Formatting of digests, durations, money, times and quoted text, the same in all views."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, assert_never

from turnlog.events.call import Cost, Timings, Usage
from turnlog.events.content import Content, Digest, Erased, Plain, Sealed
from turnlog.events.memory import TurnRange

UNKNOWN: Final = "unknown"
"""Shown for a missing figure; a zero or a dash would be misleading."""
_SECOND: Final = 1_000
_LOW: Final = (*range(9), *range(11, 32))
"""Control characters with a Unicode picture; tab and line feed are left as they are."""
_VISIBLE: Final = {code: chr(0x2400 + code) for code in _LOW} | dict.fromkeys(
    range(127, 160), "\ufffd"
)


def short(digest: Digest) -> str:
    """Format a digest with its first twelve digits."""
    algorithm, _, digits = digest.partition(":")
    return f"{algorithm}:{digits[:12]}"


def clock(time: str) -> str:
    """Format the local time of day of an RFC 3339 time."""
    return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S")


def day_and_clock(time: str) -> str:
    """Format the local date and time of an RFC 3339 time."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")


def seconds(milliseconds: int) -> str:
    """Format a duration."""
    return f"{milliseconds / 1_000:.1f} s" if milliseconds >= _SECOND else f"{milliseconds} ms"


def money(micro_dollars: int | None) -> str:
    """Format an amount of dollars; small amounts keep up to six decimals."""
    if micro_dollars is None:
        return UNKNOWN
    dollars = micro_dollars / 1_000_000
    return f"${dollars:.2f}" if micro_dollars % 10_000 == 0 else f"${dollars:.6f}".rstrip("0")


def counted(number: int, thing: str) -> str:
    """Format a number of things: `1 turn`, `2,000 turns`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def harmless(text: str) -> str:
    """Replace control characters by visible ones, so that a text cannot control the terminal."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """Return a text on one line, with control characters made visible."""
    return harmless(" ".join(text.split()))


def spelt_turns(turns: Sequence[TurnRange]) -> str:
    """Format turn ranges: `turn 3`, `turns 1 to 4 and 6`."""
    ends = [dict.fromkeys((run.first, run.last)) for run in turns]
    runs = [" to ".join(map(str, each)) for each in ends]
    several = "s" if len(runs) > 1 or any(len(each) > 1 for each in ends) else ""
    return f"turn{several} {' and '.join(filter(None, (', '.join(runs[:-1]), *runs[-1:])))}"


def quoted(content: Content | None) -> str:
    """Quote a content, or say that it is sealed or erased."""
    match content:
        case None:
            return ""
        case Plain(text=text):
            return f"“{one_line(text)}”"
        case Sealed(characters=characters):
            return f"(sealed, {counted(characters, 'character')})"
        case Erased(characters=characters):
            return f"(erased, {counted(characters, 'character')})"
        case _ as never:
            assert_never(never)


def spent(usage: Usage, cost: Cost, timings: Timings | None) -> str:
    """Format the duration, tokens and cost of an attempt."""
    took = [f"{seconds(timings.total)}"] if timings else []
    return " · ".join([*took, tokens(usage), f"cost {money(cost.micro_dollars)}"])


def tokens(usage: Usage) -> str:
    """Format tokens in and out, marked if they are an estimate."""
    if usage.known == "unknown":
        return "tokens unknown"
    sent, received = (UNKNOWN if n is None else f"{n:,}" for n in _both(usage))
    about = "about " if usage.known == "estimated" else ""
    return f"{about}{sent} → {received} tokens"


def _both(usage: Usage) -> tuple[int | None, int | None]:
    return usage.input_tokens, usage.output_tokens
