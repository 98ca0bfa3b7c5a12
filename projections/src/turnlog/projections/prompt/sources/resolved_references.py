"""What a resolver returned, as lines of a prompt under a heading.

The text is computed from the resolution event, when the prompt is assembled and when it is rebuilt,
so that the record holds it once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from turnlog.events.content import Content, PlainText
from turnlog.events.model.turn_events import TurnResolved
from turnlog.projections.prompt.sources.session_material import format_value
from turnlog.projections.session.open_turn import TurnResolution


def format_resolved_text(
    heading: str, lines: Mapping[str, str], resolution: TurnResolution | TurnResolved, results: str
) -> str:
    """Return the lines of a layer; empty if every value is empty."""
    values: dict[str, JsonValue] = {
        "intent": resolution.intent,
        "entity": resolution.entity,
        "identifiers": resolution.identifiers,
        "results": json.loads(results),
    }
    formatted = [(label, format_value(values.get(what) or "")) for label, what in lines.items()]
    rows = [f"{label}: {value}" for label, value in formatted if value]
    return "\n".join(filter(None, (heading, *rows))) if rows else ""


def read_results(results: Content) -> str:
    """Return the results as JSON, or `null` if the content cannot be opened."""
    return results.text if isinstance(results, PlainText) else "null"
