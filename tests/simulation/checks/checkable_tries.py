"""Selects the tries of commands that a log can be compared with.

Excluding a turn that is excluded already is accepted without an event, so its key is recorded
nowhere and a later try is decided again (docs/decisions/command-keys-in-the-envelope.md). A try
without an answer may also arrive after a later one was accepted without an effect.
"""

from __future__ import annotations

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
    recorded: dict[str | None, int] = {}
    for each in events:
        recorded.setdefault(each.envelope.commandkey, each.sequence)
    known = [
        each
        for each in tries
        if has_effect(each) or (each.key in recorded and not _had_nothing_to_do(each, recorded))
    ]
    unsure = {each.key for each in known if not is_answered(each)}
    return [
        each
        for each in known
        if has_effect(each) or not is_answered(each) or each.key not in unsure
    ]


def _had_nothing_to_do(each: CommandTry, recorded: Mapping[str | None, int]) -> bool:
    """Tell whether a try was accepted with the state before its command was recorded."""
    return each.accepted and int(each.body["sequence"]) < recorded[each.key]


def has_effect(each: CommandTry) -> bool:
    """Tell whether a try was accepted, or may have been, and must then have left an event."""
    return not each.refused and str(each.body.get("what", each.what)) in EFFECTIVE_COMMANDS


def is_answered(each: CommandTry) -> bool:
    """Tell whether the client knows the outcome."""
    return each.accepted or each.refused
