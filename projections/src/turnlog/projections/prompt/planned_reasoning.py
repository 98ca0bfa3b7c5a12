"""What a model reasoned, as a prompt sends it back: in the tool rounds, and beside earlier replies.

Only the model that wrote it is sent it, and only if it is recorded whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnlog.events.model.manifest import EventTextSource
from turnlog.events.recorded_reasoning import CUT_MARK, WITHHELD_MARK, parse_reasoning
from turnlog.projections.session.text_refs import TextRef

OTHER_MODEL_RULE: Final = "of another model"
"""The rule of reasoning that the asked model did not write."""

MARKED_RULE: Final = "not recorded whole"
"""The rule of reasoning that was too long, or whose text a rule of the blueprint forbids."""


@dataclass(frozen=True, slots=True)
class PlannedReasoning:
    """What a model reasoned before a message, or sent beside a tool call, as it is recorded."""

    source: EventTextSource
    text: str
    """The fields as a JSON object; empty if it is left out."""
    rule: str | None = None
    """Why it is left out."""


def plan_reasoning(ref: TextRef, text: str, *, is_same_model: bool) -> PlannedReasoning:
    """Return recorded reasoning, or why it is left out."""
    fields = parse_reasoning(text) or {}
    is_marked = CUT_MARK in fields or WITHHELD_MARK in fields
    rule = (MARKED_RULE if is_marked else None) if is_same_model else OTHER_MODEL_RULE
    source = EventTextSource(sequence=ref.sequence, field=ref.field)
    return PlannedReasoning(source, "" if rule else text, rule)
