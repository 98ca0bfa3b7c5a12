"""Summaries: a model summarises the messages before the last ones, and a summary can be undone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agents.workshop import Workshop, agent
from tests.parts.house import BY, TENANT
from tests.parts.puppet import Line
from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import AttemptStarted, CallCompleted, ContextAssembled
from turnlog.events.model.memory_events import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
    TurnRange,
)
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.session.commands import (
    ExcludeTurn,
    PurgeMemory,
    RedactReply,
    RestoreTurn,
    UndoSummary,
)
from turnlog.services.worker.model.model_types import ModelFailure

LONG = "word " * 20
"""100 characters."""


def talker(above: int = 500, **window: object) -> Blueprint:
    """Return a blueprint that summarises all but the last two turns; a character is a token."""
    made: dict[str, Any] = {
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
            "recent": {"summary": {"above_tokens": above, "keep_messages": 4, "call": "summarise"}},
            "older": {"of": "selected"},
        },
        "budget": {
            "window": {
                "tokens": 2000,
                "counter": {"chars_per_token": 1},
                "ladder": [{"drop_oldest_pairs": {}}],
                **window,
            }
        },
        "tools": None,
        "profiles": {"talk": {"default": True, "call": "reply"}},
    }
    return agent(**made)


async def talked(turns: int, kind: Blueprint | None = None) -> Workshop:
    """Run `turns` turns of two hundred characters each."""
    shop = await Workshop(kind=kind or talker()).opened()
    for number in range(1, turns + 1):
        await said(shop, number)
    return shop


async def said(shop: Workshop, number: int, *scripts: list[Line]) -> None:
    """Run a turn; `scripts` come before the reply."""
    await shop.turn(*scripts, [f"reply {number} {LONG}"], text=f"turn {number} {LONG}")


async def test_what_is_older_is_summed_up_by_a_call_of_its_own_before_the_reply() -> None:
    shop = await talked(3)
    await said(shop, 4, ["They spoke of words."])
    (begun,) = shop.events(SummaryBegun)
    assert begun.turns == (TurnRange(first=1, last=1),)
    (made,) = shop.events(HistorySummarised)
    assert (made.view, made.summary) == ("recent", PlainText(text="They spoke of words."))
    assert (made.call, made.model, made.former) == ("4.1", "puppet/one", None)
    assert made.inputs == shop.events(ContextAssembled)[3].manifest.digest
    assert made.cost.micro_dollars is not None
    calls = [each.manifest.kind for each in shop.events(ContextAssembled)]
    assert calls == ["reply", "reply", "reply", "summarise", "reply"]
    assert shop.said(3) == [f"turn 1 {LONG}", f"reply 1 {LONG}", "Sum up what was said."]
    roles = [each["role"] for each in shop.house.model.requests[4].messages]
    assert roles == ["system", "system", *["user", "assistant"] * 2, "user"]
    assert shop.said(4)[1:3] == ["They spoke of words.", f"turn 2 {LONG}"]


async def window(shop: Workshop) -> list[str]:
    """Run a turn that fails and return the messages of its prompt."""
    submitted = await shop.house.submit("and now?")
    shop.house.model.scripts = [[ModelFailure("bad_request", "no")]] * 2
    await shop.house.answer(submitted)
    return shop.said(-1)


async def test_a_summary_undone_gives_the_former_window_byte_for_byte() -> None:
    shop, plain = await talked(3), await talked(3, talker(above=100_000))
    await said(shop, 4, ["They spoke of words."])
    await said(plain, 4)
    (made,) = [e for e in shop.house.events() if isinstance(e.event, HistorySummarised)]
    assert (await window(shop))[1] == "They spoke of words."
    await shop.house.sessions.handle(TENANT, "s", UndoSummary(made.sequence), BY)
    assert await window(shop) == await window(plain)


async def test_a_view_whose_summary_was_undone_is_left_whole_until_it_has_grown_again() -> None:
    shop = await talked(3)
    await said(shop, 4, ["They spoke of words."])
    (made,) = [e for e in shop.house.events() if isinstance(e.event, HistorySummarised)]
    await shop.house.sessions.handle(TENANT, "s", UndoSummary(made.sequence), BY)
    await said(shop, 5)
    await said(shop, 6)
    await said(shop, 7)
    assert len(shop.events(SummaryBegun)) == 1
    await said(shop, 8, ["They spoke on."])
    assert shop.events(SummaryBegun)[1].turns[0].first == 1


async def test_a_summary_takes_the_former_one_in_and_falls_back_to_it() -> None:
    shop = await talked(3)
    await said(shop, 4, ["They spoke of words."])
    await said(shop, 5, ["They spoke of words, and again."])
    first, second = [e for e in shop.house.events() if isinstance(e.event, HistorySummarised)]
    assert shop.events(HistorySummarised)[1].former == first.sequence
    assert shop.said(-2)[0] == "They spoke of words."
    assert shop.said(-1)[1] == "They spoke of words, and again."
    with pytest.raises(Refused, match="took it in"):
        await shop.house.sessions.handle(TENANT, "s", UndoSummary(first.sequence), BY)
    await shop.house.sessions.handle(TENANT, "s", UndoSummary(second.sequence), BY)
    assert (await window(shop))[1] == "They spoke of words."


@pytest.mark.parametrize("cause", ["excluded", "redacted"])
async def test_a_summary_falls_with_a_turn_it_tells_of(cause: str) -> None:
    shop = await talked(3)
    await said(shop, 4, ["They spoke of words."])
    taken = ExcludeTurn(1) if cause == "excluded" else RedactReply(1, "names", "operator", "-")
    await shop.house.sessions.handle(TENANT, "s", taken, BY)
    (undone,) = shop.events(SummaryUndone)
    assert (undone.cause, undone.turn) == (cause, 1)
    await said(shop, 5, ["They spoke of less."])
    assert f"reply 1 {LONG}" not in shop.said(-1)
    assert "They spoke of words." not in str(shop.said(-1))


async def test_a_turn_that_was_left_out_stands_beside_the_summary_once_it_is_restored() -> None:
    shop = await talked(1)
    await shop.house.sessions.handle(TENANT, "s", ExcludeTurn(1), BY)
    for number in (2, 3, 4):
        await said(shop, number)
    await said(shop, 5, ["They spoke of words."])
    assert shop.events(HistorySummarised)[0].turns == (TurnRange(first=2, last=2),)
    await shop.house.sessions.handle(TENANT, "s", RestoreTurn(1), BY)
    assert (await window(shop))[1:3] == ["They spoke of words.", f"turn 1 {LONG}"]


FAILURES: dict[str, list[Line]] = {
    "server_error": [ModelFailure("server_error", "busy")],
    "empty": ["  "],
    "no-shorter": [LONG * 3],
}


@pytest.mark.parametrize("code", FAILURES)
async def test_a_summary_that_fails_blocks_nothing_and_is_tried_again_by_the_next_turn(
    code: str,
) -> None:
    shop = await talked(3)
    await said(shop, 4, FAILURES[code])
    (failed,) = shop.events(SummaryFailed)
    assert (failed.turn, failed.view, failed.code) == (4, "recent", code)
    assert shop.said(-1)[1] == f"turn 1 {LONG}"
    assert [each.call for each in shop.events(AttemptStarted)][-2:] == ["4.1", "4.2"]
    await said(shop, 5, ["They spoke of words."])
    assert shop.said(-1)[1] == "They spoke of words."


async def test_a_summary_does_not_tell_of_a_turn_taken_back_while_it_was_written() -> None:
    shop = await talked(3)
    asked, hold = asyncio.Event(), asyncio.Event()
    shop.house.model.scripts = [[asked.set, hold, "They spoke of words."], ["Well."]]
    submitted = await shop.house.submit(f"turn 4 {LONG}")
    answering = asyncio.create_task(shop.house.answer(submitted))
    await asked.wait()
    await shop.house.sessions.handle(TENANT, "s", ExcludeTurn(1), BY)
    hold.set()
    await answering
    (failed,) = shop.events(SummaryFailed)
    assert failed.code == "withdrawn"
    assert shop.events(HistorySummarised) == []
    assert "They spoke of words." not in str(shop.said(-1))


async def test_a_worker_that_takes_over_has_the_same_summary_made() -> None:
    shop = await talked(3)
    asked = asyncio.Event()
    shop.house.model.scripts = [["half of", asked.set, asyncio.Event()]]
    submitted = await shop.house.submit(f"turn 4 {LONG}")
    lost = asyncio.create_task(shop.house.answer(submitted))
    await asked.wait()
    lost.cancel()
    shop.house.model.scripts = [["They spoke of words."], ["Well."]]
    await shop.taken_over(submitted)
    assert len(shop.events(SummaryBegun)) == len(shop.events(HistorySummarised)) == 1
    calls = [each.call for each in shop.events(ContextAssembled)]
    assert calls == ["1.1", "2.1", "3.1", "4.1", "4.2"]
    assert len(shop.events(CallCompleted)) == 5


async def test_a_purge_leaves_nothing_in_the_window_and_everything_on_the_record() -> None:
    shop = await talked(3)
    await said(shop, 4, ["They spoke of words."])
    await shop.house.sessions.handle(TENANT, "s", PurgeMemory(), BY)
    await shop.house.sessions.handle(TENANT, "s", PurgeMemory(), BY)
    assert shop.events(MemoryPurged) == [MemoryPurged(upto=4)]
    assert await window(shop) == ["Be brief.", "and now?"]
    out = [part.rule for part in shop.events(ContextAssembled)[-1].manifest.parts if not part.kept]
    assert out == ["purged"]


async def test_a_purge_waits_for_the_open_turn() -> None:
    shop = await talked(1)
    await shop.house.submit("wait")
    with pytest.raises(Refused) as refused:
        await shop.house.sessions.handle(TENANT, "s", PurgeMemory(), BY)
    assert refused.value.code == "turn-open"


async def test_a_ladder_that_asks_for_a_summary_has_it_at_the_limit_of_its_component() -> None:
    ladder: list[dict[str, Any]] = [{"summarise": {}}, {"drop_oldest_pairs": {}}]
    limits: dict[str, Any] = {"history": {"tokens": 500, "ladder": ladder}}
    shop = await talked(3, talker(above=100_000, components=limits))
    await said(shop, 4, ["They spoke of words."])
    assert shop.said(-1)[1] == "They spoke of words."


async def test_the_summary_is_the_last_of_the_history_to_go() -> None:
    shop = await talked(3, talker(tokens=520))
    await said(shop, 4, ["They spoke of words."])
    assert shop.said(-1)[1] == "They spoke of words."
    await shop.turn(["They spoke of words, and again."], ["Yes."], text="x" * 500)
    assert shop.said(-1) == ["Be brief.", "x" * 500]
    parts = shop.events(ContextAssembled)[-1].manifest.parts
    history = [(part.rule, part.treatment) for part in parts if part.component == "history"]
    assert history[0] == ("drop_oldest_pairs", "dropped")


async def test_what_was_summed_up_is_had_again_however_far_back_it_lies() -> None:
    shop, plain = await talked(3), await talked(3, talker(above=100_000))
    for number in range(4, 16):
        await said(shop, number, [f"They spoke of {number} words."])
        await said(plain, number)
    assert (await shop.house.state()).earlier
    made = [e.sequence for e in shop.house.events() if isinstance(e.event, HistorySummarised)]
    for sequence in reversed(made[-7:]):
        await shop.house.sessions.handle(TENANT, "s", UndoSummary(sequence), BY)
    with pytest.raises(Refused, match="too far back"):
        await shop.house.sessions.handle(TENANT, "s", UndoSummary(made[-8]), BY)
    for each in (shop, plain):
        await each.house.sessions.handle(TENANT, "s", ExcludeTurn(1), BY)
    assert (await shop.house.state()).summaries == ()
    assert await window(shop) == await window(plain)
