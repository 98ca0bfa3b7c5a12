"""Checks of the machine: directory, disk, port, clock, NATS, read models, checkpoints.

Each check returns a `CheckFinding` and changes nothing. JetStream is checked by starting a
nats-server on an empty temporary directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckVerdict = Literal["good", "wary", "bad"]


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of one check."""

    what: str
    verdict: CheckVerdict
    said: str
    fix: str = ""
    """What to do about a warning or a failure."""


def report_good(what: str, said: str) -> CheckFinding:
    """Return the finding of a check that passed."""
    return CheckFinding(what, "good", said)


def report_warning(what: str, said: str, fix: str) -> CheckFinding:
    """Return the finding of something that works but may stop working."""
    return CheckFinding(what, "wary", said, fix)


def report_failure(what: str, said: str, fix: str) -> CheckFinding:
    """Return the finding of something that prevents a service from starting."""
    return CheckFinding(what, "bad", said, fix)
