"""Which tries of commands a log can be held to, where some commands may have nothing left to do.

Leaving out a turn that is left out already is accepted and recorded nowhere, and so is its key: a
later try of it is decided anew (docs/decisions/command-keys-in-the-envelope.md). And a try that
nobody answered may arrive after a later one was told that it came to nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from tests.faults.history import Try

NEVER_EMPTY: Final = frozenset({"open", "submit", "redact", "cancel", "choice", "signal"})
"""Commands that are refused or have an effect."""


def judgeable(tries: Sequence[Try], recorded: Collection[str | None]) -> list[Try]:
    """Give the tries whose answers say what must be on the log; `recorded` are its keys."""
    known = [each for each in tries if each.key in recorded or has_effect(each)]
    unsure = {each.key for each in known if not answered(each)}
    return [
        each for each in known if has_effect(each) or not answered(each) or each.key not in unsure
    ]


def has_effect(each: Try) -> bool:
    """Tell whether a try was accepted, or may have been, and then has left an event."""
    return not each.refused and str(each.body.get("what", each.what)) in NEVER_EMPTY


def answered(each: Try) -> bool:
    """Tell whether the client knows what came of it."""
    return each.accepted or each.refused
