"""Checks of the machine: directory, disk, port, clock, NATS, read models, checkpoints.

Each check returns a `CheckFinding` and changes nothing. JetStream is checked by starting a
nats-server on an empty temporary directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["good", "wary", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    verdict: Verdict
    said: str
    fix: str = ""
    """What to do about a warning or a failure."""


def good(what: str, said: str) -> Finding:
    """Return the finding of a check that passed."""
    return Finding(what, "good", said)


def wary(what: str, said: str, fix: str) -> Finding:
    """Return the finding of something that works but may stop working."""
    return Finding(what, "wary", said, fix)


def bad(what: str, said: str, fix: str) -> Finding:
    """Return the finding of something that prevents a service from starting."""
    return Finding(what, "bad", said, fix)
