"""A prompt assembled by a slow and obvious reading of the history, without the assembler."""

from __future__ import annotations

import json

from tests.support.generators.blueprint_strategies import BlueprintVariant
from turnlog.events.content import Content, PlainText
from turnlog.projections.blueprint.schema.budget_specs import get_max_characters_per_token
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.session_views.session_history import HistoryTurn, build_history
from turnlog.projections.testing import SessionScenario


def assemble_reference_prompt(
    variant: BlueprintVariant, session: SessionScenario
) -> list[ChatMessage] | None:
    """Give the messages of the next call; none where they cannot fit."""
    call = variant.blueprint.calls["reply"]
    slots = [slot.model_dump() for slot in call.messages]
    turns = list_usable_turns(session) if {"history": "recent"} in slots else []
    view = variant.blueprint.history["recent"]
    if view.max_turns is not None:
        turns = turns[-view.max_turns :] if view.max_turns else []
    fixed = sum(count_tokens(variant, join_slot_layers(variant, session, slot)) for slot in slots)
    budget = variant.budget
    ladder = variant.blueprint.budget["window"].ladder
    while budget is not None and fixed + count_turn_tokens(variant, turns) > budget:
        if not (ladder and turns):
            return None
        turns = turns[1:]
    return [message for slot in slots for message in render_slot(variant, session, slot, turns)]


def list_usable_turns(session: SessionScenario) -> list[HistoryTurn]:
    """Give the turns a window may show."""
    kept = [turn for turn in build_history(session.events) if is_kept(turn)]
    return [turn for turn in kept if not turn.excluded and build_turn_messages(turn)]


def is_kept(turn: HistoryTurn) -> bool:
    """Whether a turn has a reply: whole, or cut and kept; a cut one may be withheld since."""
    return turn.status == "completed" or turn.is_kept


def build_turn_messages(turn: HistoryTurn) -> list[ChatMessage]:
    """Give what a turn says in a window."""
    question = turn.text.text if isinstance(turn.text, PlainText) else ""
    reply = _get_text(turn.reply) if turn.reply else _get_text(turn.cut_reply)
    messages = (ChatMessage(turn.role, question), ChatMessage("assistant", reply))
    return [each for each in messages if each.content]


def _get_text(content: Content | None) -> str:
    return content.text if isinstance(content, PlainText) else ""


def count_tokens(variant: BlueprintVariant, text: str) -> int:
    """Count a text, rounding up."""
    each = (
        get_max_characters_per_token(variant.blueprint.budget["window"].counter)
        if variant.budget
        else 4
    )
    return (len(text) + each - 1) // each


def count_turn_tokens(variant: BlueprintVariant, turns: list[HistoryTurn]) -> int:
    """Count what these turns say."""
    return sum(
        count_tokens(variant, m.content) for turn in turns for m in build_turn_messages(turn)
    )


def render_slot(
    variant: BlueprintVariant,
    session: SessionScenario,
    slot: dict[str, list[str]],
    turns: list[HistoryTurn],
) -> list[ChatMessage]:
    """Return the messages of a slot."""
    if "history" in slot:
        return [message for turn in turns for message in build_turn_messages(turn)]
    content = join_slot_layers(variant, session, slot)
    return [ChatMessage("system" if "system" in slot else "user", content)] if content else []


def join_slot_layers(
    variant: BlueprintVariant, session: SessionScenario, slot: dict[str, list[str]]
) -> str:
    """Give the layers of a slot as they stand in one message."""
    return "\n\n".join(text for text in render_slot_layers(variant, session, slot) if text)


def render_slot_layers(
    variant: BlueprintVariant, session: SessionScenario, slot: dict[str, list[str]]
) -> list[str]:
    """Give the texts of a slot's layers."""
    names = [*slot.get("system", []), *slot.get("user", [])]
    return [render_layer_text(variant, session, name) for name in names]


def render_layer_text(variant: BlueprintVariant, session: SessionScenario, name: str) -> str:
    """Give the text of a layer, empty when it has nothing to say."""
    turns, attributes = build_history(session.events), variant.attributes
    match name:
        case "input":
            open_text = next((turn.text for turn in turns if turn.status == "open"), None)
            return open_text.text if isinstance(open_text, PlainText) else ""
        case "language":
            return f"Answer in {attributes.get('language', '')}."
        case "welcome":
            return "" if any(turn.status == "completed" for turn in turns) else "Greet them."
        case "instructions":
            return str(attributes.get("instructions", ""))
        case "player":
            return json.dumps(attributes["player"]) if "player" in attributes else ""
        case _:
            return variant.files.get(name, "")
