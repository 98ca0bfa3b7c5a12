"""What a model reasoned, as a prompt sends it back: in the tool rounds, and beside earlier replies.

Only the model that wrote it is sent it, and only if it is recorded whole. Some servers refuse tool
calls without it: where there is nothing to send, they get a blank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from turnlog.events.model.manifest import BlueprintTextSource, EventTextSource
from turnlog.events.recorded_reasoning import (
    CUT_MARK,
    WITHHELD_MARK,
    is_plain_reasoning,
    parse_reasoning,
)
from turnlog.projections.session.text_refs import ReasoningRef, TextRef

OTHER_MODEL_RULE: Final = "of another model"
"""The rule of reasoning that the asked model did not write."""

MARKED_RULE: Final = "not recorded whole"
"""The rule of reasoning that was too long, or whose text a rule of the blueprint forbids."""

SIGNED_RULE: Final = "signed with tool calls that are not sent"
"""The rule of reasoning before an earlier reply with tool calls that is more than text.

A later prompt has the reply without its calls, and a provider may refuse blocks or items without
what came after them.
"""

BLANK_REASONING: Final = '{"reasoning_content":" "}'
"""What is sent in place of reasoning to a server that takes no tool calls without it.

A space, since DeepSeek's service has been seen to refuse the empty text, and litellm writes a space
in its place.
"""

BLANK_RULE: Final = "the server takes no tool calls without it"


@dataclass(frozen=True, slots=True)
class PlannedReasoning:
    """What a model reasoned before a message, or sent beside a tool call, as it is recorded."""

    source: EventTextSource | BlueprintTextSource
    text: str
    """The fields as a JSON object; empty if it is left out."""
    rule: str | None = None
    """Why it is left out, or why there is a blank."""


def plan_reasoning(ref: TextRef, text: str, *, is_same_model: bool) -> PlannedReasoning:
    """Return recorded reasoning, or why it is left out."""
    fields = parse_reasoning(text) or {}
    is_marked = CUT_MARK in fields or WITHHELD_MARK in fields
    rule = (MARKED_RULE if is_marked else None) if is_same_model else OTHER_MODEL_RULE
    source = EventTextSource(sequence=ref.sequence, field=ref.field)
    return PlannedReasoning(source, "" if rule else text, rule)


def plan_reply_reasoning(reasoned: ReasoningRef, text: str) -> PlannedReasoning:
    """Return what the same model reasoned before an earlier reply, or why it is left out."""
    ref, reply_of = reasoned.said, reasoned.reply_of
    planned = plan_reasoning(ref, text, is_same_model=True)
    if reply_of is None:
        return planned
    source = EventTextSource(sequence=ref.sequence, field=ref.field, reply_of=reply_of)
    if planned.text and not is_plain_reasoning(parse_reasoning(text) or {}):
        return PlannedReasoning(source, "", SIGNED_RULE)
    return replace(planned, source=source)


def plan_blank_reasoning() -> PlannedReasoning:
    """Return what a server is sent that takes no tool calls without reasoning."""
    return PlannedReasoning(BlueprintTextSource(text=BLANK_REASONING), BLANK_REASONING, BLANK_RULE)
