"""Conversations that repeat themselves, and a blueprint whose history view may condense them."""

from __future__ import annotations

from typing import Any

from tests.agent_programs.agent_harness import AgentHarness
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import Manifest
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint

LISTED = "\n".join(f"- product {n}, well made and in stock" for n in range(45))

PRODUCTS = [
    ("Show products under $50", f"I found 45 products under $50:\n{LISTED}"),
    ("Show products under $30", f"I found 28 products under $30:\n{LISTED[:900]}"),
    (
        "Show products under $20",
        "Just 12 products:\n" + "\n".join(f"{n}. a thing" for n in range(12)),
    ),
]

TOLD = (
    "In turn: I found 45 products under $50 …; I found 28 products under $30 …; Just 12 products …"
)

CAN = (
    "- look up orders, invoices and what became of them\n"
    "- send something back and say when the money comes\n"
    "- explain how long a delivery takes to where you live\n"
    "- change what we know of you, and forget it"
)

TALK = [
    ("Hi, what can you do?", f"Hello! I can help you with a few things. I can\n{CAN}"),
    ("Where is my order 4711?", "It left our house on Monday and is with the carrier. " * 3),
    ("And when will it be here?", "They say Thursday, in the afternoon. " * 3),
    ("Can I change the address?", "Not any more, it is on its way; a neighbour may take it. " * 3),
    ("What else can you do for me?", f"Gladly. I can also\n{CAN}\n\nWhat shall it be?"),
    (
        "How do I send it back?",
        "Print the label, stick it on the box, and bring it to a shop. " * 3,
    ),
    ("When is the money back?", "Within a week of the box reaching us, on the same card. " * 3),
]


def build_chat_blueprint(**words: Any) -> Blueprint:  # noqa: ANN401 - words of a view
    """Return a blueprint whose history view has these options."""
    budget = words.pop("budget", None)
    call: dict[str, Any] = {"messages": [{"history": "told"}, {"user": ["input"]}]}
    return Blueprint.model_validate(
        {
            "blueprint": "clerk",
            "version": 1,
            "layers": {},
            "calls": {"reply": call | ({"budget": "window"} if budget else {})},
            "history": {"told": words},
            "budget": {"window": budget} if budget else {},
            "profiles": {"chat": {"default": True, "call": "reply"}},
        }
    )


async def run_conversation(talk: list[tuple[str, str]], kind: Blueprint) -> AgentHarness:
    shop = await AgentHarness(kind=kind).open_session()
    for question, answer in talk:
        await shop.run_turn([answer], text=question)
    return shop


def get_latest_manifest(shop: AgentHarness) -> Manifest:
    manifest = shop.list_events(ContextAssembled)[-1].manifest
    assert isinstance(manifest, Manifest)
    return manifest
