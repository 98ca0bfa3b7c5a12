"""A prompt assembled by a slow and obvious reading of the history, without the assembler."""

from __future__ import annotations

import json

from tests.parts.blueprint_strategies import Variant
from turnlog.events.content import Plain
from turnlog.projections.blueprint.budget import widest
from turnlog.projections.history import Turn, history
from turnlog.projections.testing import Given
from turnlog.projections.window.request import ChatMessage


def plain_window(variant: Variant, session: Given) -> list[ChatMessage] | None:
    """Return the messages of the next call, or None where they cannot fit."""
    call = variant.blueprint.calls["reply"]
    slots = [slot.model_dump() for slot in call.messages]
    turns = usable(session) if {"history": "recent"} in slots else []
    view = variant.blueprint.history["recent"]
    if view.max_turns is not None:
        turns = turns[-view.max_turns :] if view.max_turns else []
    fixed = sum(tokens(variant, joined(variant, session, slot)) for slot in slots)
    budget = variant.budget
    ladder = variant.blueprint.budget["window"].ladder
    while budget is not None and fixed + said(variant, turns) > budget:
        if not (ladder and turns):
            return None
        turns = turns[1:]
    return [message for slot in slots for message in rendered(variant, session, slot, turns)]


def usable(session: Given) -> list[Turn]:
    """List the turns a prompt may include."""
    completed = [turn for turn in history(session.events) if turn.status == "completed"]
    return [turn for turn in completed if not turn.excluded and messages_of(turn)]


def messages_of(turn: Turn) -> list[ChatMessage]:
    """Return the messages of a turn."""
    said = (("user", turn.text), ("assistant", turn.reply))
    spoken = [(role, text.text) for role, text in said if isinstance(text, Plain)]
    return [
        ChatMessage("user" if role == "user" else "assistant", text)
        for role, text in spoken
        if text
    ]


def tokens(variant: Variant, text: str) -> int:
    """Count the tokens of a text, rounding up."""
    each = widest(variant.blueprint.budget["window"].counter) if variant.budget else 4
    return (len(text) + each - 1) // each


def said(variant: Variant, turns: list[Turn]) -> int:
    """Count the tokens of these turns."""
    return sum(tokens(variant, m.content) for turn in turns for m in messages_of(turn))


def rendered(
    variant: Variant, session: Given, slot: dict[str, list[str]], turns: list[Turn]
) -> list[ChatMessage]:
    """Return the messages of a slot."""
    if "history" in slot:
        return [message for turn in turns for message in messages_of(turn)]
    content = joined(variant, session, slot)
    return [ChatMessage("system" if "system" in slot else "user", content)] if content else []


def joined(variant: Variant, session: Given, slot: dict[str, list[str]]) -> str:
    """Return the layers of a slot joined into one message."""
    return "\n\n".join(text for text in texts(variant, session, slot) if text)


def texts(variant: Variant, session: Given, slot: dict[str, list[str]]) -> list[str]:
    """Return the texts of a slot's layers."""
    names = [*slot.get("system", []), *slot.get("user", [])]
    return [text(variant, session, name) for name in names]


def text(variant: Variant, session: Given, name: str) -> str:
    """Return the text of a layer, empty when it has none."""
    turns, given = history(session.events), variant.attributes
    match name:
        case "input":
            asked = next((turn.text for turn in turns if turn.status == "open"), None)
            return asked.text if isinstance(asked, Plain) else ""
        case "language":
            return f"Answer in {given.get('language', '')}."
        case "welcome":
            return "" if any(turn.status == "completed" for turn in turns) else "Greet them."
        case "instructions":
            return str(given.get("instructions", ""))
        case "player":
            return json.dumps(given["player"]) if "player" in given else ""
        case _:
            return variant.files.get(name, "")
