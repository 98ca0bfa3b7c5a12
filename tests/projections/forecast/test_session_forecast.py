"""A forecast says what the assembler does when the session goes on as it has so far."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import JsonValue

from tests.agent_programs.agent_harness import (
    FakeToolServer,
    build_loop_blueprint,
    build_tool_script,
)
from tests.agent_programs.history.test_summaries import build_summarising_blueprint
from tests.projections.forecast.played_records import (
    build_chat_blueprint,
    find_first_cut,
    load_record,
    open_another,
    open_played_session,
    play_turn,
    run_forecast,
)
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.events.content import ErasedText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.memory_events import SummaryBegun
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.forecast.session_forecast import BandWidening, TurnBand, build_turn_band
from turnlog.projections.session.commands import CloseSession, DescribeSession
from turnlog.projections.session.session_description import SessionDescription

LOOK = '{"what": "hammer"}'


async def play_turns(house: SessionHarness, turns: int, characters: int = 20) -> None:
    for _ in range(turns):
        await play_turn(house, characters)


async def test_equal_turns_are_cut_when_forecast_by_the_rule_that_was_named() -> None:
    house = await open_played_session(build_chat_blueprint())
    await play_turns(house, 3)
    found = await run_forecast(house)
    await play_turns(house, 9)
    came = find_first_cut(house.list_events(), after=3)
    assert came > 1
    assert found.turns == TurnBand(p10=came, p50=came, p90=came)
    assert found.expected is not None
    limit = found.expected.limit
    assert (limit.effect, limit.rule, limit.on) == ("cut", "drop_oldest_pairs", "recent")
    assert (limit.kind, limit.component, limit.limit) == ("reply", None, 400)
    assert limit.tokens > 400
    assert (found.expected.share, found.reached_share) == (1.0, 1.0)
    assert found.tokens_per_turn == 40
    assert [each.p50 for each in found.next_turns] == [
        29 + 40 * turn for turn in range(3, 3 + len(found.next_turns))
    ]


async def test_same_record_gives_the_same_forecast_and_one_more_event_other_draws() -> None:
    house = await open_played_session(build_chat_blueprint(tokens=800))
    for characters in (10, 90, 30, 60):
        await play_turn(house, characters)
    first, again = await run_forecast(house), await run_forecast(house)
    assert first == again
    described = DescribeSession(SessionDescription(title="Another head"))
    await house.sessions.handle(TENANT, "s", described, TESTER)
    assert (await run_forecast(house)).lengths != first.lengths


async def test_turns_of_other_sessions_count_less_the_more_the_session_has() -> None:
    house = await open_played_session(build_chat_blueprint(tokens=600))
    await open_another(house, build_chat_blueprint(tokens=600), "wordy")
    for _ in range(4):
        await play_turn(house, 60, "wordy")
    await play_turn(house, 10)
    early = await run_forecast(house, others=["wordy"])
    alone = await run_forecast(house)
    assert (early.own_turns, early.other_turns, early.other_sessions) == (1, 4, 1)
    assert early.turns is not None
    assert alone.turns is not None
    assert early.turns.p50 < alone.turns.p50 / 3
    await play_turns(house, 12, 10)
    late = await run_forecast(house, others=["wordy"])
    assert early.tokens_per_turn is not None
    assert late.tokens_per_turn is not None
    assert late.tokens_per_turn < early.tokens_per_turn * 0.7


async def test_due_summary_is_forecast_with_its_view() -> None:
    house = await open_played_session(build_summarising_blueprint(above=500))
    await play_turns(house, 3, 50)
    found = await run_forecast(house)
    for _ in range(6):
        await play_turn(house, 50)
    begun = next(each.event for each in house.list_events() if isinstance(each.event, SummaryBegun))
    assert found.turns is not None
    assert found.turns.p50 == begun.turn - 3
    assert found.expected is not None
    limit = found.expected.limit
    assert (limit.effect, limit.rule, limit.on, limit.limit) == (
        "summary",
        "summarise",
        "recent",
        500,
    )


async def test_tool_rounds_of_drawn_turns_are_in_their_prompts() -> None:
    window = {
        "tokens": 900,
        "counter": {"chars_per_token": 1},
        "ladder": [{"condense_results": {"layer": "tool_results", "to": "digest"}}],
    }
    messages = [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}]
    kind = build_loop_blueprint(
        calls={"converse": {"messages": messages, "tools": ["all"], "budget": "window"}},
        budget={"window": window},
    )
    house = await open_played_session(kind)
    assert isinstance(house.servers, FakeToolServer)
    house.servers.result_text = "in stock " * 20
    script = build_tool_script(("shop_look", LOOK))
    for _ in range(2):
        await play_turn(house, 30, "s", script)
    found = await run_forecast(house)
    for _ in range(6):
        await play_turn(house, 30, "s", script)
    came = find_first_cut(house.list_events(), after=2)
    assert found.turns is not None
    assert found.turns.p50 == came
    assert found.expected is not None
    limit = found.expected.limit
    assert (limit.rule, limit.on, limit.kind) == ("condense_results", "tool_results", "converse")


async def test_component_with_a_limit_of_its_own_is_named() -> None:
    budget: JsonValue = {
        "window": {
            "tokens": 5_000,
            "counter": {"chars_per_token": 1},
            "components": {"history": {"tokens": 200, "ladder": [{"drop_oldest_pairs": {}}]}},
        }
    }
    house = await open_played_session(build_chat_blueprint(budget=budget))
    await play_turns(house, 2)
    found = await run_forecast(house)
    assert found.expected is not None
    assert found.expected.limit.component == "history"
    await play_turns(house, 6)
    assert found.turns is not None
    assert found.turns.p50 == find_first_cut(house.list_events(), after=2)


async def test_lasting_cut_is_forecast_when_the_window_is_full_again() -> None:
    house = await open_played_session(build_chat_blueprint(step={"to": "50%"}))
    await play_turns(house, 12)
    *_, last = (
        each.event for each in house.list_events() if isinstance(each.event, ContextAssembled)
    )
    assert [step.since for step in last.manifest.steps] == ["11.1"], "it keeps an earlier cut"
    found = await run_forecast(house)
    await play_turns(house, 8)
    assert found.turns is not None
    assert found.turns.p50 == find_first_cut(house.list_events(), after=12) > 1


async def test_input_that_grows_is_forecast_to_grow_on() -> None:
    step: JsonValue = {"trim": {"layer": "state", "chars": [100]}}
    budget: JsonValue = {
        "window": {"tokens": 900, "counter": {"chars_per_token": 1}, "ladder": [step]}
    }
    house = await open_played_session(
        build_chat_blueprint(budget=budget, history={"recent": {"max_turns": 1}})
    )
    for turn in range(1, 7):
        await play_turn(house, 20, inputs={"state": "s" * 50 * turn})
    found = await run_forecast(house)
    for turn in range(7, 20):
        await play_turn(house, 20, inputs={"state": "s" * 50 * turn})
    # The turns are drawn by the record, which has times that are another one's at each run.
    first = find_first_cut(house.list_events(), after=6)
    assert found.turns is not None, "without its growth the input never reaches the budget"
    assert found.turns.p90 is not None
    assert found.turns.p10 <= first <= found.turns.p90
    assert found.expected is not None
    assert found.expected.limit.on == "state"


async def test_prompt_that_nothing_can_shorten_is_forecast_as_refused() -> None:
    budget: JsonValue = {"window": {"tokens": 200, "counter": {"chars_per_token": 1}}}
    house = await open_played_session(build_chat_blueprint(budget=budget))
    await play_turns(house, 3)
    found = await run_forecast(house)
    assert found.turns == TurnBand(p10=3, p50=3, p90=3)
    assert found.expected is not None
    assert found.expected.limit.effect == "refused"


async def test_open_turn_is_ignored_since_its_answer_is_not_known() -> None:
    house = await open_played_session(build_chat_blueprint())
    await play_turns(house, 3)
    before = await run_forecast(house)
    await house.submit_turn("t" * 20)
    found = await run_forecast(house)
    assert found.turns == before.turns


@pytest.mark.parametrize(
    ("tokens", "turns", "characters", "silence"),
    [(400, 0, 0, "no-turns"), (None, 3, 20, "no-limit"), (5_000, 3, 20, "beyond")],
)
async def test_reason_is_given_where_no_turn_can_be_named(
    tokens: int | None, turns: int, characters: int, silence: str
) -> None:
    house = await open_played_session(build_chat_blueprint(tokens=tokens))
    await play_turns(house, turns, characters)
    found = await run_forecast(house)
    assert (found.silent, found.turns) == (silence, None)


async def test_prompts_that_do_not_grow_have_no_next_cut() -> None:
    house = await open_played_session(
        build_chat_blueprint(tokens=2_000, history={"recent": {"max_turns": 1}})
    )
    await play_turns(house, 4)
    found = await run_forecast(house)
    assert (found.silent, found.turns, found.tokens_per_turn) == ("no-growth", None, 0)


async def test_closed_session_is_not_forecast() -> None:
    house = await open_played_session(build_chat_blueprint())
    await play_turns(house, 2)
    await house.sessions.handle(TENANT, "s", CloseSession("done"), TESTER)
    assert (await run_forecast(house)).silent == "closed"


async def test_session_without_a_turn_is_forecast_from_its_blueprint() -> None:
    house = await open_played_session(build_chat_blueprint())
    await open_another(house, build_chat_blueprint(), "other")
    for _ in range(12):
        await play_turn(house, 20, "other")
    found = await run_forecast(house, others=["other"])
    came = find_first_cut((await load_record(house, "other")).events, after=0)
    assert found.turns is not None
    assert found.turns.p50 == came


async def test_text_that_is_gone_ends_only_the_runs_that_would_show_it() -> None:
    house = await open_played_session(build_chat_blueprint())
    await play_turns(house, 2)
    for other in ("whole", "gone"):
        await open_another(house, build_chat_blueprint(), other)
        for _ in range(4):
            await play_turn(house, 20, other)
    assert (await run_forecast(house, others=["gone"], change=erase_reply)).silent == "unknown"
    found = await run_forecast(house, others=["whole", "gone"], change=erase_reply)
    assert 0 < found.runs < 24
    assert found.turns == (await run_forecast(house, others=["whole"])).turns


def erase_reply(recorded: RecordedEvent) -> RecordedEvent:
    """Return an event of the session `gone` without its reply."""
    event = recorded.event
    if recorded.session != "gone" or not isinstance(event, TurnCompleted):
        return recorded
    erased = ErasedText(erased=True, digest=event.text.digest, characters=20)
    return replace(recorded, event=event.model_copy(update={"text": erased}))


def test_band_is_widened_by_a_share_of_its_median() -> None:
    lengths = [float(each) for each in range(6, 15)]
    assert build_turn_band(lengths, BandWidening(near=1, far=1)) == TurnBand(p10=6, p50=10, p90=14)
    assert build_turn_band(lengths, BandWidening(middle=0.5)) == TurnBand(p10=1, p50=10, p90=19)
    near = BandWidening(near=0.9)
    assert build_turn_band([1, 1, 1], near) == TurnBand(p10=1, p50=1, p90=2)
    far = [each + 20 for each in lengths]
    assert build_turn_band(far, BandWidening(far=0.1)) == TurnBand(p10=23, p50=30, p90=37)
    open_end = [*lengths, *[float("inf")] * 3]
    assert build_turn_band(open_end, near).p90 is None
