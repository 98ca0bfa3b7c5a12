"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["good", "wary", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    verdict: Verdict
    said: str
    fix: str = ""
    """What to do, where it is not good."""


def good(what: str, said: str) -> Finding:
    """It is as it should be."""
    return Finding(what, "good", said)


def wary(what: str, said: str, fix: str) -> Finding:
    """It works, and may not for long."""
    return Finding(what, "wary", said, fix)


def bad(what: str, said: str, fix: str) -> Finding:
    """Nothing will start like this."""
    return Finding(what, "bad", said, fix)
