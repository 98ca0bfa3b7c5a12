"""Names of fields, values and parameters that a caller sent, as errors repeat them.

An error repeats no value of a request. A misspelt name helps whoever wrote it, and what a person
typed may stand where a name is expected. So a name is repeated only if it looks like one.
"""

from __future__ import annotations

from typing import Final

MAX_REPEATED_CHARACTERS: Final = 64

MAX_REPEATED_DIGITS: Final = 4
"""Fewer than any card, account or telephone number has."""

_NAME_PUNCTUATION: Final = frozenset("_-.:/[]")


def is_repeatable_name(name: str) -> bool:
    """Return whether a name is short, of letters and few digits, and no e-mail address."""
    return (
        0 < len(name) <= MAX_REPEATED_CHARACTERS
        and all(each.isalnum() or each in _NAME_PUNCTUATION for each in name)
        and sum(each.isnumeric() for each in name) <= MAX_REPEATED_DIGITS
    )


def format_sent_name(name: str) -> str:
    """Return a name for a path, or the length of one that an error does not repeat."""
    return name if is_repeatable_name(name) else f"({len(name)} characters)"


def quote_sent_name(name: str) -> str:
    """Do the same for a sentence."""
    return repr(name) if is_repeatable_name(name) else format_sent_name(name)
