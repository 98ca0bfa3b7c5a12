"""Summaries: what is older than the last messages is summed up by a model, and can be had again."""

from __future__ import annotations

from tests.agents.workshop import Workshop, agent
from turnlog.events.call import ContextAssembled
from turnlog.events.content import Plain
from turnlog.events.memory import (
    HistorySummarised,
    SummaryBegun,
    TurnRange,
)
from turnlog.projections.blueprint.schema import Blueprint

LONG = "word " * 20
"""100 characters."""


def talker(above: int = 500, **changes: object) -> Blueprint:
    """Give a blueprint that talks, a token a character, and sums up what is older than 2 turns."""
    made = {
        "layers": {
            "rules": {"text": "Be brief.", "keep": "always"},
            "sum_up": {"text": "Sum up what was said."},
        },
        "calls": {
            "reply": {
                "messages": [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}],
                "budget": "window",
            },
            "summarise": {"messages": [{"history": "older"}, {"user": ["sum_up"]}]},
        },
        "history": {
            "recent": {
                "summary": {"above_tokens": above, "keep_messages": 4, "call": "summarise"}
            },
            "older": {"of": "selected"},
        },
        "budget": {
            "window": {
                "tokens": 2000,
                "counter": {"chars_per_token": 1},
                "ladder": [{"drop_oldest_pairs": {}}],
            }
        },
        "tools": None,
        "profiles": {"talk": {"default": True, "call": "reply"}},
    }
    return agent(**{**made, **changes})


async def talked(turns: int, kind: Blueprint | None = None) -> Workshop:
    """Have so many turns of two hundred characters each."""
    shop = await Workshop(kind=kind or talker()).opened()
    for number in range(1, turns + 1):
        await said(shop, number)
    return shop


async def said(shop: Workshop, number: int, *scripts: list[object]) -> None:
    """Have a turn; scripts of calls before the reply come first."""
    reply = [f"reply {number} {LONG}"]
    await shop.turn(*scripts, reply, text=f"turn {number} {LONG}")  # type: ignore[arg-type]


async def test_what_is_older_is_summed_up_by_a_call_of_its_own_before_the_reply() -> None:
    shop = await talked(3)
    await said(shop, 4, ["They spoke of words."])
    (begun,) = shop.events(SummaryBegun)
    assert begun.turns == (TurnRange(first=1, last=1),)
    (made,) = shop.events(HistorySummarised)
    assert (made.view, made.summary) == ("recent", Plain(text="They spoke of words."))
    assert (made.call, made.model, made.former) == ("4.1", "puppet/one", None)
    assert made.inputs == shop.events(ContextAssembled)[3].manifest.digest
    assert made.cost.micro_dollars is not None
    calls = [each.manifest.kind for each in shop.events(ContextAssembled)]
    assert calls == ["reply", "reply", "reply", "summarise", "reply"]
    assert shop.said(3) == [f"turn 1 {LONG}", f"reply 1 {LONG}", "Sum up what was said."]
    roles = [each["role"] for each in shop.house.model.requests[4].messages]
    assert roles == ["system", "system", *["user", "assistant"] * 2, "user"]
    assert shop.said(4)[1:3] == ["They spoke of words.", f"turn 2 {LONG}"]
