"""Values of events as the texts of prompts have them.

A bundle's `verify.py` has this module in it, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from turnlog.services.bundle.check_lines import compute_digest


def get_text(content: object) -> str | None:
    """Return a text that is recorded as it is, or in the field `text`; None without one."""
    if isinstance(content, str):
        return content
    return cast("dict[str, Any]", content).get("text") if isinstance(content, dict) else None


def format_value(value: object) -> str:
    """Format a value as prompts have it: a text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def format_resolution(resolution: Mapping[str, Any], lines: Mapping[str, str], heading: str) -> str:
    """Format a resolver's answer, one line for each value."""
    found = json.loads(get_text(resolution["results"]) or "null")
    values = {**resolution, "identifiers": resolution.get("identifiers", {}), "results": found}
    formatted = ((label, format_list(values.get(what) or "")) for label, what in lines.items())
    rows = [f"{label}: {value}" for label, value in formatted if value]
    return "\n".join(filter(None, (heading, *rows))) if rows else ""


def format_list(value: object) -> str:
    """Format a list by its values that are not empty, and anything else as one value."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(format_list, cast("Sequence[Any]", value))))
    return format_value(value)


def collect_text_digests(
    events: Iterable[Mapping[str, Any]], turn: int, types: Collection[str]
) -> set[str]:
    """Return the digests of the texts in a turn's events of these types."""
    digests = set[str]()
    for event in events:
        data = event["data"]
        if event["type"] in types and data["turn"] == turn:
            text = get_text(data.get("text") or data.get("replacement"))
            if text is not None:
                digests.add(compute_digest(text.encode()))
    return digests
