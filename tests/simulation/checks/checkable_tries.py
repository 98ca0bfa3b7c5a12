"""Selects the tries of commands that a log can be compared with.

Excluding a turn that is excluded already is accepted without an event, so its key is recorded
nowhere and a later try is decided again (docs/decisions/command-keys-in-the-envelope.md). A try
without an answer may also arrive after a later one was accepted without an effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tests.faults.clients.client_history import CommandTry
from turnlog.events.envelope import RecordedEvent

EFFECTIVE_COMMANDS: Final = frozenset({"open", "submit", "redact", "cancel", "choice", "signal"})
"""Commands that are refused or have an effect."""


def filter_checkable(
    tries: Sequence[CommandTry], events: Iterable[RecordedEvent]
) -> list[CommandTry]:
    """Return the tries whose answers say what must be among all these events."""
    first: dict[str | None, int] = {}
    for event in events:
        first.setdefault(event.envelope.commandkey, event.sequence)
    # When each command was first told that it is recorded.
    told: dict[str, float] = {}
    for each in tries:
        if each.accepted and each.key in first and each.body["sequence"] >= first[each.key]:
            told[each.key] = min(each.told_at, told.get(each.key, math.inf))
    known = [
        each
        for each in tries
        if has_effect(each)
        or (each.key in first and not _had_nothing_to_do(each, first[each.key], told))
    ]
    unsure = {each.key for each in known if not is_answered(each)}
    return [
        each
        for each in known
        if has_effect(each) or not is_answered(each) or each.key not in unsure
    ]


def _had_nothing_to_do(each: CommandTry, recorded: int, told: Mapping[str, float]) -> bool:
    """Tell whether a try was accepted before its command was recorded, by sequence and by time."""
    return (
        each.accepted
        and each.body["sequence"] < recorded
        and each.told_at < told.get(each.key, -math.inf)
    )


def has_effect(each: CommandTry) -> bool:
    """Tell whether a try was accepted, or may have been, and must then have left an event."""
    return not each.refused and str(each.body.get("what", each.what)) in EFFECTIVE_COMMANDS


def is_answered(each: CommandTry) -> bool:
    """Tell whether the client knows the outcome."""
    return each.accepted or each.refused
