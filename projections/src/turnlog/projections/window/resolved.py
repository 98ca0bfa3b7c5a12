"""What a resolver said, as a prompt tells of it: a line a value, under a heading.

The text is made from the event that holds it, now as when it is read back, so that it stands in
the record once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from turnlog.events.content import Content, Plain
from turnlog.events.reference import TurnResolved
from turnlog.projections.session.state import Resolved
from turnlog.projections.window.material import listed


def resolved_text(
    heading: str, lines: Mapping[str, str], said: Resolved | TurnResolved, results: str
) -> str:
    """Give the lines of a layer; nothing where every value is empty."""
    values: dict[str, JsonValue] = {
        "intent": said.intent,
        "entity": said.entity,
        "identifiers": said.identifiers,
        "results": json.loads(results),
    }
    spelled = [(label, listed(values.get(what) or "")) for label, what in lines.items()]
    told = [f"{label}: {value}" for label, value in spelled if value]
    return "\n".join(filter(None, (heading, *told))) if told else ""


def readable_results(results: Content) -> str:
    """Give what was found, as JSON; nothing found, where it cannot be opened."""
    return results.text if isinstance(results, Plain) else "null"
