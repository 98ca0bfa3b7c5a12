"""How small things are spelt everywhere: digests, durations, money, times, quoted text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, assert_never

from turnlog.events.call import Cost, Timings, Usage
from turnlog.events.content import Content, Digest, Erased, Plain, Sealed
from turnlog.events.memory import TurnRange

UNKNOWN: Final = "unknown"
"""Never zero, never a dash: that nobody knows is worth a word."""
_SECOND: Final = 1_000
_LOW: Final = (*range(9), *range(11, 32))
"""Control characters that have a picture of their own; tab and line break steer nothing."""
_VISIBLE: Final = {code: chr(0x2400 + code) for code in _LOW} | dict.fromkeys(
    range(127, 160), "\ufffd"
)


def short(digest: Digest) -> str:
    """Spell a digest by its first twelve digits."""
    algorithm, _, digits = digest.partition(":")
    return f"{algorithm}:{digits[:12]}"


def clock(time: str) -> str:
    """Spell the time of day of an RFC 3339 time, as it is here."""
    return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S")


def day_and_clock(time: str) -> str:
    """Spell day and time of an RFC 3339 time, as it is here."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")


def seconds(milliseconds: int) -> str:
    """Spell a duration."""
    return f"{milliseconds / 1_000:.1f} s" if milliseconds >= _SECOND else f"{milliseconds} ms"


def money(micro_dollars: int | None) -> str:
    """Spell an amount; small ones keep the digits that make them more than nothing."""
    if micro_dollars is None:
        return UNKNOWN
    dollars = micro_dollars / 1_000_000
    return f"${dollars:.2f}" if micro_dollars % 10_000 == 0 else f"${dollars:.6f}".rstrip("0")


def counted(number: int, thing: str) -> str:
    """Spell a number of things: `1 turn`, `2,000 turns`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def harmless(text: str) -> str:
    """Make control characters visible: what was said may not steer the terminal it is shown on."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """Bring a text onto one line."""
    return harmless(" ".join(text.split()))


def spelt_turns(turns: Sequence[TurnRange]) -> str:
    """Name turns: `turn 3`, `turns 1 to 4 and 6`."""
    ends = [dict.fromkeys((run.first, run.last)) for run in turns]
    runs = [" to ".join(map(str, each)) for each in ends]
    several = "s" if len(runs) > 1 or any(len(each) > 1 for each in ends) else ""
    return f"turn{several} {' and '.join(filter(None, (', '.join(runs[:-1]), *runs[-1:])))}"


def quoted(content: Content | None) -> str:
    """Quote what was said, or say why it cannot be."""
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
    """Spell what an attempt took."""
    took = [f"{seconds(timings.total)}"] if timings else []
    return " · ".join([*took, tokens(usage), f"cost {money(cost.micro_dollars)}"])


def tokens(usage: Usage) -> str:
    """Spell tokens in and out, and how far they can be trusted."""
    if usage.known == "unknown":
        return "tokens unknown"
    sent, received = (UNKNOWN if n is None else f"{n:,}" for n in _both(usage))
    about = "about " if usage.known == "estimated" else ""
    return f"{about}{sent} → {received} tokens"


def _both(usage: Usage) -> tuple[int | None, int | None]:
    return usage.input_tokens, usage.output_tokens
